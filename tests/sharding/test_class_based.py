"""Rules that a Java class decides: a Python function stands for it, and is held against examples."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from migrate.model.errors import ConfigError, StopError
from migrate.sharding.rule import build_rule
from migrate.sharding.spec import spec_of

CODE = """
from decimal import Decimal

def by_region(value, names, props):
    assert names == ("orders_0", "orders_1", "orders_2")
    if value < 0:
        raise LookupError(f"no region {value}")
    return names[value // int(props["size"]) % len(names)] if value < 9000 else f"orders_{value}"

def by_both(value, names, props):
    return names[(value["region"] + len(value["name"])) % len(names)]

broken = 1 / Decimal(4)
"""
POINTS = """
[migrate.sharding]
com.example.ByRegion = shards_of_an_application:by_region
com.example.ByBoth = shards_of_an_application:by_both
com.example.Broken = shards_of_an_application:nowhere
"""
TYPES = {"id": "bigint", "region": "int", "name": "varchar(20)"}


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "shards_of_an_application", CODE, POINTS)
    monkeypatch.syspath_prepend(tmp_path)


def install(directory: Path, name: str, code: str, points: str) -> None:
    """A package of one module, as an installer leaves it."""
    about = directory / f"{name}-1.2.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n", "utf-8")
    (about / "entry_points.txt").write_text(points, "utf-8")
    (directory / f"{name}.py").write_text(code, "utf-8")


def level(java_class: str = "com.example.ByRegion", **changes: Any) -> dict[str, Any]:
    props = {"strategy": "STANDARD", "algorithmClassName": java_class, "size": 1000}
    examples = [[0, "orders_0"], ["1000", "orders_1"], [3001, "orders_0"]]
    return {"column": "region", "algorithm": "CLASS_BASED", "props": props, "examples": examples, **changes}


def rule(table: dict[str, Any]) -> Any:
    return build_rule({"nodes": "ds_0.orders_${0..2}", "table": table}, "shop.orders", TYPES)


def test_a_row_goes_where_the_function_says_and_in_another_process_too() -> None:
    made = rule(level())
    assert any("shards_of_an_application 1.2 decides for com.example.ByRegion" in note for note in made.notes)
    for one in (made, pickle.loads(pickle.dumps(made))):  # noqa: S301 - our own
        assert [place.table for place in (one.places[index] for index in one.route_many([["2500", "8", "1999"]]))] == [
            "orders_2",
            "orders_0",
            "orders_1",
        ]


def test_a_complex_strategy_gets_its_columns_by_name() -> None:
    props = {"strategy": "complex", "algorithmClassName": "com.example.ByBoth"}
    both = {"columns": ["region", "name"], "algorithm": "class_based", "props": props}
    made = rule({**both, "examples": [[1, "ab", "orders_0"], [0, "\U0001f600", "orders_1"]]})
    assert str(made.route({"region": "4", "name": "abcd"})) == "ds_0.orders_2"
    with pytest.raises(ConfigError, match="examples is a list of lists"):
        rule({**both, "examples": [[1, "orders_0"]]})


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"examples": []}, "examples is missing: com.example.ByRegion is held against them"),
        (
            {"examples": [[0, "orders_1"]]},
            "for 0 the function for com.example.ByRegion gives 'orders_0', and 'orders_1'",
        ),
        ({"examples": [[-1, "orders_1"]]}, "the function for com.example.ByRegion raised LookupError"),
        ({"examples": [["x", "orders_1"]]}, "examples: x: "),
        ({"examples": {"0": "orders_0"}}, "examples is a list of lists"),
        ({"props": {"strategy": "HINT", "algorithmClassName": "com.example.ByRegion"}}, "'HINT' is not supported"),
        ({"props": {"strategy": "STANDARD"}}, "algorithmClassName is missing"),
        ({"algorithm": "MOD", "props": {"sharding-count": 3}}, "examples goes with CLASS_BASED, and it is MOD"),
    ],
)
def test_what_is_wrong_is_named_before_anything_is_routed(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        rule(level(**changes))
    assert told in refused.value.message
    assert ("write the rule that its code follows as INLINE" in refused.value.hint) == ("'HINT'" in told)


def test_a_value_that_only_the_application_knows_is_refused_with_the_way_out() -> None:
    with pytest.raises(ConfigError, match="'HINT_INLINE' is not supported") as refused:
        rule(level(algorithm="HINT_INLINE"))
    assert "write the rule that its code follows as INLINE" in refused.value.hint


@pytest.mark.parametrize(
    ("java_class", "told"),
    [
        ("com.example.Other", "no installed package has an entry point of that name in the group migrate.sharding"),
        ("com.example.Broken", "shards_of_an_application:nowhere cannot be loaded: AttributeError"),
    ],
)
def test_a_class_without_a_function_is_named(java_class: str, told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        rule(level(java_class))
    assert told in refused.value.message


@pytest.mark.parametrize("region", ["-7", "9001"])
def test_a_value_without_a_place_blocks_and_is_not_told(region: str) -> None:
    with pytest.raises(StopError) as stopped:
        rule(level()).route({"region": region})
    assert "by CLASS_BASED" in stopped.value.message
    assert region not in stopped.value.message


def test_a_rule_file_has_the_class_and_the_config_the_examples() -> None:
    text = """
rules:
- !SHARDING
  tables:
    orders:
      actualDataNodes: ds_0.orders_${0..2}
      tableStrategy: {standard: {shardingColumn: region, shardingAlgorithmName: own}}
  shardingAlgorithms:
    own: {type: CLASS_BASED, props: {strategy: STANDARD, algorithmClassName: com.example.ByRegion, size: 10}}
"""
    written = {"file": "rules.yaml", "content": text.encode(), "examples": {"table": [[11, "orders_1"]]}}
    made = build_rule(spec_of(written, "shop.orders"), "shop.orders", TYPES)
    assert str(made.route({"region": "29"})) == "ds_0.orders_2"
    with pytest.raises(ConfigError, match=r"examples\.database: nothing chooses by it"):
        spec_of({**written, "examples": {"database": [[1, "ds_0"]]}}, "shop.orders")
    with pytest.raises(ConfigError, match="examples is missing"):
        build_rule(spec_of({**written, "examples": {}}, "shop.orders"), "shop.orders", TYPES)
