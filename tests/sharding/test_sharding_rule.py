"""Rules built from the config file: what they pick, what they refuse, and how fast they are."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from migrate.model.errors import ConfigError, StopError
from migrate.model.table import Column, Kind, Table
from migrate.sharding.columns import column_types
from migrate.sharding.javatypes import hash_string, to_units, wrap32
from migrate.sharding.rule import Place, TableRule, build_rule, node

NODES = "ds_${0..3}.orders_${0..3}"
BY_MOD = {"column": "user_id", "algorithm": "MOD", "props": {"sharding-count": 4}}
BY_INLINE = {
    "column": "user_id",
    "algorithm": "INLINE",
    "props": {"algorithm-expression": "orders_${(user_id % 16).abs().intdiv(4)}"},
}
TYPES = {"id": "bigint(20)", "user_id": "bigint(20)", "note": "varchar(64)"}
longs = st.integers(-(2**63), 2**63 - 1)


def rule_of(
    algorithm: str,
    props: dict[str, Any],
    type_: str = "bigint(20)",
    nodes: str = "ds_0.orders_${0..4}",
    **more: str,
) -> TableRule:
    level = {"column": "user_id", "algorithm": algorithm, "props": props, **more}
    return build_rule({"nodes": nodes, "table": level}, "orders", {"user_id": type_})


def four_by_four() -> TableRule:
    return build_rule({"nodes": NODES, "database": BY_MOD, "table": BY_INLINE}, "orders", TYPES)


def test_a_row_goes_to_the_database_and_table_the_two_algorithms_pick() -> None:
    rule = four_by_four()
    assert rule.columns == ("user_id",)
    assert rule.places[:5] == (*(Place("ds_0", f"orders_{n}") for n in range(4)), Place("ds_1", "orders_0"))
    assert rule.route({"id": "1", "user_id": "42"}) == Place("ds_2", "orders_2")
    assert rule.route_many([["42", "0", "-1"]]) == [10, 0, 12]


def test_an_unsharded_table_has_one_place() -> None:
    rule = build_rule({"nodes": "shop.orders"}, "orders", TYPES)
    assert (rule.columns, rule.places) == ((), (Place("shop", "orders"),))
    assert rule.route({}) == Place("shop", "orders")
    assert rule.route_many([], rows=3) == [0, 0, 0]


def test_a_broadcast_table_has_its_rows_at_every_node() -> None:
    rule = build_rule({"broadcast": "ds_${0..1}.countries"}, "countries", TYPES)
    assert rule.places == (Place("ds_0", "countries"), Place("ds_1", "countries"))
    assert (rule.columns, rule.broadcast) == ((), True)
    assert pickle.loads(pickle.dumps(rule)).broadcast  # noqa: S301 - our own
    assert not four_by_four().broadcast


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"broadcast": "ds_0.c", "nodes": "ds_0.c"}, r"sharding\.nodes does not go with .*sharding\.broadcast"),
        ({"broadcast": "ds_0.c", "table": BY_MOD}, r"sharding\.table does not go with .*sharding\.broadcast"),
        ({"broadcast": "ds_0.c_${0..1}"}, r"sharding\.broadcast: database 'ds_0' has several nodes"),
        ({"broadcast": 7}, r"sharding\.broadcast must be a text such as"),
        ({"broadcast": []}, r"sharding\.broadcast must be a text such as"),
    ],
)
def test_what_does_not_go_with_a_row_at_every_node_is_named(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_rule(spec, "c", TYPES)


def test_two_sharding_columns_keep_their_order_and_the_tables_spelling() -> None:
    spec = {
        "nodes": "ds_${0..1}.orders_${0..1}",
        "database": {
            "column": "ID",
            "algorithm": "INLINE",
            "props": {"algorithm-expression": "ds_${ID % 2}"},
        },
        "table": {"column": "note", "algorithm": "HASH_MOD", "props": {"sharding-count": 2}},
    }
    rule = build_rule(spec, "orders", TYPES)
    assert rule.columns == ("id", "note")
    assert rule.route({"id": "1", "note": "b"}) == Place("ds_1", "orders_0")
    assert rule.route_many([["1", "0"], ["b", "a"]]) == [2, 1]


def test_the_databases_spelling_names_the_variable_when_both_use_one_column() -> None:
    """As in ShardingSphere: the first strategy that matches the column lends its spelling."""
    database = {**BY_INLINE, "column": "USER_ID", "props": {"algorithm-expression": "ds_${USER_ID % 2}"}}
    table = {**BY_INLINE, "props": {"algorithm-expression": "t_${user_id % 2}"}}
    spec = {"nodes": "ds_${0..1}.t_${0..1}", "database": database, "table": table}
    with pytest.raises(ConfigError, match="'user_id' is not the sharding column 'USER_ID'"):
        build_rule(spec, "t", TYPES)


@settings(deadline=None)  # the machine may be busy
@given(st.lists(longs, max_size=20))
def test_every_value_has_exactly_one_listed_place(values: list[int]) -> None:
    rule = build_rule(
        {"nodes": NODES, "database": BY_MOD, "table": {**BY_MOD, "algorithm": "HASH_MOD"}}, "orders", TYPES
    )
    texts = [str(value) for value in values]
    places = [rule.places[index] for index in rule.route_many([texts])]
    assert places == [rule.route({"user_id": text}) for text in texts]
    assert [place.database for place in places] == [f"ds_{value % 4}" for value in values]


@settings(deadline=None)  # the machine may be busy
@given(st.text())
def test_any_text_has_a_place_by_its_hash(text: str) -> None:
    rule = rule_of("HASH_MOD", {"sharding-count": 5}, "varchar(200)")
    naive = 0
    for unit in to_units(text):
        naive = wrap32(31 * naive + ord(unit))
    assert hash_string(to_units(text)) == naive
    assert rule.route({"user_id": text}).table == f"orders_{abs(naive) % 5}"


@pytest.mark.parametrize(
    ("java", "number", "place"),
    [
        *((java, -1, 1) for java in ("Integer", "Long", "BigInteger")),
        *(("BigInteger", number, abs(number) % 4) for number in (-(2**31), 2**31 - 1, 2**31)),
        ("BigInteger", -(2**31) - 1, 3),  # minus 0x80000001 is 0x7fffffff
        ("Long", -(2**31) + 3, 1),
        ("Long", -(2**31) - 2, 3),  # 0x7ffffffe ^ 0xffffffff = 0x80000001, whose absolute value is 0x7fffffff
        ("Long", 2**63 - 1, 0),
        ("Long", -(2**32) - 1, 1),  # Integer would not hold it
        ("String", -5, 0),
    ],
)
def test_hash_mod_normalized_hashes_what_an_integer_holds_as_an_integer(java: str, number: int, place: int) -> None:
    """The values of ShardingSphere's documentation and tests; no version with the property can be asked here."""
    props = {"sharding-count": 4, "normalize-numeric-int-range": "TRUE"}
    type_ = "varchar(30)" if java == "String" else "decimal(30)"
    rule = rule_of("HASH_MOD", props, type_, nodes="ds_0.orders_${0..3}", **{"value-type": java})
    assert rule.route({"user_id": str(number)}).table == f"orders_{place}"


@settings(deadline=None)  # the machine may be busy
@given(longs, st.integers(-1000, 1000), st.integers(1, 2000), st.integers(1, 500))
def test_ranges_split_numbers_as_their_limits_say(value: int, lower: int, size: int, volume: int) -> None:
    upper = lower + max(size, volume)
    props = {"range-lower": lower, "range-upper": upper, "sharding-volume": volume}
    rule = rule_of("VOLUME_RANGE", props, nodes="ds_0.orders_${0..2010}")
    limits = [*range(lower, upper, volume), upper]
    expected = sum(limit <= value for limit in limits)
    assert rule.route({"user_id": str(value)}).table == f"orders_{expected}"
    boundary = rule_of(
        "BOUNDARY_RANGE", {"sharding-ranges": ",".join(map(str, limits))}, nodes="ds_0.orders_${0..2010}"
    )
    assert boundary.route({"user_id": str(value)}).table == f"orders_{expected}"


@pytest.mark.parametrize("table", ["y2024", "shop.y2024"])
def test_digits_at_the_end_of_the_tables_own_name_are_no_number(table: str) -> None:
    spec = {"nodes": "ds_0.y2024${0..3}", "table": {**BY_MOD, "algorithm": "HASH_MOD"}}
    assert build_rule(spec, table, TYPES).route({"user_id": "3"}) == Place("ds_0", "y20243")


def test_the_example_in_the_documentation_routes() -> None:
    page = (Path(__file__).parents[2] / "docs" / "sharding.md").read_text(encoding="utf-8")
    example = yaml.safe_load(page.split("```yaml\n")[1].split("```")[0])
    rule = build_rule(example["sharding"], "orders", TYPES)
    assert rule.notes == ()
    assert rule.route({"user_id": "42"}) == Place("ds_2", "orders_2")
    assert len(rule.places) == 16


def test_a_pickled_rule_routes_the_same() -> None:
    """Spark sends rules to its workers."""
    rule = four_by_four()
    copy = pickle.loads(pickle.dumps(rule))  # noqa: S301 - our own bytes
    texts = [str(value) for value in range(-50, 50)]
    assert copy.route_many([texts]) == rule.route_many([texts])
    assert copy.places == rule.places


RATE = """
import random, time
from migrate.sharding.rule import build_rule
level = {"column": "user_id", "algorithm": "MOD", "props": {"sharding-count": 5}}
rule = build_rule({"nodes": "ds_0.orders_${0..4}", "table": level}, "orders", {"user_id": "bigint(20)"})
texts = [str(value) for value in random.Random(1).choices(range(2**62), k=200_000)]
best = 10.0
for _ in range(5):
    began = time.process_time()
    rule.route_many([texts])
    best = min(best, time.process_time() - began)
print(int(len(texts) / best))
"""


def test_a_million_integers_are_routed_in_a_second_of_cpu() -> None:
    """In a process of its own, so that measuring coverage does not slow it."""
    plain = {key: value for key, value in os.environ.items() if not key.startswith("COV")}
    done = subprocess.run([sys.executable, "-c", RATE], env=plain, capture_output=True, check=True, timeout=60)
    assert int(done.stdout) > 1_000_000


# what Java makes of a column ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "value_type", "place"),
    [
        ("bigint(20)", None, 4),  # Long: -5 hashes to 4
        ("int(11)", None, 0),  # Integer: to -5
        ("bigint(20)", "Integer", 0),
        ("bigint(20)", "String", 3),
        ("decimal(20,0)", "Long", 4),
        ("varchar(20)", None, 3),
        ("smallint(6)", "Long", 4),
    ],
)
def test_the_java_type_decides_where_a_negative_number_hashes_to(
    type_: str, value_type: str | None, place: int
) -> None:
    more = {"value-type": value_type} if value_type else {}
    rule = rule_of("HASH_MOD", {"sharding-count": 5}, type_, **more)
    assert rule.route({"user_id": "-5"}).table == f"orders_{place}"


def test_latin1_text_is_decoded_before_it_is_hashed() -> None:
    column = Column("user_id", "varchar(20)", Kind.RAWTEXT, "latin1")
    table = Table("one", "shop", "orders", (Column("id", "int(11)", Kind.INT), column), ("id",))
    assert column_types(table) == {"id": "int(11)", "user_id": "varchar(20) character set latin1"}
    raw = "Stra\u00dfe \u20ac".encode("cp1252").decode("latin-1")  # canonical text: a character a byte
    latin1 = rule_of("HASH_MOD", {"sharding-count": 5}, column_types(table)["user_id"])
    utf8 = rule_of("HASH_MOD", {"sharding-count": 5}, "varchar(20) character set utf8mb4")
    assert latin1.route({"user_id": raw}) == utf8.route({"user_id": "Stra\u00dfe \u20ac"})
    assert latin1.route({"user_id": "\x81"}) == utf8.route({"user_id": "\x81"})


def test_text_of_other_character_sets_is_routed_only_when_it_is_ascii() -> None:
    rule = rule_of("HASH_MOD", {"sharding-count": 5}, "varchar(20) character set gbk")
    assert rule.route({"user_id": "abc"}).table == f"orders_{hash_string('abc') % 5}"
    with pytest.raises(StopError, match=r"user_id.*gbk and not plain ASCII"):
        rule.route({"user_id": "\xd6\xd0"})


def test_notes_name_the_assumed_type_and_what_shardingsphere_refuses() -> None:
    assert rule_of("MOD", {"sharding-count": 5}).notes == ()
    [note] = rule_of("HASH_MOD", {"sharding-count": 5}, "bigint(20) unsigned").notes
    assert "'user_id' is taken as Java's BigInteger" in note
    assert "2^32" in note
    assert rule_of("HASH_MOD", {"sharding-count": 5}, "bigint(20) unsigned", **{"value-type": "Long"}).notes == ()
    [note] = rule_of("MOD", {"sharding-count": 3}).notes
    assert "never gives orders_3, orders_4" in note
    [note] = four_by_four().notes
    assert "autoTables only" in note


# refused while running ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "value", "message"),
    [
        (("MOD", {"sharding-count": 5}), None, "NULL in the sharding column user_id"),
        (("MOD", {"sharding-count": 5}), "12a", "user_id (Java Long): the value is not a whole number"),
        (("MOD", {"sharding-count": 5}), "9223372036854775808", "the value does not fit Java's Long"),
        (
            ("MOD", {"sharding-count": 5, "start-offset": 3}),
            "123",
            "user_id (Java Long): no table by MOD: the value is shorter than start-offset and stop-offset",
        ),
        (
            ("BOUNDARY_RANGE", {"sharding-ranges": "1,2,3,4,50"}),
            "60",
            "no table by BOUNDARY_RANGE: it gives orders_5, which is not among the nodes",
        ),
        (
            ("INLINE", {"algorithm-expression": "orders_${user_id}"}),
            "777",
            "no table by INLINE: it gives a name, which is not among the nodes",
        ),
        (
            ("INLINE", {"algorithm-expression": "orders_${5.intdiv(user_id)}"}),
            "0",
            "no table by INLINE: division by zero",
        ),
        (
            (
                "INLINE",
                {"algorithm-expression": "orders_${user_id * 3G" + " << 1900" * 8 + "}"},
            ),
            "777",
            "no table by INLINE: the computation failed",
        ),
    ],
)
def test_a_row_without_a_place_stops_and_its_value_is_not_told(
    rule: tuple[str, dict[str, Any]], value: str | None, message: str
) -> None:
    with pytest.raises(StopError) as stopped:
        rule_of(*rule).route({"user_id": value})
    assert "table orders: " in str(stopped.value)
    assert message in str(stopped.value)
    assert value is None or len(value) < 3 or value not in str(stopped.value)


def test_a_database_and_a_table_that_are_not_together_stop() -> None:
    by_table = {"column": "id", "algorithm": "MOD", "props": {"sharding-count": 4}}
    spec = {"nodes": "ds_0.t_0,ds_1.t_1,ds_2.t_2,ds_3.t_3", "database": BY_MOD, "table": by_table}
    rule = build_rule(spec, "t", TYPES)
    assert rule.route({"user_id": "2", "id": "2"}) == Place("ds_2", "t_2")
    with pytest.raises(StopError, match="user_id, id: the rule picks a database and a table that are not together"):
        rule.route({"user_id": "2", "id": "3"})


def test_a_row_image_without_the_sharding_column_stops() -> None:
    with pytest.raises(StopError, match="table orders: a row without its sharding column user_id"):
        four_by_four().route({"id": "1"})


def test_the_wrong_number_of_columns_is_a_defect() -> None:
    with pytest.raises(ValueError, match="has 1 sharding columns, not 2"):
        four_by_four().route_many([["1"], ["2"]])
    with pytest.raises(ValueError, match="number of rows"):
        build_rule({"nodes": "shop.orders"}, "orders", TYPES).route_many([])


@pytest.mark.parametrize("name", ["a.b", "it's", 'say "x"', "a``b", "{x},$y", " b", "plain", "x`"])
def test_any_name_can_be_written_as_a_node(name: str) -> None:
    rule = build_rule({"nodes": [node("ds_0", name)]}, "orders", {"user_id": "bigint"})
    assert [(place.database, place.table) for place in rule.places] == [("ds_0", name)]
    assert ("`" in node("ds_0", name)) is (name != "plain")


def test_a_name_that_needs_quotes_is_refused_with_the_way_to_write_it() -> None:
    for nodes in ("ds_0.a.b", "ds_0.`a`, ds_0.`b`", "ds_0.a`b", "ds_0.``"):
        with pytest.raises(ConfigError) as caught:
            build_rule({"nodes": nodes}, "orders", {"user_id": "bigint"})
        assert "ds_0.`a.b`" in caught.value.hint


# refused in the config file -----------------------------------------------------------------------------


def level(**changes: Any) -> dict[str, Any]:
    return {"nodes": NODES, "database": BY_MOD, "table": {**BY_MOD, **changes}}


def pairs(**more: Any) -> dict[str, Any]:
    table = {"columns": ["USER_ID", "note"], "algorithm": "COMPLEX_INLINE", **more}
    table.setdefault("props", {"algorithm-expression": "orders_${(USER_ID + note.length()) % 4}"})
    return {"nodes": "ds_0.orders_${0..3}", "table": table}


def mod(**props: Any) -> dict[str, Any]:
    return level(props={"sharding-count": 4, **props})


def volume(lower: Any, upper: Any, size: Any) -> dict[str, Any]:
    props = {"range-lower": lower, "range-upper": upper, "sharding-volume": size}
    return level(algorithm="VOLUME_RANGE", props=props)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({}, "sharding.nodes must be a text such as"),
        ({"nodes": []}, "sharding.nodes must be a text such as"),
        ({"nodes": " "}, "sharding.nodes is empty"),
        ({"nodes": "a.t,,"}, "sharding.nodes: '' is not written as database.table"),
        ({"nodes": "orders"}, "sharding.nodes: 'orders' is not written as database.table"),
        ({"nodes": "a.b.c"}, "sharding.nodes: 'a.b.c' is not written as database.table"),
        ({"nodes": "a.t,A.T"}, "sharding.nodes: A.T is there twice"),
        ({"nodes": "a.t_${0..1"}, "sharding.nodes: an inline expression lacks the closing '}'"),
        ({"nodes": "a.t_${x}"}, "sharding.nodes: 'x' is not supported in a list of nodes"),
        ({"nodes": "a.t_${0..999999}"}, "sharding.nodes: the range 0..999999 is too long"),
        ({"nodes": "a.t_${01..3}"}, "sharding.nodes: the number 01 is octal"),
        ({"nodes": "a${0..999}.t_${0..999}"}, "stands for more than 100000 names"),
        (
            {"nodes": NODES, "tables": {}},
            "sharding.tables is not a known key (known: nodes, database, table, broadcast)",
        ),
        ({"nodes": NODES}, "sharding.database is missing, and tables of one name are in several"),
        ({"nodes": "a.t_${0..1}"}, "sharding.table is missing, and a database has several tables"),
        ({"nodes": "a.t,b.u"}, "sharding: 2 nodes, and neither database nor table to choose"),
        ({"nodes": NODES, "table": BY_MOD}, "sharding.database is missing"),
        ({"nodes": NODES, "database": BY_MOD}, "sharding.table is missing"),
        (level(extra=1), "sharding.table.extra is not a known key"),
        ({"nodes": NODES, "database": "MOD"}, "sharding.database must be a mapping"),
        (level(column=""), "sharding.table.column is missing"),
        (level(column="nope"), "sharding.table.column: table 'orders' has no column 'nope'"),
        (level(algorithm="COSID_MOD"), "sharding.table.algorithm: 'COSID_MOD' is not supported (one of MOD,"),
        (level(props=4), "sharding.table.props must be a mapping"),
        (level(**{"value-type": 4}), "sharding.table.value-type must be the name of a Java type"),
        (
            level(**{"value-type": "Double"}),
            "sharding.table.value-type: 'Double' does not fit column 'user_id'",
        ),
        (level(props={}), "sharding.table.props.sharding-count is missing"),
        (mod(**{"sharding-count": 0}), "sharding.table.props.sharding-count must be positive"),
        (
            mod(**{"sharding-count": "x"}),
            "sharding.table.props.sharding-count: the text is not a whole number",
        ),
        (mod(**{"sharding-count": 2**31}), "sharding-count: the number does not fit Java's int"),
        (mod(**{"sharding-count": [4]}), "sharding.table.props.sharding-count must be a text or a number"),
        (mod(**{"start-offset": -1}), "sharding.table.props.start-offset must not be negative"),
        (mod(count=1), "sharding.table.props.count is not a property of MOD (known: sharding-count, start-"),
        (mod(**{"sharding-count": 5}), "sharding.table: MOD gives 'orders_4', and no table of that name"),
        (mod(**{"sharding-count": 40}), "sharding.table: MOD gives 'orders_4', and no table of that name"),
        (volume(0, 10, 0), "sharding.table.props.sharding-volume must be positive"),
        (volume(0, 10, 11), "sharding.table.props.sharding-volume is more than the range"),
        (volume(-(2**63), 2**63 - 1, 2**62), "sharding.table.props.range-upper: the range is too wide"),
        (volume(0, "a", 1), "sharding.table.props.range-upper: the text is not a whole number"),
        (volume(0, 2**63, 1), "sharding.table.props.range-upper: the number does not fit Java's long"),
        (
            level(algorithm="BOUNDARY_RANGE", props={"sharding-ranges": "1,x"}),
            "sharding.table.props.sharding-ranges: the text is not a whole number",
        ),
        (
            level(algorithm="BOUNDARY_RANGE", props={"sharding-ranges": " , "}),
            "sharding.table.props.sharding-ranges is empty",
        ),
        (
            level(algorithm="INLINE", props={}),
            "sharding.table.props.algorithm-expression is missing or not a text",
        ),
        (
            level(algorithm="INLINE", props={"expression": "x"}),
            "sharding.table.props.expression is not a known key",
        ),
        (
            level(algorithm="INLINE", props={"algorithm-expression": "t_${other % 4}"}),
            "sharding.table.props.algorithm-expression: 'other' is not the sharding column 'user_id'",
        ),
        (
            pairs(props={"algorithm-expression": "t_${id}"}),
            "sharding.table.props.algorithm-expression: 'id' is not one of USER_ID, note as the rule spells it",
        ),
        (
            pairs(props={"algorithm-expression": "t_${1}"}),
            "algorithm-expression: the expression does not use the column 'USER_ID' or 'note'",
        ),
        (
            pairs(props={"algorithm-expression": "t_$note", "sharding-columns": "note"}),
            "sharding.table.props.sharding-columns has 1 columns, and the strategy 2 (ShardingSphere refuses every row",
        ),
        (pairs(columns=["note", "NOTE"]), "sharding.table.columns has a column twice"),
        (pairs(columns="note"), "sharding.table.columns is not a list of names"),
        (pairs(columns=["note", "other"]), "table 'orders' has no column 'other'"),
        (
            pairs(column="note"),
            "sharding.table.column is missing or not a text (a complex strategy takes columns: [a, b])",
        ),
        (
            level(columns=["note"]),
            "sharding.table.column is missing or not a text (columns: is for a complex strategy)",
        ),
        (pairs(**{"value-type": "Long"}), "sharding.table.value-type must be the name of a Java type, of one column"),
        (
            pairs(**{"value-types": {"id": "Long"}}),
            "sharding.table.value-types has 'id', which is not among the columns",
        ),
        (pairs(**{"value-types": ["Long"]}), "sharding.table.value-types gives Java types by column"),
    ],
)
def test_a_wrong_key_is_named(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        build_rule(spec, "orders", TYPES)
    assert str(refused.value).startswith("table 'orders': sharding")
    assert message in str(refused.value)


def test_one_expression_sees_several_columns() -> None:
    rule = pickle.loads(pickle.dumps(build_rule(pairs(), "orders", TYPES)))  # noqa: S301  our own
    assert rule.columns == ("user_id", "note")
    assert rule.route({"id": "1", "user_id": "2", "note": "abc"}) == Place("ds_0", "orders_1")
    assert rule.route_many([["0", "7", "2"], ["", "a", "😀"]]) == [0, 0, 0]  # Java counts two units
    assert rule.condition(0) is None
    assert rule.routes_alike("note", "varchar(9)")
    assert not rule.routes_alike("user_id", "varchar(9)")
    with pytest.raises(StopError, match="NULL in the sharding column note"):
        rule.route({"user_id": "2", "note": None})
    with pytest.raises(StopError) as no_place:
        rule.route({"user_id": "-3", "note": "secret"[:1]})
    assert "columns user_id (Java Long), note (Java String): no table by COMPLEX_INLINE: it gives a name" in str(
        no_place.value
    )


def test_columns_of_one_expression_have_java_types_of_their_own() -> None:
    props = {"algorithm-expression": "orders_${(USER_ID.hashCode() + note.hashCode()) % 4}", "sharding-columns": "a,b"}
    row = {"user_id": "-1", "note": ""}
    with pytest.raises(StopError):  # -1 as an Integer
        build_rule(pairs(props=props, **{"value-types": {"user_id": "Integer"}}), "orders", TYPES).route(row)
    assert build_rule(pairs(props=props), "orders", TYPES).route(row).table == "orders_0"  # 0 as a Long


def test_the_databases_spelling_names_the_variables_of_several_columns_too() -> None:
    database = {**pairs()["table"], "props": {"algorithm-expression": "ds_${USER_ID % 2}"}}
    table = {"column": "user_id", "algorithm": "INLINE", "props": {"algorithm-expression": "t_${USER_ID % 2}"}}
    spec = {"nodes": "ds_${0..1}.t_${0..1}", "database": database, "table": table}
    assert str(build_rule(spec, "t", TYPES).route({"user_id": "3", "note": "x"})) == "ds_1.t_1"


def test_one_column_has_one_value_type() -> None:
    spec = level(**{"value-type": "Long"})
    spec["database"] = {**BY_MOD, "value-type": "String"}
    with pytest.raises(ConfigError, match="column 'user_id' has another one"):
        build_rule(spec, "orders", TYPES)
    spec["database"] = BY_MOD
    assert build_rule(spec, "orders", TYPES).route({"user_id": "6"}) == Place("ds_2", "orders_2")


@pytest.mark.parametrize(
    ("type_", "message"),
    [
        ("date", "column 'user_id' (date) has no usual Java type (say which one the application passes"),
        ("datetime(3)", "one of String, LocalDateTime"),
        ("year(4)", "has no usual Java type"),
        ("uuid", "one of String"),
        ("double", "is double, which cannot be a sharding column"),
        ("timestamp(3)", "which cannot be a sharding column"),
        ("enum('a','b')", "which cannot be a sharding column"),
        ("bit(8)", "which cannot be a sharding column"),
        ("varbinary(16)", "which cannot be a sharding column"),
        ("varchar(10) character set utf16", "has the character set utf16, which cannot be routed by"),
    ],
)
def test_a_column_that_cannot_be_routed_by_is_refused(type_: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        rule_of("HASH_MOD", {"sharding-count": 5}, type_)
    assert "sharding.table: column 'user_id'" in str(refused.value)
    assert message in str(refused.value)


def test_an_algorithm_that_can_never_take_the_type_is_refused() -> None:
    with pytest.raises(ConfigError, match="MOD does not work on a LocalDate"):
        rule_of("MOD", {"sharding-count": 5}, "date", **{"value-type": "LocalDate"})
    with pytest.raises(ConfigError, match="BOUNDARY_RANGE does not work on a LocalDateTime"):
        rule_of("BOUNDARY_RANGE", {"sharding-ranges": "1"}, "datetime", **{"value-type": "LocalDateTime"})


def test_dates_are_routed_as_what_the_application_passes() -> None:
    as_text = rule_of("MOD", {"sharding-count": 5, "start-offset": 8}, "date", **{"value-type": "String"})
    assert as_text.route({"user_id": "2006-02-14"}).table == "orders_4"
    as_date = rule_of("HASH_MOD", {"sharding-count": 5}, "date", **{"value-type": "LocalDate"})
    with pytest.raises(StopError, match="the value is not a LocalDate"):
        as_date.route({"user_id": "0000-00-00"})
    decimal = rule_of("HASH_MOD", {"sharding-count": 5}, "decimal(10,2)")
    with pytest.raises(StopError, match="the value is not a BigDecimal"):
        decimal.route({"user_id": "1E+999999999"})
