"""The reverse stream's settings: each place a table of its server, each server once; what has none is refused."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from migrate.cutover.reverse_settings import reversed_settings
from migrate.model.errors import ConfigError
from migrate.model.message import Row
from migrate.model.table import Column, Kind, Table, TableId
from migrate.settings import Settings, TableSettings, parse
from migrate.sharding.rule import build_rule
from migrate.target.home import MirrorTable, ShardTable
from migrate.target.routing import Plan

COLUMNS = tuple(Column(name, "bigint", Kind.INT, nullable=False) for name in ("id", "user_id", "code"))
RULE = {
    "nodes": "ds_${0..1}.orders_${0..1}",
    "database": {"column": "user_id", "algorithm": "MOD", "props": {"sharding-count": 2}},
    "table": {"column": "id", "algorithm": "MOD", "props": {"sharding-count": 2}},
}
ORDERS = {"name": "shop.orders", "sharding": RULE, "ddl": "ignore"}
COUNTRIES = {"name": "shop.countries", "sharding": {"nodes": "ds_2.countries"}}
AUDITS = {"name": "shop.audits", "sharding": {**RULE, "nodes": "ds_${0..1}.audits_${0..1}"}}
EARLIER = {"name": "archive.audits", "sharding": AUDITS["sharding"]}
"""Stand before the others: one in their database, and one in another that sorts earlier."""


def server(host: str, port: int = 3306) -> dict[str, Any]:
    return {"host": host, "port": port, "user": "migrate", "password": "not-a-sample-1"}


def configured(**more: Any) -> Settings:
    raw: dict[str, Any] = {
        "name": "shop",
        "state": server("state"),
        "sources": [{"name": "main", **server("old")}],
        "targets": [
            {"name": "t0", **server("new")},
            {"name": "t1", **server("NEW")},
            {"name": "t2", **server("other")},
        ],
        "databases": {
            "ds_0": {"target": "t0", "database": "shop_0"},
            "ds_1": {"target": "t1", "database": "shop_1"},
            "ds_2": {"target": "t2", "database": "shop_2"},
        },
        "kafka": {"bootstrap": "kafka:9092", "topics": {"more": ["shop.*"]}},
        "tables": [ORDERS, COUNTRIES],
    }
    return parse({**raw, **more}, {})


def tables(**of_orders: Any) -> dict[tuple[str, str, str], Table]:
    orders = replace(Table("main", "shop", "orders", COLUMNS, ("id",)), **of_orders)
    countries = Table("main", "shop", "countries", COLUMNS, ("id",), (("code",),))
    return {orders.id: orders, countries.id: countries}


def back(settings: Settings, **of_orders: Any) -> Settings:
    return reversed_settings(settings, Plan(settings, tables(**of_orders)))


def hashes(*configs: dict[str, Any]) -> dict[TableId, tuple[str, str]]:
    """Of the reverse stream's tables: what says whether a migration that began is still the same."""
    settings = configured(tables=list(configs))
    there = [Table("main", one.database, one.table, COLUMNS, ("id",)) for one in settings.tables]
    way = reversed_settings(settings, Plan(settings, {one.id: one for one in there}))
    places = [Table(one.source or "", one.database, one.table, COLUMNS, ("id",)) for one in way.tables]
    plan = Plan(way, {one.id: one for one in places})
    return {id_: (planned.rule_hash, planned.base_hash) for id_, planned in plan.tables.items()}


def test_places_become_tables_of_their_servers_and_the_sources_targets() -> None:
    way = back(configured())
    assert (way.name, way.topic, way.group) == ("shop-reverse", "migrate.shop-reverse", "migrate.shop-reverse")
    assert [(one.name, one.host) for one in way.sources] == [("t0", "new"), ("t2", "other")]  # one server, one binlog
    assert [(one.name, one.host) for one in way.targets] == [("main", "old")]
    (shop,) = way.databases
    assert (way.databases[shop].target, way.databases[shop].database) == ("main", "shop")
    (group,) = {one.group for one in way.tables} - {None}
    told = [(one.source, one.name, one.group, one.ddl.columns, one.sharding["nodes"]) for one in way.tables]
    assert told == [
        *(
            ("t0", f"shop_{database}.orders_{table}", group, "ignore", f"{shop}.orders")
            for database in (0, 1)
            for table in (0, 1)
        ),
        ("t2", "shop_2.countries", None, "stop", f"{shop}.countries"),
    ]
    assert way.run_dir.name == "reverse"
    assert way.topics == (way.topic,)


def test_the_nodes_of_a_broadcast_table_are_one_table_and_its_mirrors() -> None:
    settings = configured(tables=[ORDERS, {**COUNTRIES, "sharding": {"broadcast": "ds_${0..2}.countries"}}])
    way = back(settings)
    first, *others = [one for one in way.tables if one.table == "countries"]
    assert (first.source, first.name, first.group, type(first)) == ("t0", "shop_0.countries", None, TableSettings)
    assert [(one.source, one.name) for one in others] == [("t0", "shop_1.countries"), ("t2", "shop_2.countries")]
    assert [one.mirror_of for one in others if isinstance(one, MirrorTable)] == [("t0", "shop_0", "countries")] * 2
    assert {one.sharding["nodes"] for one in (first, *others)} == {first.sharding["nodes"]}


@pytest.mark.parametrize(
    "others",
    [
        pytest.param((COUNTRIES, ORDERS), id="another order"),
        pytest.param((AUDITS, ORDERS, COUNTRIES), id="a table before them"),
        pytest.param((EARLIER, ORDERS, COUNTRIES), id="a table of another source database"),
    ],
)
def test_a_tables_hashes_hold_whatever_other_tables_there_are(others: tuple[dict[str, Any], ...]) -> None:
    """Else a running migration would be taken for another one when one is added, taken out or moved in the config."""
    before = hashes(ORDERS, COUNTRIES)
    assert len(before) == 5
    assert {id_: found for id_, found in hashes(*others).items() if id_ in before} == before


def test_names_are_the_same_in_every_process() -> None:
    """They are stored: one that came out another way after an update would end a running migration."""
    way = back(configured())
    assert list(way.databases) == ["shop_700f0d95ea77f380"]
    assert {one.group for one in way.tables} == {"orders_3957e149549f745c", None}


def test_any_source_table_gives_names_that_rules_take_and_that_are_its_own() -> None:
    databases = ("a", "a-b", "a_b", "A_b", "<a> $b{}", "ä," * 32, "ä;" * 32, "x" * 64, "x" * 63 + "y")
    tables = ("a", "b", "a.b", "a,b", "$b{}", "x" * 64)
    named = [(source, one, table) for source in ("main", "more") for one in databases for table in tables]
    wanted = [
        {
            "name": f"{one}.{table}",
            "source": source,
            "sharding": {**RULE, "nodes": f"ds_${{0..1}}.t{number}_${{0..1}}"},
        }
        for number, (source, one, table) in enumerate(named)
    ]
    settings = configured(sources=[{"name": name, **server(name)} for name in ("main", "more")], tables=wanted)
    way = reversed_settings(settings, Plan(settings, {id_: Table(*id_, COLUMNS, ("id",)) for id_ in named}))
    groups = [one.group or "" for one in way.tables]
    assert len(way.databases) == 2 * len(databases)
    assert len({one.lower() for one in groups}) == len(named)
    assert all(re.fullmatch(r"[A-Za-z0-9_]{1,48}", one) for one in (*way.databases, *groups))
    for one in way.tables[: 4 * len(tables) * len(databases) : 4 * len(tables)]:  # table a of each database of main
        (place,) = build_rule(one.sharding, one.name, {}).places
        assert (place.database in way.databases, place.table) == (True, "a")


def test_a_unique_key_with_all_columns_that_choose_the_place_has_a_reverse_stream() -> None:
    way = back(configured(), unique_keys=(("code", "user_id", "id"),))
    assert {one.unique_apart for one in way.tables if one.group} == {True}


def test_a_unique_key_that_the_application_keeps_apart_has_a_reverse_stream() -> None:
    apart = {"name": "shop.orders", "sharding": RULE, "unique_apart": True}
    countries = {"name": "shop.countries", "sharding": {"nodes": "ds_2.countries"}}
    assert back(configured(tables=[apart, countries]), unique_keys=(("code",),)).tables


@pytest.mark.parametrize(
    ("settings", "of_orders", "told"),
    [
        (configured(), {"unique_keys": (("code",),)}, "its unique key (code) holds in each of its 4 target tables"),
        (configured(), {"unique_keys": (("code", "id"),)}, "its unique key (code, id)"),
        (configured(name="s" * 41), {}, "leaves no room for the reverse stream's"),
        (
            configured(
                tables=[
                    {"name": "shop.orders", "sharding": RULE, "rows": [{"column": "user_id", "above": 7}]},
                    {"name": "shop.countries", "sharding": {"nodes": "ds_2.countries"}},
                ]
            ),
            {},
            "only part of its rows",
        ),
        (
            configured(
                tables=[
                    {"name": "shop.orders", "sharding": {"nodes": "ds_2.all"}, "group": "g", "unique_apart": True},
                    {"name": "shop.countries", "sharding": {"nodes": "ds_2.all"}, "group": "g", "unique_apart": True},
                ]
            ),
            {},
            "shares its target tables with others",
        ),
    ],
)
def test_what_has_no_reverse_stream_is_refused_by_name(
    settings: Settings, of_orders: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        back(settings, **of_orders)
    assert told in refused.value.message
    assert refused.value.hint


SHARDED = {
    "nodes": ["ds_0.orders_0", "ds_1.orders_1"],
    "table": {"column": "user_id", "algorithm": "MOD", "props": {"sharding-count": 2}},
}
"""Of the sources: table orders_0 of one, orders_1 of the other."""


def sharded(**more: Any) -> tuple[Settings, Plan]:
    """Two sources that hold shards of one table, and a table of its own beside one of them."""
    orders = [
        {
            "name": f"shop.orders_{number}",
            "source": source,
            "group": "orders",
            "sharding": RULE,
            "home": SHARDED,
            **more,
        }
        for number, source in enumerate(("main", "second"))
    ]
    settings = configured(
        sources=[{"name": "main", **server("old")}, {"name": "second", **server("older")}],
        source_databases={
            "ds_0": {"source": "main", "database": "shop"},
            "ds_1": {"source": "second", "database": "shop"},
        },
        tables=[*orders, {**COUNTRIES, "source": "main"}],
    )
    ids = [("main", "shop", "orders_0"), ("second", "shop", "orders_1"), ("main", "shop", "countries")]
    return settings, Plan(settings, {id_: Table(*id_, COLUMNS, ("id",)) for id_ in ids})


def test_rows_of_sharded_sources_go_back_by_the_rule_of_the_sources_and_belong_by_the_rule_of_the_targets() -> None:
    settings, plan = sharded()
    way = reversed_settings(settings, plan)
    there = [Table(one.source or "", one.database, one.table, COLUMNS, ("id",)) for one in way.tables]
    back = Plan(way, {one.id: one for one in there})
    places = {
        ("t0", f"shop_{database}", f"orders_{table}"): (database, table) for database in (0, 1) for table in (0, 1)
    }
    orders = {id_: planned for id_, planned in back.tables.items() if planned.group}
    assert orders.keys() == places.keys()
    assert len({planned.group for planned in orders.values()}) == 1
    for user in range(8):
        for number in range(4):
            row: Row = {"id": str(number), "user_id": str(user), "code": "0"}
            for id_, planned in orders.items():
                to = planned.route(row)
                source = ("main", "second")[user % 2]
                assert (to.database.target, to.database.database, to.table) == (source, "shop", f"orders_{user % 2}")
                here = places[id_] == (user % 2, number % 2)
                assert (planned.misplaced([row]) == [None]) == here
    (alone,) = (planned for planned in back.tables.values() if not planned.group)
    assert [str(place) for place in alone.places] == ["main/shop.countries"]


def test_a_verification_alone_says_where_a_row_of_one_source_table_belongs() -> None:
    """The stream has one place for each row, whatever shard table it is read in."""
    way = back(configured())
    there = [Table(one.source or "", one.database, one.table, COLUMNS, ("id",)) for one in way.tables]
    plan = Plan(way, {one.id: one for one in there})
    first = plan.tables["t0", "shop_0", "orders_0"]
    assert (first.home, first.routing) == (None, ())
    assert first.misplaced([{"id": "1", "user_id": "1", "code": "0"}]) == [None]
    assert [column.name for column in first.belongs_by] == ["user_id", "id"]
    assert first.elsewhere([["0", "1"], ["2", "4"]], 2) == ["", "t0/shop_1.orders_0 by `sharding`"]
    assert plan.tables["t2", "shop_2", "countries"].belongs is None


def test_the_rule_of_the_targets_is_that_of_the_servers_that_are_read_now() -> None:
    way = reversed_settings(*sharded())
    (belongs,) = {id(one.belongs): one.belongs for one in way.tables if isinstance(one, ShardTable)}.values()
    tables = [("t0", f"shop_{database}", f"orders_{table}") for database in (0, 1) for table in (0, 1)]
    assert (belongs.tables, belongs.binds, belongs.part) == (tuple(tables), True, "sharding")
    assert {name: (one.target, one.database) for name, one in way.databases.items()} == {
        "ds_0": ("main", "shop"),
        "ds_1": ("second", "shop"),
    }


def test_sharded_sources_without_their_rule_have_no_reverse_stream() -> None:
    settings, plan = sharded(home=None)
    with pytest.raises(
        ConfigError, match=r"shop\.orders_0 has no reverse stream: it shares its target tables"
    ) as raised:
        reversed_settings(settings, plan)
    assert "`home`" in raised.value.hint
