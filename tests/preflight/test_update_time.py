"""What preflight says of `tables[].update_time`: at the source, and at a target that has its table already."""

from __future__ import annotations

import pytest

from migrate.preflight.result import Verdict
from migrate.preflight.schema import existing, update_time
from tests.preflight.support import BY_USER, Case, one, session


def filtered(case: Case, column: str, definition: str = "") -> None:
    """Gives the table the setting, and the column where it is to be made."""
    if definition:
        case.at_source(f"ALTER TABLE t ADD COLUMN {column} {definition}")
    case.raw["tables"] = [{"name": f"{case.database}.t", "update_time": column, "sharding": BY_USER}]


@pytest.mark.parametrize(
    ("column", "definition", "verdict", "told"),
    [
        ("at", "TIMESTAMP(6) NOT NULL DEFAULT '2026-01-01 00:00:00'", Verdict.PASS, "column at (timestamp(6)) tells"),
        ("version", "BIGINT NOT NULL DEFAULT 0", Verdict.PASS, "column version (bigint"),
        (
            "at",
            "DATETIME NOT NULL DEFAULT '2026-01-01 00:00:00'",
            Verdict.NOTE,
            "; it has whole seconds: a change of the",
        ),
        ("at", "DATETIME(3) NULL", Verdict.NOTE, "; it takes NULL: a change is applied where it or"),
    ],
)
def test_a_column_that_tells_an_order_passes_and_what_it_lets_through_is_said(
    case: Case, column: str, definition: str, verdict: Verdict, told: str
) -> None:
    filtered(case, column, definition)
    found = one(list(update_time.check(case.plan())))
    assert (found.subject, found.verdict) == (f"{case.database}.t", verdict)
    assert told in found.message


@pytest.mark.parametrize(
    ("column", "definition", "told", "mend"),
    [
        ("day", "DATE NULL", "column day (date) cannot be compared as a time", "name a DATETIME, a TIMESTAMP or an "),
        ("nowhere", "", "'nowhere' is not a column of the table", "its columns: id, user_id, v; or leave update_time"),
    ],
)
def test_a_column_that_tells_no_order_is_a_problem_by_its_name(
    case: Case, column: str, definition: str, told: str, mend: str
) -> None:
    filtered(case, column, definition)
    results = case.report(services=True).results
    found = one([result for result in results if result.check == update_time.CHECK])
    assert (found.subject, found.verdict) == (f"{case.database}.t", Verdict.PROBLEM)
    assert found.message == f"tables: {case.database}.t: update_time: {told}"
    assert found.mend.startswith(mend)
    assert not [result for result in results if result.check == "sharding" and result.verdict is Verdict.PROBLEM]


def test_a_target_table_with_another_type_of_the_column_is_a_problem(case: Case) -> None:
    filtered(case, "at", "DATETIME(3) NULL")
    columns = "id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, user_id BIGINT, v VARCHAR(40), at VARCHAR(30)"
    case.box.targets[0].execute(f"CREATE DATABASE {case.database}", f"CREATE TABLE {case.database}.t_0 ({columns})")
    with session(case.box.targets[0]) as connection:
        kinds = {"s": connection.flavour}
        found = one(list(existing.check_target(connection, case.plan(), "t0", (), kinds, {})))
    assert found.verdict is Verdict.PROBLEM
    assert "other columns than" in found.message
    assert "at (" in found.message
