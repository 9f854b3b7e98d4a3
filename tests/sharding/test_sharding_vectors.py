"""Every answer of the real ShardingSphere in vectors.json, given by our code too."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from migrate.model.errors import ConfigError, StopError
from migrate.sharding.columns import value_reader
from migrate.sharding.inline import compile_inline, expand_nodes
from migrate.sharding.javatypes import HASHES, JavaError, JavaType, from_units
from migrate.sharding.rule import build_rule

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
COLUMN_TYPE = {
    "Integer": "int(11)",
    "Long": "bigint(20)",
    "BigInteger": "decimal(65,0)",
    "BigDecimal": "decimal(65,30)",
    "String": "varchar(200)",
    "LocalDate": "date",
    "LocalDateTime": "datetime(6)",
    "Timestamp": "datetime(6)",
}
"""A MySQL type for each Java type, wide enough for every vector."""
Vectors = dict[str, Any]


@pytest.fixture(scope="module")
def vectors() -> Vectors:
    text = (Path(__file__).parent / "vectors.json").read_text(encoding="utf-8")
    result: Vectors = json.loads(text)
    return result


def test_there_are_thousands_of_vectors(vectors: Vectors) -> None:
    assert sum(len(case["out"]) for case in vectors["routes"]) > 40_000
    assert sum(len(out) for case in vectors["expressions"] for out in case["out"].values()) > 10_000
    values = [value for values in vectors["values"].values() for value in values]
    assert sum(len(case["out"]) for case in vectors["intervals"]) > 25_000
    assert sum(len(case["out"]) for case in vectors["columns"]) > 7_000
    assert {"-9223372036854775808", "18446744073709551615", "a😀b", "2024-01-15"} <= set(values)


def test_hash_codes_are_javas(vectors: Vectors) -> None:
    for name, hashes in vectors["hashes"].items():
        reader = value_reader("x", COLUMN_TYPE[name], name, "test")
        computed = list(map(HASHES[JavaType(name)], reader.read(vectors["values"][name])))
        assert computed == hashes, name


def test_lists_of_nodes_stand_for_the_same_names(vectors: Vectors) -> None:
    for expression, names in vectors["nodes"].items():
        assert expand_nodes(expression) == names, expression


def test_numbered_algorithms_pick_the_same_place(vectors: Vectors) -> None:
    refused = 0
    for case in vectors["routes"]:
        java, what = case["type"], f"{case['algorithm']} {case['props']} {case['nodes']} {case['type']}"
        level = {"column": "x", "algorithm": case["algorithm"], "props": case["props"], "value-type": java}
        spec = {"nodes": case["nodes"], case["level"]: level}
        try:
            rule = build_rule(spec, case["table"], {"x": COLUMN_TYPE[java]})
        except ConfigError as error:
            refused += "of that name is among the nodes" in error.message
            if "-" not in case["out"]:
                pytest.fail(f"{what}: ShardingSphere has a place for every value, we say {error}")
            continue
        for value, expected in zip(vectors["values"][java], case["out"], strict=True):
            try:
                answer = DIGITS[rule.route_many([[value]])[0]]
            except StopError as error:
                answer = "-" if "among the nodes" in error.message else "!"
            assert answer == expected, f"{what}: {value!r}"
    assert refused == 26


def test_inline_expressions_give_the_same_name(vectors: Vectors) -> None:
    for case in vectors["expressions"]:
        for name, expected in case["out"].items():
            key, show = compile_inline(case["expression"], {"x": JavaType(name)})
            reader = value_reader("x", COLUMN_TYPE[name], name, "test")
            for value, answer in zip(vectors["few"][name], expected, strict=True):
                try:
                    ours = from_units(show(key(reader.read([value])[0])))
                except JavaError as error:
                    if "not ASCII" in str(error):  # the one thing that is refused where Java goes on
                        continue
                    ours = None
                assert ours == answer, f"{case['expression']} for {name} {value!r}"


def test_expressions_over_two_columns_give_the_same_name(vectors: Vectors) -> None:
    for case in vectors["columns"]:
        types = dict(zip("ab", case["types"], strict=True))
        key, show = compile_inline(case["expression"], {name: JavaType(java) for name, java in types.items()})
        read = {name: value_reader("x", COLUMN_TYPE[java], java, "test").read for name, java in types.items()}
        pairs = product(*(read[name](vectors["few"][java]) for name, java in types.items()))
        for pair, answer in zip(pairs, case["out"], strict=True):
            try:
                ours = from_units(show(key(pair)))
            except (JavaError, ArithmeticError):
                ours = None
            assert ours == answer, f"{case['expression']} for {types} {pair}"


def test_moments_pick_the_same_place(vectors: Vectors) -> None:
    never = set()
    for case in vectors["intervals"]:
        java, what = case["type"], f"{case['algorithm']} {case['props']} {case['nodes']} {case['type']}"
        level = {"column": "x", "algorithm": case["algorithm"], "props": case["props"], "value-type": java}
        try:
            rule = build_rule({"nodes": case["nodes"], case["level"]: level}, case["table"], {"x": COLUMN_TYPE[java]})
        except ConfigError:
            if {*case["out"]} != {"!"}:
                raise
            never.add((case["algorithm"], java))
            continue
        for moment, expected in zip(vectors["moments"][java], case["out"], strict=True):
            try:
                answer = DIGITS[rule.route_many([[moment]])[0]]
            except StopError:
                answer = "-!"
            assert expected in answer, f"{what}: {moment!r}"
    assert never == {("AUTO_INTERVAL", "LocalDate"), ("AUTO_INTERVAL", "LocalDateTime"), ("INTERVAL", "LocalDate")}


@pytest.mark.parametrize("special", ["9223372036854775808", "18446744073709551615"])
def test_mod_keeps_64_bits_of_a_big_integer_as_shardingsphere_does(special: str) -> None:
    """Not what arithmetic says: 2^64-1 mod 7 is 1, but ShardingSphere computes -1 mod 7."""
    level = {"column": "x", "algorithm": "MOD", "props": {"sharding-count": 7}}
    rule = build_rule({"nodes": "d.t_${0..6}", "table": level}, "t", {"x": "bigint(20) unsigned"})
    assert rule.route({"x": special}).table == f"t_{(int(special) - 2**64) % 7}" != f"t_{int(special) % 7}"
