"""Rows that stand at a source table where they do not belong: counted where the server can, else looked for."""

from __future__ import annotations

from typing import Any

import pytest

from migrate.preflight.result import Result, Verdict
from migrate.preflight.schema import misplaced
from tests.preflight.support import BY_USER, Case, session

BY_HALF = {
    "column": "user_id",
    "algorithm": "INLINE",
    "props": {"algorithm-expression": "${user_id < 450 ? 't' : 'u'}"},
}
BY_REST = {"column": "user_id", "algorithm": "INLINE", "props": {"algorithm-expression": "t${user_id % 2}"}}


def homed(case: Case, names: str, by: dict[str, Any]) -> None:
    """Two tables of one source in a group. The first is `t`, whose row n has user_id n / 2, whole numbers to 450."""
    first, *others = names.split()
    for name in others:
        case.at_source(f"CREATE TABLE {name} LIKE {first}")
    case.raw["source_databases"] = {"db": {"source": "s", "database": case.database}}
    nodes = [f"db.{name}" for name in names.split()]
    case.raw["tables"] = [
        {
            "name": f"{case.database}.{name}",
            "group": "all",
            "sharding": BY_USER,
            "home": {"nodes": nodes, "table": by},
        }
        for name in names.split()
    ]


def looked(case: Case) -> list[Result]:
    with session(case.box.source) as connection:
        return [one for planned in case.plan().tables.values() for one in misplaced.check(connection, planned)]


def test_rows_are_looked_for_at_both_ends_where_no_server_computes_the_rule(case: Case) -> None:
    homed(case, "t u", BY_HALF)
    of_t, of_u = looked(case)
    name = f"s/{case.database}"
    assert (of_t.verdict, of_u.verdict) == (Verdict.PROBLEM, Verdict.PASS)
    assert of_t.message == (
        f'{name}.t: 1 row of 900 looked at does not belong there by `home`: key ["900"] belongs in {name}.u'
    )
    case.at_source("UPDATE t SET user_id = 1 WHERE user_id = 450")
    assert looked(case)[0].message == f"{name}.t: each of 900 rows looked at belongs there by `home`"


def test_all_rows_are_counted_where_the_server_computes_the_rule(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    case.at_source("RENAME TABLE t TO t0")
    homed(case, "t0 t1", BY_REST)
    case.at_source("UPDATE t0 SET user_id = 2 * id", "UPDATE t0 SET user_id = 7 WHERE id BETWEEN 400 AND 401")
    monkeypatch.setattr("migrate.preflight.schema.shards.SAMPLE", 10)  # of a table with 5,000 times as many rows
    of_t0, of_t1 = looked(case)
    assert (of_t0.verdict, of_t1.verdict) == (Verdict.PROBLEM, Verdict.PASS)
    assert of_t0.message == (
        f"s/{case.database}.t0: 2 rows of all do not belong there by `home`:"
        f' key ["400"] belongs in s/{case.database}.t1'
    )
    assert of_t1.message.endswith("every row belongs there by `home`")
    assert of_t0 in case.report(services=True).results


def test_how_rows_spread_is_told_of_all_tables_of_a_group_together(case: Case) -> None:
    """Lost: an advice of use, among a note of skew for each old table, as each fills few of the new ones."""
    case.at_source("RENAME TABLE t TO t0")
    homed(case, "t0 t1", BY_REST)
    case.at_source(
        "INSERT INTO t1 SELECT * FROM t0", "UPDATE t0 SET user_id = 2 * id", "UPDATE t1 SET user_id = 2 * id + 1"
    )
    of = {one.subject: one for one in case.report(services=True).results if one.check == "sharding"}
    told = of["group 'all'"]
    assert (told.verdict, "1,800 rows looked at of 2 source tables go to 4 of 4 tables" in told.message) == (
        Verdict.PASS,
        True,
    )
    for name in ("t0", "t1"):
        one = of[f"{case.database}.{name}"]
        assert (one.verdict, "go to 2 of 4 tables, which others fill too" in one.message) == (Verdict.PASS, True)
    case.at_source("UPDATE t0 SET user_id = 0", "DELETE FROM t1")
    (told,) = (
        one for one in case.report(services=True).results if one.subject == "group 'all'" and "skew" in one.message
    )
    assert (told.verdict, "go to 2 of 4 tables, skew 2.00" in told.message) == (Verdict.PASS, True)


def test_a_null_where_the_rule_looks_does_not_belong_anywhere(case: Case) -> None:
    case.at_source("RENAME TABLE t TO t0", "UPDATE t0 SET user_id = NULL WHERE id = 3")
    case.at_source("UPDATE t0 SET user_id = 2 * id WHERE id <> 3")
    homed(case, "t0 t1", BY_REST)
    (of_t0, _) = looked(case)
    assert '1 row of all does not belong there by `home`: key ["3"] table all: NULL in the sharding column' in (
        of_t0.message
    )
