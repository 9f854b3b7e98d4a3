"""Rules computed by a server: the same place for every value as the rule itself has, on both servers."""

from __future__ import annotations

import random
from typing import Any

import pytest

from migrate.mysql.connection import connect
from migrate.sharding.rule import TableRule, build_rule
from sandbox.stack import Sandbox
from tests.helpers import server_of, unique

RANGES = {
    "tinyint": (-(2**7), 2**7 - 1),
    "int": (-(2**31), 2**31 - 1),
    "int unsigned": (0, 2**32 - 1),
    "bigint": (-(2**63), 2**63 - 1),
    "bigint unsigned": (0, 2**64 - 1),
}
NODES = "ds_0.t_${0..4}"


def rule_of(type_: str, algorithm: str, props: dict[str, Any], nodes: str = NODES, **more: str) -> TableRule:
    table = {"column": "a%b", "algorithm": algorithm, "props": props, **more}
    if algorithm == "INLINE":
        table["column"] = "k"
    return build_rule({"nodes": nodes, "table": table}, "t", {str(table["column"]): type_})


ALGORITHMS: dict[str, tuple[str, dict[str, Any]]] = {
    "MOD 5": ("MOD", {"sharding-count": 5}),
    "MOD 4": ("MOD", {"sharding-count": 4}),
    "HASH_MOD 5": ("HASH_MOD", {"sharding-count": 5}),
    "HASH_MOD, normalized": ("HASH_MOD", {"sharding-count": 5, "normalize-numeric-int-range": True}),
    "INLINE 5": ("INLINE", {"algorithm-expression": "t_${k % 5}"}),
    "INLINE, arrow": ("INLINE", {"algorithm-expression": "t_$->{ k%3 }"}),
}


@pytest.mark.parametrize("type_", RANGES)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_server_puts_every_value_where_the_rule_does(box: Sandbox, name: str, type_: str) -> None:
    low, high = RANGES[type_]
    algorithm, props = ALGORITHMS[name]
    if algorithm == "INLINE":
        low = max(low, 0)  # below zero the remainder names no table, as in Groovy
    rule = rule_of(type_, algorithm, props)
    if algorithm == "HASH_MOD" and type_ == "bigint unsigned":
        assert rule.condition(0) is None
        return
    numbers = random.Random(11)  # noqa: S311  the same values each time
    edges = {edge + step for edge in (low, high, 0, 2**31, 2**32, 2**63, -(2**31)) for step in range(-6, 7)}
    values = [n for n in {*edges, *(numbers.randint(low, high) for _ in range(500))} if low <= n <= high]
    expected = {value: rule.route_many([[str(value)]])[0] for value in values}
    found: dict[int, list[int]] = {}
    database, column = unique("rule"), rule.columns[0]
    box.source.execute(f"CREATE DATABASE {database}")
    connection = connect(server_of(box.source), "source", database=database)
    try:
        connection.execute(f"CREATE TABLE t (`{column.replace('%', '%%')}` {type_} PRIMARY KEY)")
        connection.execute(f"INSERT INTO t VALUES {', '.join(f'({value})' for value in values)}")
        for place in range(len(rule.places)):
            for (value,) in connection.query(f"SELECT * FROM t WHERE {rule.condition(place)}", []):
                found.setdefault(int(value), []).append(place)
    finally:
        connection.close()
        box.source.execute(f"DROP DATABASE {database}")
    assert found == {value: [place] for value, place in expected.items()}


def test_two_levels_are_one_condition() -> None:
    level = {"algorithm": "MOD", "props": {"sharding-count": 2}}
    spec = {"nodes": "ds_${0..1}.t_${0..1}", "database": {"column": "a", **level}, "table": {"column": "b", **level}}
    rule = build_rule(spec, "t", {"a": "int", "b": "bigint unsigned"})
    assert [rule.condition(place) for place in range(4)] == [
        f"MOD(MOD(`a`, 2) + 2, 2) IN ({a}) AND MOD(`b`, 2) IN ({b})" for a in (0, 1) for b in (0, 1)
    ]


@pytest.mark.parametrize(
    ("type_", "algorithm", "props", "more"),
    [
        ("varchar(20)", "HASH_MOD", {"sharding-count": 5}, {}),
        ("bigint", "HASH_MOD", {"sharding-count": 5}, {"value-type": "Integer"}),
        ("bigint", "MOD", {"sharding-count": 4, "start-offset": 1}, {}),
        ("bigint", "INLINE", {"algorithm-expression": "t_${(k % 5).abs()}"}, {}),
        ("bigint", "BOUNDARY_RANGE", {"sharding-ranges": "1,2,3,4"}, {}),
        ("bigint", "MOD", {"sharding-count": 5000}, {}),
    ],
)
def test_what_no_server_computes_has_no_condition(
    type_: str, algorithm: str, props: dict[str, Any], more: dict[str, str]
) -> None:
    nodes = "ds_0.t_${0..4999}" if props.get("sharding-count") == 5000 else NODES
    assert rule_of(type_, algorithm, props, nodes, **more).condition(0) is None


def test_a_name_that_is_not_among_the_nodes_is_nobodys() -> None:
    rule = rule_of("int", "INLINE", {"algorithm-expression": "t_${k % 9}"})
    assert rule.condition(4) == "MOD(`k`, 9) IN (4)"
