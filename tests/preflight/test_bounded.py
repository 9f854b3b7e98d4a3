"""What preflight reads of a table has an end, in rows and in time."""

from __future__ import annotations

import pytest

from migrate.mysql.connection import Connection
from migrate.preflight import limits
from migrate.preflight.result import Verdict
from migrate.preflight.schema import shards
from tests.preflight.support import Case, one, session
from tests.preflight.test_each_by_itself import looked_while_locked, unseen, with_another

_ROWS = 40_000


def _read(connection: Connection) -> int:
    """Rows of tables that the session has read so far: on both servers those of the engine are Handler_read_*, among
    them what a derived table gave."""
    return sum(int(row[1]) for row in connection.query("SHOW SESSION STATUS LIKE 'Handler_read%%'"))


def test_conditions_that_few_rows_meet_do_not_have_the_whole_table_read(case: Case) -> None:
    case.at_source(
        "DELETE FROM t",
        "INSERT INTO t (id, user_id) WITH RECURSIVE seq (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM seq"
        f" WHERE n < 1000) SELECT 1000 * a.n + b.n, a.n FROM seq a JOIN seq b ON a.n <= {_ROWS // 1000}",
        "UPDATE t SET v = 'ours' WHERE id IN (1001, 20000, 40999)",
        "ALTER TABLE t MODIFY user_id BIGINT NOT NULL",  # for NULL the whole table is looked through, in its time
        "ANALYZE TABLE t",
    )
    case.raw["tables"][0]["rows"] = [{"column": "v", "is": "ours"}]
    planned = case.table()
    with session(case.box.source) as connection:
        before = _read(connection)
        found = one(shards.check(connection, planned, {}))
        assert _read(connection) - before < 4 * shards.SAMPLE + 1000
    assert (found.verdict, found.message.partition(" rows looked at")[0]) == (Verdict.PASS, f"{case.database}.t: 2")
    case.at_source("UPDATE t SET v = 'theirs' WHERE id IN (1001, 40999)")
    with session(case.box.source) as connection:
        found = one(shards.check(connection, planned, {}))
    assert "none of the rows looked at belongs to the migration" in found.message


def test_a_table_that_is_locked_is_not_waited_for_and_hides_no_other(case: Case) -> None:
    with_another(case)
    with looked_while_locked(case, "t") as (_, results):
        pass  # it ends by itself, while the table is locked
    assert unseen(results) == [("sharding", f"{case.database}.t")]
    (found,) = [result for result in results if result.verdict is Verdict.UNKNOWN]
    assert found.message.startswith(f"source 's', check 'sharding' of {case.database}.t: Query ")
    assert found.mend == limits.TOOK_LONG
    assert {"counters", "sharding"} <= {result.check for result in results if result.subject == f"{case.database}.u"}


def test_a_null_far_from_both_ends_of_the_key_is_found_and_its_column_named(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "SAMPLE", 10)
    case.at_source("UPDATE t SET user_id = NULL WHERE id = 450")
    planned = case.table()
    with session(case.box.source) as connection:
        spread, found = shards.check(connection, planned, {})
        assert (spread.verdict, found.verdict) == (Verdict.PASS, Verdict.PROBLEM)
        assert f"{case.database}.t: user_id is NULL in a row at least" in found.message
        case.raw["tables"][0]["rows"] = [{"column": "id", "at_most": 449}]
        assert one(shards.check(connection, case.table(), {})).verdict is Verdict.PASS, "it is left out"
        case.at_source("UPDATE t SET user_id = NULL WHERE id = 5")
        (told,) = shards.check(connection, planned, {})
        assert (told.verdict, "none like id = 5" in told.message) == (Verdict.PROBLEM, True), "once"
        case.at_source("DELETE FROM t WHERE user_id IS NULL", "ALTER TABLE t MODIFY user_id BIGINT NOT NULL")
        del case.raw["tables"][0]["rows"]
        assert one(shards.check(connection, case.table(), {})).verdict is Verdict.PASS


def test_whether_there_is_a_null_that_takes_too_long_to_see_is_a_note(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shortly(connection: Connection, select: str) -> str:
        """A thousandth of the time, for what reads the whole table."""
        sql = limits.limited(connection, select)
        return sql.replace("(5000)", "(1)").replace("= 5 ", "= 0.001 ") if "IS NULL" in sql else sql

    case.at_source(
        "INSERT INTO t (user_id, v) SELECT 1, REPEAT('x', 40) FROM t a JOIN t b ON b.id <= 200",
    )
    monkeypatch.setattr(shards, "limited", shortly)
    with session(case.box.source) as connection:
        spread, found = shards.check(connection, case.table(), {})
    assert (spread.check, found.verdict) == ("sharding", Verdict.NOTE)
    assert "whether user_id is NULL in a row" in found.message
    assert case.box.source.query(found.mend.partition(": ")[2]) == ()
