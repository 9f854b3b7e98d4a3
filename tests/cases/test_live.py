"""Small inputs that are easily got wrong, replayed live in one migration and compared by SELECTs of the test's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from sandbox.broker import KafkaBroker
from sandbox.settings import Flavour
from tests.cases.case import cases
from tests.cases.replay import Replay
from tests.conftest import FLAVOURS

pytestmark = pytest.mark.timeout(600)
_LIVE = [
    pytest.param(flavour, case.name, marks=[pytest.mark.skip(case.open)] if case.open else [])
    for flavour in FLAVOURS
    for case in cases(str(flavour))
    if not case.refused
]


@dataclass
class Seen:
    """Differences by case; the verification then, and one of rows changed by hand, and what was left once repaired."""

    differences: dict[str, list[str]] = field(default_factory=dict)
    clean: Any = None
    wrong: Any = None
    repaired: dict[str, list[str]] = field(default_factory=dict)
    error: Exception | None = None


@pytest.fixture(scope="module")
def seen_of(
    request: pytest.FixtureRequest, kafka: KafkaBroker, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Flavour], Seen]:
    """What was seen of a flavour's cases; they are replayed once."""

    @cache
    def of(flavour: Flavour) -> Seen:
        box = request.getfixturevalue(f"{flavour}_box")
        try:
            return replayed(Replay(box, kafka, Path(tmp_path_factory.mktemp("cases"))))
        except Exception as error:
            return Seen(error=error)

    def checked(flavour: Flavour) -> Seen:
        if (error := of(flavour).error) is not None:
            raise error
        return of(flavour)

    return checked


def replayed(replay: Replay) -> Seen:
    by_name, found = {case.name: case for case in replay.cases}, Seen()
    with replay.running():
        migration = replay.migration
        replay.write("early")
        migration.do("copy")
        migration.do("refresh", f"{replay.source}.lt", "1")
        migration.do("refresh", f"{replay.source}.fd", "3")
        replay.as_application(
            "locks_left",
            "SET SESSION innodb_lock_wait_timeout = 5, lock_wait_timeout = 5",
            "UPDATE lt SET v = 9 WHERE id = 1",
            "ALTER TABLE lt ADD INDEX (v)",
        )
        replay.write("live", "target")
        migration.ask("drain", "--timeout", "60")
        found.differences = {case.name: replay.differences(case) for case in replay.cases}
        found.clean = migration.ask("verify", accept=(0, 1))
        replay.at_target(
            "INSERT INTO ek VALUES (1, 'a', 1)",
            "UPDATE es SET v = 99 WHERE id = 1",
            "DELETE FROM es WHERE id = 2",
            "UPDATE fd SET v = 1, w = 1 WHERE id = 2",
            "SET SESSION sql_mode = ''",
            "DELETE FROM lg WHERE id = 3",
            "UPDATE lv SET a = 1 WHERE id = 3",
        )
        found.wrong = migration.ask("verify", "--repair", accept=(0, 1))
        migration.ask("drain", "--timeout", "60")
        by_hand = ("enum_in_composite_key", "enum_key_seen", "float_digits", "lax_generated")
        found.repaired = {name: replay.differences(by_name[name]) for name in by_hand}
    return found


@pytest.mark.parametrize(("flavour", "name"), _LIVE)
def test_every_row_and_column_is_as_at_the_source(
    seen_of: Callable[[Flavour], Seen], flavour: Flavour, name: str
) -> None:
    """Lost: what cascades of other people's tables changed in children, and what each case's own file tells of."""
    assert seen_of(flavour).differences[name] == []


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_certificate_is_clean_and_counts_every_row(seen_of: Callable[[Flavour], Seen], flavour: Flavour) -> None:
    seen = seen_of(flavour)
    assert {one["table"].split(".")[1]: one["differences"] for one in seen.clean["tables"] if one["differences"]} == {}
    rows = {one["table"].split(".")[1]: one["rows"] for one in seen.clean["tables"]}
    assert (rows["dk"], rows["dm"], rows["dc"], rows["su"], rows["ek"]) == (2, 2, 2, 903, 2)


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_rows_that_are_changed_by_hand_are_named_and_then_mended(
    seen_of: Callable[[Flavour], Seen], flavour: Flavour
) -> None:
    seen = seen_of(flavour)
    named = {one["table"].split(".")[1]: [item["key"] for item in one["mended"]] for one in seen.wrong["tables"]}
    assert {name: sorted(keys) for name, keys in named.items() if keys} == {
        "ek": [["1", "1"]],
        "es": [["1", "1"], ["1", "2"], ["2", "1"], ["2", "2"]],
        "fd": [["2"]],
        "lg": [["3"]],
        "lv": [["3"]],
    }
    assert set(map(tuple, seen.repaired.values())) == {()}
