"""Ids that several servers give, to tables that become one, and ranges for target tables that are not full yet."""

from __future__ import annotations

import re
from typing import Any

import pytest

from migrate.preflight.result import Result, Verdict
from migrate.preflight.schema import auto_increment
from tests.preflight.support import BY_USER, Case, one, session

_GROUP = "orders"
_BY_ONE = {**BY_USER, "table": {**BY_USER["table"], "column": "user_id"}}


def grouped(case: Case, sharding: dict[str, Any]) -> None:
    """Tables `t` and `u` of one source share their target tables."""
    case.at_source("CREATE TABLE IF NOT EXISTS u LIKE t")
    case.raw["tables"] = [
        {"name": f"{case.database}.{name}", "group": _GROUP, "sharding": sharding} for name in ("t", "u")
    ]


def looked(case: Case, **changed: Any) -> list[Result]:
    """changed: settings of table u's server, as if it were another one."""
    plan = case.plan()
    with session(case.box.source) as connection:
        seen = {id_: auto_increment.look(connection, planned) for id_, planned in plan.tables.items()}
    for name, value in changed.items():
        for id_, counter in seen.items():
            object.__setattr__(counter, name, value[id_[2] == "u"])
    return list(auto_increment.check(plan, seen, {}))


def begins(found: Result) -> list[int]:
    return [int(number) for number in re.findall(r"AUTO_INCREMENT = (\d+)", found.mend)]


def test_grouped_tables_that_count_alike_into_one_target_table_are_named(case: Case) -> None:
    grouped(case, {"nodes": "ds_0.t"})
    of_targets, of_sources = looked(case)
    assert of_targets.verdict is Verdict.PASS
    assert (of_sources.verdict, of_sources.subject) == (Verdict.NOTE, f"group '{_GROUP}'"), "u is empty"
    assert f"the servers count id of s/{case.database}.t, s/{case.database}.u by the same steps" in of_sources.message
    rule = "have a `key` with the columns by which the sources are sharded, and give their rule as `home`"
    assert of_sources.mend == f"have the application make values of id; or {rule}", "one server has one step for both"
    case.at_source("INSERT INTO u (user_id) VALUES (1)")
    _, of_sources = looked(case)
    assert (of_sources.verdict, ", and they have the same ones" in of_sources.message) == (Verdict.PROBLEM, True)
    assert of_sources in case.report(services=True).results
    case.at_source("ALTER TABLE u MODIFY id BIGINT UNSIGNED NOT NULL")
    assert [one.verdict for one in looked(case)] == [Verdict.PASS], "one of them counts"


def test_tables_of_which_the_key_tells_the_one_where_a_row_belongs_may_count_alike(case: Case) -> None:
    case.at_source("ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id, user_id)")
    grouped(case, {"nodes": "ds_0.t"})
    _, of_sources = looked(case)
    assert "unless another column of the key tells the tables apart" in of_sources.message
    case.raw["source_databases"] = {"shop": {"source": "s", "database": case.database}}
    expression = "${user_id % 2 == 0 ? 't' : 'u'}"
    table = {"column": "user_id", "algorithm": "INLINE", "props": {"algorithm-expression": expression}}
    for raw in case.raw["tables"]:
        raw["home"] = {"nodes": ["shop.t", "shop.u"], "table": table}
    assert [one.verdict for one in looked(case)] == [Verdict.PASS]


@pytest.mark.parametrize(
    ("steps", "offsets", "apart"),
    [
        ((1, 1), (1, 1), False),
        ((2, 2), (1, 2), True),
        ((2, 2), (1, 1), False),
        ((2, 3), (1, 2), False),  # 5 is of both
        ((4, 2), (3, 2), True),
        ((2, 2), (1, 4), False),  # an offset above the step is ignored
    ],
)
def test_servers_that_count_in_steps_of_their_own_are_told_apart(
    case: Case, steps: tuple[int, int], offsets: tuple[int, int], apart: bool
) -> None:
    grouped(case, {"nodes": "ds_0.t"})
    more = looked(case, server=[("one", 1, "/"), ("other", 1, "/")], step=steps, offset=offsets)[1:]
    assert [one.verdict for one in more] == ([] if apart else [Verdict.NOTE])
    if not apart:
        assert "s: SET GLOBAL auto_increment_increment = 2, GLOBAL auto_increment_offset = 2" in more[0].mend


def test_the_tables_of_a_group_get_one_set_of_ranges_above_all_their_ids(case: Case) -> None:
    grouped(case, _BY_ONE)
    case.at_source("INSERT INTO u (id, user_id) VALUES (7000000, 1)")
    found = [one for one in looked(case) if begins(one)]
    assert [one.subject for one in found] == [f"group '{_GROUP}'"]
    assert begins(found[0])[0] == 14_000_001


def test_ranges_of_a_young_table_leave_room_for_what_comes_until_the_cutover(case: Case) -> None:
    """Otherwise the first table's range begins among the ids that are copied, and it counts on into the second's."""
    case.raw["tables"][0]["sharding"] = _BY_ONE
    case.at_source("DELETE FROM t WHERE id > 10")
    (found,) = looked(case)
    first = begins(found)[0]
    assert first == 1_000_011
    assert found.mend.endswith(
        f"; run preflight again just before it: the highest id is 10 now, and must stay below {first}"
    )
    case.at_source("ALTER TABLE t MODIFY id MEDIUMINT AUTO_INCREMENT")
    first, second, *_ = begins(looked(case)[0])
    assert (first, second - first) == (1_000_011, (2**23 - 1 - first) // 4), "as far as the type goes"


def test_ranges_that_the_target_tables_have_are_not_advised_again(case: Case) -> None:
    case.raw["tables"][0]["sharding"] = _BY_ONE

    def told() -> Result:
        return one([found for found in case.report(services=True).results if found.check == "counters"])

    advised = told()
    assert (advised.verdict, len(begins(advised))) == (Verdict.NOTE, 4), "no target table is there"
    for server in case.box.targets:
        server.execute(f"CREATE DATABASE {case.database}")
        for number in range(2):
            server.execute(
                f"CREATE TABLE {case.database}.t_{number}"
                " (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, user_id BIGINT, v VARCHAR(40))"
            )
    assert told() == advised, "they give the same ids"

    def give(statement: str) -> None:
        target, _, sql = statement.partition(": ")
        case.box.targets[int(target[1:])].execute(sql)

    statements = advised.mend.partition("cutover: ")[2].split("; ")[:4]
    for statement in statements[:3]:
        give(statement)
    assert told() == advised, "one begins below the highest"
    give(statements[3])
    found = told()
    first, second, *_ = begins(advised)
    assert (found.verdict, found.mend) == (Verdict.PASS, ""), found.message
    assert f"ranges of {second - first:,} ids and more: the first begins at {first}, which the highest id, 900 now" in (
        found.message
    )
    give(statements[3].replace(str(begins(advised)[3]), str(begins(advised)[2] + 1000)))
    assert told() == advised, "a thousand ids are no range"
    give(statements[3])
    assert told() == found
    case.at_source(f"INSERT INTO t (id, user_id) VALUES ({first}, 1)")
    assert (told().verdict, begins(told())[0]) == (Verdict.NOTE, 2 * first + 1)
