"""The way back's settings: each place a table of its server, each server once, and what has no way back is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from migrate.cutover.reverse import reversed_settings
from migrate.model.errors import ConfigError
from migrate.model.table import Column, Kind, Table
from migrate.settings import Settings, parse
from migrate.target.plan import Plan

COLUMNS = tuple(Column(name, "bigint", Kind.INT, nullable=False) for name in ("id", "user_id", "code"))
RULE = {
    "nodes": "ds_${0..1}.orders_${0..1}",
    "database": {"column": "user_id", "algorithm": "MOD", "props": {"sharding-count": 2}},
    "table": {"column": "id", "algorithm": "MOD", "props": {"sharding-count": 2}},
}


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
        "tables": [
            {"name": "shop.orders", "sharding": RULE, "ddl": "ignore"},
            {"name": "shop.countries", "sharding": {"nodes": "ds_2.countries"}},
        ],
    }
    return parse({**raw, **more}, {})


def tables(**of_orders: Any) -> dict[tuple[str, str, str], Table]:
    orders = replace(Table("main", "shop", "orders", COLUMNS, ("id",)), **of_orders)
    countries = Table("main", "shop", "countries", COLUMNS, ("id",), (("code",),))
    return {orders.id: orders, countries.id: countries}


def back(settings: Settings, **of_orders: Any) -> Settings:
    return reversed_settings(settings, Plan(settings, tables(**of_orders)))


def test_places_become_tables_of_their_servers_and_the_sources_targets() -> None:
    way = back(configured())
    assert (way.name, way.topic, way.group) == ("shop-reverse", "migrate.shop-reverse", "migrate.shop-reverse")
    assert [(one.name, one.host) for one in way.sources] == [("t0", "new"), ("t2", "other")]  # one server, one binlog
    assert [(one.name, one.host) for one in way.targets] == [("main", "old")]
    assert way.databases == {"s0": way.databases["s0"]}
    assert (way.databases["s0"].target, way.databases["s0"].database) == ("main", "shop")
    told = [(one.source, one.name, one.group, one.ddl, one.sharding["nodes"]) for one in way.tables]
    assert told == [
        *(
            ("t0", f"shop_{database}.orders_{table}", "g0", "ignore", "s0.orders")
            for database in (0, 1)
            for table in (0, 1)
        ),
        ("t2", "shop_2.countries", None, "stop", "s0.countries"),
    ]
    assert way.run_dir.name == "reverse"
    assert way.topics == (way.topic,)


def test_a_unique_key_with_all_columns_that_choose_the_place_has_a_way_back() -> None:
    way = back(configured(), unique_keys=(("code", "user_id", "id"),))
    assert {one.unique_apart for one in way.tables if one.group} == {True}


def test_a_unique_key_that_the_application_keeps_apart_has_a_way_back() -> None:
    apart = {"name": "shop.orders", "sharding": RULE, "unique_apart": True}
    countries = {"name": "shop.countries", "sharding": {"nodes": "ds_2.countries"}}
    assert back(configured(tables=[apart, countries]), unique_keys=(("code",),)).tables


@pytest.mark.parametrize(
    ("settings", "of_orders", "told"),
    [
        (configured(), {"unique_keys": (("code",),)}, "its unique key (code) holds in each of its 4 target tables"),
        (configured(), {"unique_keys": (("code", "id"),)}, "its unique key (code, id)"),
        (configured(name="s" * 41), {}, "leaves no room for the way back's"),
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
def test_what_has_no_way_back_is_refused_by_name(settings: Settings, of_orders: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        back(settings, **of_orders)
    assert told in refused.value.message
    assert refused.value.hint
