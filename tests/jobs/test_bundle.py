"""The program as a zip: it runs from there, its data files with it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from jobs.bundle import bundle, zip_to
from migrate.model.errors import ConfigError
from migrate.state.database import sql_steps
from tests.jobs.cluster import bare_python

_FROM_ZIP = """
import jobs.full_copy, jobs.verify, jobs.bundle
from migrate.state.database import sql_steps
print(jobs.full_copy.__file__, jobs.bundle.from_archive(), sql_steps("state"), sql_steps("target"))
"""


def test_the_zip_is_the_whole_program_with_its_sql(tmp_path: Path) -> None:
    files = bundle(tmp_path / "made" / "spark")
    assert [file.name for file in files] == ["migrate.zip", "full_copy.py", "verify.py"]
    python, empty = bare_python(tmp_path), tmp_path / "empty"
    empty.mkdir()
    ran = subprocess.run(
        [python, "-c", _FROM_ZIP],
        cwd=empty,
        env={"PYTHONPATH": str(files[0])},
        capture_output=True,
        text=True,
        timeout=60,
    )
    expected = f"{files[0]}/jobs/full_copy.py True {sql_steps('state')} {sql_steps('target')}\n"
    assert ran.stdout == expected, ran.stderr


def test_the_same_program_gives_the_same_zip(tmp_path: Path) -> None:
    for name in ("one.zip", "two.zip"):
        zip_to(tmp_path / name)
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=f"cannot write to {tmp_path}/file"):
        bundle(tmp_path / "file")
