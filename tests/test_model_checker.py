"""The runner of the protocol's models; the models themselves are searched by `make model`."""

import re

import pytest

from tests.model_checker import BROKEN, DIRECTORY, MODELS, CheckError, check, main


def test_a_model_holds_and_without_its_rule_says_what_happened() -> None:
    assert check("certificate.pml", "").holds
    found = check("certificate.pml", "", "BINDING")
    assert not found.holds
    assert found.trail[-1] == "cutover: switches, rows equal: 0 1"
    assert len(found.trail) < 10


def test_a_rule_that_is_not_missed_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.model_checker.BROKEN", [BROKEN[-1].__class__("r", "w", "NOTHING", "certificate.pml")])
    assert main(["--broken"]) == 1


def test_a_search_that_is_not_done_in_time_is_no_result() -> None:
    with pytest.raises(CheckError, match="not done within 0 s"):
        check("certificate.pml", "", seconds=0.01)


def test_without_spin_one_line_says_what_installs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert main([]) == 1
    assert capsys.readouterr().err == "model: spin is not installed: `make servers` installs it\n"


def test_each_rule_of_a_model_is_taken_out_and_each_model_is_searched() -> None:
    files = sorted(DIRECTORY.glob("*.pml"))
    for file in files:
        named = set(re.findall(r"WITHOUT_(\w+)", file.read_text()))
        taken = {
            word.removeprefix("WITHOUT_") for one in BROKEN if one.file == file.name for word in one.without.split()
        }
        assert named == taken, file.name
    assert {model.file for model in MODELS} == {file.name for file in files}
