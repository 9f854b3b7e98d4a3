"""The sources' own rule of a group: what does not fit is named, and where a key is asked for."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from migrate.model.errors import ConfigError, StopError
from migrate.model.message import Row
from migrate.settings import load
from migrate.target.groups import misfits, refuse_misplaced
from migrate.target.home import asked
from migrate.target.routing import Plan
from tests.helpers import SHARDING, make_settings, plain_table, plan_of, raw_settings, text_column

HOME = {
    "nodes": "shop_${0..1}.t",
    "database": {"column": "shard", "algorithm": "INLINE", "props": {"algorithm-expression": "shop_${shard % 2}"}},
}
WHERE = {"shop_0": {"source": "s", "database": "shop"}, "shop_1": {"source": "r", "database": "shop"}}
S, R = ("s", "shop", "t"), ("r", "shop", "t")


def homed(home: dict[str, Any] | None = None, where: dict[str, Any] | None = None, **changes: Any) -> Plan:
    """shop.t of the sources s and r, in one group; a row belongs to s where `shard` is even."""
    server = raw_settings()["sources"][0]
    key = changes.pop("key", ("id",))
    tables = [
        {"name": "shop.t", "source": name, "group": "all", "sharding": SHARDING, "home": home or HOME, **changes}
        for name in "sr"
    ]
    settings = make_settings(
        sources=[{**server, "name": name} for name in "sr"],
        tables=tables,
        source_databases=WHERE if where is None else where,
    )
    table = plain_table(key=key)
    return plan_of(table, replace(table, source="r"), settings=settings)


def test_each_row_belongs_to_one_source_table() -> None:
    planned = homed().tables[S]
    rows: list[Row] = [{"id": "1", "shard": str(shard), "v": ""} for shard in range(4)]
    assert planned.misplaced(rows) == [None, R, None, R]
    assert homed().tables[R].misplaced(rows) == [S, None, S, None]
    assert planned.own_rows == "MOD(`shard`, 2) IN (0)"


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (lambda: homed({"nodes": "other.t"}), r"home: database 'other' is not under 'source_databases'"),
        (lambda: homed({**HOME, "where": 1}), r"table 'all': home\.where is not a known key"),
        (
            lambda: homed({**HOME, "database": {**HOME["database"], "column": "region"}}),  # type: ignore[dict-item]
            r"table 'all': home\.database\.column: table 'all' has no column 'region'",
        ),
        (lambda: homed(where={"shop_0": {"source": "q", "database": "shop"}}), r"there is no source named 'q'"),
        (
            lambda: homed(where={**WHERE, "shop_2": WHERE["shop_1"]}),
            r"source_databases\.shop_2: is the same database as source_databases\.shop_1",
        ),
        (lambda: homed(group=None), r"shop\.t: 'home' tells the tables of a group apart, and it has no 'group'"),
    ],
)
def test_a_rule_that_cannot_be_is_refused_by_what_is_wrong(plan: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        plan()


def test_tables_that_the_rule_and_the_group_do_not_have_in_common_are_named() -> None:
    nodes = {"nodes": "shop_0.t"}
    (never,) = misfits(homed(nodes).tables.values())
    assert "group 'all': its rule at the sources (`home`) never gives r/shop.t" in str(never)
    absent, _ = misfits(homed({"nodes": "shop_0.u"}).tables.values())
    assert "group 'all': its rule at the sources (`home`) names s/shop.u, which is no table of the group" in str(absent)


def test_tables_of_a_group_with_different_rules_are_refused() -> None:
    plan = homed()
    tables = [plan.tables[S], replace(plan.tables[R], belongs=None)]
    assert [re.sub(".*differ in ", "", error.message) for error in misfits(tables)] == [
        "their rule at the sources (`home`)"
    ]


def test_another_rule_is_another_migration() -> None:
    other = homed({**HOME, "nodes": ["shop_0.t", "shop_1.t"]})
    assert homed().tables[S].rule_hash != other.tables[S].rule_hash
    assert homed().tables[S].rule_hash == homed().tables[S].rule_hash


def test_a_key_that_tells_is_asked_for_there_and_where_its_changes_came_from() -> None:
    told = homed(key=("id", "shard")).tables[S]
    assert told.key_tells_home
    assert asked(told.home, told.table, ("1", "3"), ()) == frozenset({R})
    assert asked(told.home, told.table, ("1", "3"), {S}) == frozenset({S, R})
    planned = homed().tables[S]
    assert not planned.key_tells_home
    assert asked(planned.home, planned.table, ("1",), {S}) == frozenset({S})
    assert asked(planned.home, planned.table, ("1",), ()) is None
    assert asked(None, planned.table, ("1",), {S}) is None


def test_a_key_that_only_the_server_can_compare_does_not_tell() -> None:
    plan = homed(key=("id", "shard"))
    table = replace(plan.tables[S].table, columns=(text_column("id"), *plain_table().columns[1:]))
    assert not replace(plan.tables[S], table=table).key_tells_home


def test_the_copy_names_a_row_that_does_not_belong_where_it_is() -> None:
    planned = homed().tables[S]
    refuse_misplaced(planned, {"id": ["1", "2"], "shard": ["0", "2"]}, 2)
    with pytest.raises(StopError, match=r's/shop\.t key \["2"\]: by `home` the row belongs in r/shop\.t'):
        refuse_misplaced(planned, {"id": ["1", "2"], "shard": ["0", "1"]}, 2)


def test_the_rule_may_be_one_of_a_shardingsphere_file(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(
        "rules:\n- !SHARDING\n  tables:\n    all:\n      actualDataNodes: shop_${0..1}.t\n      databaseStrategy:\n"
        "        standard: {shardingColumn: shard, shardingAlgorithmName: by}\n"
        "  shardingAlgorithms:\n    by: {type: INLINE, props: {algorithm-expression: 'shop_${shard % 2}'}}\n"
    )
    server = "{host: h, user: u, password: not-a-sample"
    (tmp_path / "migrate.yaml").write_text(
        f"name: m\nstate: {server}}}\nsources: [{server}, name: s}}, {server}, name: r}}]\n"
        f"targets: [{server}, name: t}}]\ndatabases: {{ds: {{target: t, database: d}}}}\nkafka: {{bootstrap: 'k:1'}}\n"
        "source_databases:\n  shop_0: {source: s, database: shop}\n  shop_1: {source: r, database: shop}\ntables:\n"
        + "".join(
            f"  - {{name: shop.t, source: {one}, group: all, sharding: {{nodes: ds.t}}, home: {{file: rules.yaml}}}}\n"
            for one in "sr"
        )
    )
    settings = load(tmp_path / "migrate.yaml", {})
    plan = plan_of(plain_table(), replace(plain_table(), source="r"), settings=settings)
    assert plan.tables[S].misplaced([{"shard": "1"}, {"shard": "4"}]) == [R, None]
