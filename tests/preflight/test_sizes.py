"""Rows that no message to Kafka takes are told before the publisher stops at one."""

from __future__ import annotations

import pytest

from migrate.preflight.capacity import row_sizes
from migrate.preflight.result import Result, Verdict
from tests.preflight.support import Case, session

_LIMIT = 1_000_000


def looked(case: Case) -> list[Result]:
    tables = list(case.plan().tables.values())
    with session(case.box.source, "source 's'") as connection:
        return list(row_sizes.check(connection, tables, case.settings))


def test_a_table_whose_rows_may_be_above_the_limit_is_noted_with_what_happens_then(case: Case) -> None:
    assert looked(case) == [], "VARCHAR(40)"
    case.at_source("ALTER TABLE t ADD x TEXT, ADD y BLOB")
    assert looked(case) == []
    for column in ("MEDIUMTEXT", "LONGBLOB", "JSON", "GEOMETRY"):
        case.at_source(f"ALTER TABLE t ADD z {column}")
        (found,) = looked(case)
        assert (found.verdict, found.subject) == (Verdict.NOTE, "source 's'"), column
        assert f"a row of {case.database}.t may be longer than a message, 1,000,000 bytes" in found.message
        assert found.message.endswith("; the publisher stops at the first change of such a row")
        assert "publish.oversized: park" in found.mend
        case.at_source("ALTER TABLE t DROP z")
    case.at_source("ALTER TABLE t ADD z LONGTEXT")
    case.raw["publish"] = {"oversized": "park"}
    (found,) = looked(case)
    assert "is left out of the stream, and `migrate status` names it" in found.message
    case.raw["kafka"]["max_message_bytes"] = 2**31
    (found,) = looked(case)
    assert found in case.report(services=True).results
    case.at_source("ALTER TABLE t MODIFY z MEDIUMTEXT")
    assert looked(case) == []


@pytest.mark.parametrize("column", ["MEDIUMTEXT CHARACTER SET latin1", "MEDIUMTEXT", "MEDIUMBLOB"])
def test_a_row_above_the_limit_is_a_problem_and_a_note_where_it_is_parked(case: Case, column: str) -> None:
    case.at_source(f"ALTER TABLE t ADD z {column}", f"UPDATE t SET z = REPEAT('x', {_LIMIT}) WHERE id = 3")
    assert [one.verdict for one in looked(case)] == [Verdict.NOTE], "it is just not above"
    case.at_source("UPDATE t SET z = CONCAT(z, 'x') WHERE id = 3")
    found, _ = looked(case)
    assert (found.verdict, found.subject) == (Verdict.PROBLEM, f"{case.database}.t")
    assert "has a row of 1,000,001 bytes, above kafka.max_message_bytes (1,000,000)" in found.message
    case.raw["publish"] = {"oversized": "park"}
    assert [one.verdict for one in looked(case)] == [Verdict.NOTE, Verdict.NOTE]
    case.raw["tables"][0]["rows"] = [{"column": "id", "at_least": 4}]
    assert [one.subject for one in looked(case)] == ["source 's'"], "such a row is not of the migration"
