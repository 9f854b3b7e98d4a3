"""INTERVAL and AUTO_INTERVAL: what their rules say of themselves and refuse. Places are in test_sharding_vectors."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from migrate.model.errors import ConfigError, StopError
from migrate.sharding.rule import TableRule, build_rule
from migrate.sharding.shardingsphere import RuleFile

MONTHLY = {
    "datetime-pattern": "yyyy-MM-dd HH:mm:ss",
    "datetime-lower": "2024-01-01 00:00:00",
    "datetime-upper": "2024-12-31 23:59:59",
    "sharding-suffix-pattern": "yyyyMM",
    "datetime-interval-unit": "MONTHS",
}
DAILY = {
    "datetime-lower": "2024-02-27 00:00:00",
    "datetime-upper": "2024-03-02 00:00:00",
    "sharding-seconds": 86400,
}
NODES = "ds_0.t_${202401..202412}"


def rule_of(
    props: dict[str, Any], nodes: str = NODES, java: str = "LocalDateTime", type_: str = "datetime"
) -> TableRule:
    algorithm = "AUTO_INTERVAL" if "sharding-seconds" in props else "INTERVAL"
    table = {"column": "made", "algorithm": algorithm, "props": props, "value-type": java}
    return build_rule({"nodes": nodes, "table": table}, "t", {"made": type_})


def without(*keys: str, **more: str) -> dict[str, Any]:
    left = {key: value for key, value in MONTHLY.items() if key not in keys}
    return left | {key.replace("_", "-"): value for key, value in more.items()}


def test_an_interval_ends_with_its_start() -> None:
    rule = pickle.loads(pickle.dumps(rule_of(MONTHLY)))  # noqa: S301  our own
    assert rule.route({"made": "2024-02-29 23:59:59.999999"}).table == "t_202402"
    assert rule.condition(0) is None
    assert rule.notes == ()
    with pytest.raises(StopError, match="NULL in the sharding column made"):
        rule.route({"made": None})
    with pytest.raises(StopError) as outside:
        rule.route({"made": "2025-01-01 00:00:00"})
    assert "no table by INTERVAL: the moment is outside datetime-lower and datetime-upper" in str(outside.value)


def test_an_interval_without_a_table_is_named_beforehand_and_blocks_its_rows() -> None:
    rule = rule_of(MONTHLY, "ds_0.t_${202401..202411}")
    assert rule.notes == ("table 't': sharding.table: no table for 202412: such a row blocks",)
    with pytest.raises(StopError, match="no name among the nodes ends with the interval's suffix"):
        rule.route({"made": "2024-12-01 00:00:00"})


def test_without_an_upper_limit_there_are_as_many_intervals_as_there_are_tables() -> None:
    """ShardingSphere takes the moment when the application started: a later start finds the row there."""
    rule = rule_of(without("datetime-upper"), "ds_0.t_${999911..999912}")
    assert rule.route({"made": "9999-12-31 23:59:59"}).table == "t_999912"
    assert "without datetime-upper ShardingSphere finds no row after the start of the application" in rule.notes[0]
    seconds = rule_of(without("datetime-upper", datetime_interval_unit="SECONDS"))
    with pytest.raises(StopError, match="the moment is outside"):
        seconds.route({"made": "2024-01-03 00:00:00"})  # more than the intervals that are counted


def test_auto_interval_is_a_numbered_one_of_auto_tables() -> None:
    rule = rule_of(DAILY, "ds_0.t_${0..5}", "Timestamp")
    # ShardingSphere rounds 1.005 down and 1.0051 up
    assert [
        rule.places[index].table for index in rule.route_many([["2024-02-28 00:07:12", "2024-02-28 00:07:20"]])
    ] == [
        "t_1",
        "t_2",
    ]
    assert rule.notes == ()
    assert rule_of(DAILY, "ds_0.t_${0..6}", "Timestamp").notes == (
        "table 't': sharding.table: AUTO_INTERVAL never gives t_6",
    )


@pytest.mark.parametrize(
    ("props", "message"),
    [
        (without("datetime-pattern"), "props.datetime-pattern is missing"),
        (without("datetime-lower"), "props.datetime-lower is missing"),
        (without("sharding-suffix-pattern"), "props.sharding-suffix-pattern is missing"),
        (without(datetime_lower="2024-01-01"), "datetime-lower: 2024-01-01 is not written as yyyy-MM-dd HH:mm:ss"),
        (without(datetime_upper="2023-12-31 00:00:00"), "props.datetime-upper is before datetime-lower"),
        (without(datetime_pattern="yyyy-MM"), "datetime-pattern: yyyy-MM does not give a date, or a date and a time"),
        (without(datetime_pattern="yyyy-MM-dd mm"), "does not give a date, or a date and a time"),
        (without(datetime_pattern="yyyy-MM-dd'T'HH"), "datetime-pattern: ' is not supported (known: yyyy"),
        (without(datetime_pattern="yyyy-M-dd"), "datetime-pattern: M is not supported"),
        (without(sharding_suffix_pattern="YYYYww"), "sharding-suffix-pattern: YYYY is not supported"),
        (without(datetime_interval_unit="Eras"), "datetime-interval-unit: eras does not go with yyyy-MM-dd HH:mm:ss"),
        (
            {**MONTHLY, "datetime-pattern": "yyyy-MM-dd", "datetime-interval-unit": "HOURS"}
            | {"datetime-lower": "2024-01-01", "datetime-upper": "2024-01-01"},
            "datetime-interval-unit: hours does not go with yyyy-MM-dd",
        ),
        (without(datetime_interval_amount="0"), "props.datetime-interval-amount must be positive"),
        (without(datetime_interval_unit="SECONDS"), "there are more than 100000 intervals"),
        (without(other="1"), "props.other is not a property of INTERVAL"),
        (without(sharding_suffix_pattern="M"), "t_202401 and t_202411 both end with 1 (ShardingSphere takes either"),
        ({**DAILY, "sharding-seconds": 0}, "props.sharding-seconds must be positive"),
        ({**DAILY, "datetime-upper": "2024-01-01 00:00:00"}, "props.datetime-upper is before datetime-lower"),
        ({**DAILY, "datetime-lower": "2024-01-01"}, "datetime-lower: 2024-01-01 is not written as yyyy-MM-dd HH:mm:ss"),
        (DAILY, "AUTO_INTERVAL does not work on a LocalDateTime: ShardingSphere refuses what Java writes for it"),
    ],
)
def test_a_wrong_property_is_named(props: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        rule_of(props)
    assert "table 't': sharding.table" in str(refused.value)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("java", "type_", "message"),
    [
        ("LocalDate", "date", "INTERVAL with a time in its datetime-pattern does not work on a LocalDate"),
        ("Integer", "int", "INTERVAL does not work on a Integer"),
    ],
)
def test_a_type_that_shardingsphere_refuses_for_every_row_is_refused(java: str, type_: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        rule_of(MONTHLY, java=java, type_=type_)


def test_a_timestamp_has_no_hash_here() -> None:
    table = {"column": "made", "algorithm": "HASH_MOD", "props": {"sharding-count": 2}, "value-type": "Timestamp"}
    with pytest.raises(ConfigError, match="its hash depends on the time zone"):
        build_rule({"nodes": "d.t_${0..1}", "table": table}, "t", {"made": "datetime"})


def test_a_moment_in_a_rule_file_is_in_quotes_or_shardingsphere_refuses_it() -> None:
    text = """
rules:
- !SHARDING
  tables:
    t:
      actualDataNodes: ds_0.t_${202401..202412}
      tableStrategy: {standard: {shardingColumn: made, shardingAlgorithmName: monthly}}
  shardingAlgorithms:
    monthly: {type: INTERVAL, props: {datetime-pattern: yyyy-MM-dd, datetime-lower: 2024-01-01}}
"""
    with pytest.raises(ConfigError, match=r"datetime-lower must be a text or a number \(write it in quotes"):
        build_rule(RuleFile(text).spec("t", {"made": "LocalDate"}), "t", {"made": "date"})
