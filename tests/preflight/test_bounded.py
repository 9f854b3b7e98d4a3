"""What preflight reads of a table has an end, in rows and in time."""

from __future__ import annotations

from migrate.mysql.connection import Connection
from migrate.preflight import limits, shards
from migrate.preflight.result import Verdict
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
        "ANALYZE TABLE t",
    )
    case.raw["tables"][0]["rows"] = [{"column": "v", "is": "ours"}]
    planned = case.table()
    with session(case.box.source) as connection:
        before = _read(connection)
        found = one(shards.check(connection, planned))
        assert _read(connection) - before < 4 * shards.SAMPLE + 1000
    assert (found.verdict, found.message.partition(" rows looked at")[0]) == (Verdict.PASS, f"{case.database}.t: 2")
    case.at_source("UPDATE t SET v = 'theirs' WHERE id IN (1001, 40999)")
    with session(case.box.source) as connection:
        found = one(shards.check(connection, planned))
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
