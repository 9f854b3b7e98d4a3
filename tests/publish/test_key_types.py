"""Statements that change the type of a key's or a sharding column: older changes of a row stay before newer ones."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from schema_support import Followed

from migrate.model.table import Column, Kind
from migrate.publish.schema.following import _selected
from migrate.publish.schema.key_texts import same_texts
from migrate.settings.tables import DdlPolicy
from migrate.sharding.columns import column_types
from migrate.sharding.rule import build_rule
from migrate.target.routing import PlannedTable
from sandbox.stack import Sandbox
from tests.helpers import unique

ANOTHER = "written another way"


def made(box: Sandbox, columns: str, key: str, sharding: Mapping[str, object] | None = None) -> Followed:
    """A table `t` with a key of one column, beside `n`; its statements are followed."""
    database = unique("keys")
    box.source.execute(f"CREATE DATABASE {database}")
    box.source.execute(f"CREATE TABLE t ({columns}, n INT, PRIMARY KEY ({key}))", database=database)
    followed = Followed(box.source, box.targets[0], database)
    table = followed.catalog("t")
    spec = {"nodes": "ds_0.t_${0..3}", "table": sharding} if sharding else {"nodes": "ds_0.t"}
    rule = build_rule(spec, f"{database}.t", column_types(table))
    name = (database, "t")
    followed.selected[name] = _selected(PlannedTable(table, rule, (), spec, ddl=DdlPolicy(columns="ignore")))
    followed.first = {name: followed._version(name)}
    return followed


def outcome(followed: Followed, alter: str) -> str:
    """Why the publisher stops in front of the statement; "" where it reads on behind it."""
    start = followed.here
    followed.sql(f"ALTER TABLE t {alter}")
    try:
        error = followed.stopped(start)
    except AssertionError:
        assert followed.known("t") == followed.catalog("t")
        return ""
    assert f"a statement may change {followed.database}.t: ALTER TABLE t {alter}"[:60] in error.message
    assert "undo it at the source, or start a new migration and copy again" in error.hint
    return error.message


OTHERS = [
    ("DATETIME", "DATETIME(6)"),
    ("DATETIME(3)", "DATETIME"),
    ("TIMESTAMP(3)", "TIMESTAMP(6)"),
    ("TIME", "TIME(1)"),
    ("DATE", "DATETIME"),
    ("DECIMAL(10,0)", "DECIMAL(10,2)"),
    ("DECIMAL(10,2)", "DECIMAL(12,4)"),
    ("INT", "DECIMAL(10,0)"),
    ("BINARY(4)", "BINARY(8)"),
    ("VARBINARY(4)", "BINARY(4)"),
    ("ENUM('a','b')", "ENUM('b','a')"),
    ("ENUM('a','b')", "ENUM('0','a','b')"),
    ("ENUM('a','b')", "ENUM('a')"),
    ("SET('a','b')", "SET('b','a')"),
    ("VARCHAR(9) CHARACTER SET latin1", "VARCHAR(9) CHARACTER SET utf8mb4"),
    ("VARCHAR(9) CHARACTER SET latin1", "VARCHAR(9) CHARACTER SET cp1251"),
]
ALIKE = [
    ("INT", "BIGINT"),
    ("SMALLINT UNSIGNED", "BIGINT UNSIGNED"),
    ("INT", "INT UNSIGNED"),
    ("DECIMAL(10,2)", "DECIMAL(20,2)"),
    ("DATETIME(6)", "DATETIME(6) DEFAULT '2020-01-01' COMMENT '(3)'"),
    ("BINARY(4)", "BINARY(4)"),
    ("BINARY(4)", "VARBINARY(8)"),
    ("VARBINARY(4)", "VARBINARY(8)"),
    ("BIT(4)", "BIT(12)"),
    ("ENUM('a','b')", "ENUM('a','b','c')"),
    ("SET('a','b')", "SET('a','b','c')"),
    ("CHAR(4) CHARACTER SET latin1", "VARCHAR(9) CHARACTER SET latin1"),
    ("VARCHAR(9) CHARACTER SET utf8mb3", "VARCHAR(20) CHARACTER SET utf8mb4"),
]


@pytest.mark.parametrize(("pairs", "same"), [(OTHERS, False), (ALIKE, True)], ids=["others", "alike"])
def test_which_types_write_values_alike(box: Sandbox, pairs: list[tuple[str, str]], same: bool) -> None:
    """Types of one kind were taken for alike."""
    types = [type_ for pair in pairs for type_ in pair]
    followed = made(box, ", ".join(f"c{no} {type_} NOT NULL" for no, type_ in enumerate(types)), "c0")
    columns = followed.catalog("t").columns[: len(types)]
    found = [same_texts(before, after) for before, after in zip(columns[::2], columns[1::2], strict=True)]
    assert [pair for pair, alike in zip(pairs, found, strict=True) if alike is not same] == []
    followed.close()


@pytest.mark.parametrize(("before", "after"), [OTHERS[0], OTHERS[5], OTHERS[8], OTHERS[10]])
def test_a_key_whose_values_would_be_written_another_way_stops(box: Sandbox, before: str, after: str) -> None:
    """Newer changes of a row went to another partition than older ones, and an older one could come last."""
    followed = made(box, f"k {before} NOT NULL", "k")
    why = outcome(followed, f"MODIFY k {after} NOT NULL")
    assert f"column k of its key would be {after.lower()} instead of {before.lower()}" in why.lower()
    assert ANOTHER in why
    followed.close()


@pytest.mark.parametrize(("before", "after"), [ALIKE[0], ALIKE[4], ALIKE[9]])
def test_a_wider_key_whose_values_are_written_alike_is_followed(box: Sandbox, before: str, after: str) -> None:
    followed = made(box, f"k {before} NOT NULL", "k")
    assert outcome(followed, f"MODIFY k {after} NOT NULL") == ""
    followed.close()


def test_addresses_of_two_kinds_are_written_in_two_ways() -> None:
    """Both are of one kind here: an INET4 that became an INET6 would have been taken for the same key."""
    old, new = (Column("k", one, Kind.INET, nullable=False) for one in ("inet4", "inet6"))
    assert same_texts(old, old)
    assert not same_texts(old, new)


HASH = {"column": "u", "algorithm": "HASH_MOD", "props": {"sharding-count": 4}}
MOD = {**HASH, "algorithm": "MOD"}
INLINE = {"column": "u", "algorithm": "INLINE", "props": {"algorithm-expression": "t_${u % 4}"}}
SHIFTED = {**INLINE, "props": {"algorithm-expression": "t_${(u >>> 1) % 4}"}}
AS_LONG = {**HASH, "value-type": "Long"}


@pytest.mark.parametrize(
    ("before", "after", "sharding", "why"),
    [
        ("BIGINT", "BIGINT UNSIGNED", HASH, "has another Java type"),
        ("INT", "BIGINT", HASH, "has another Java type"),
        ("INT", "BIGINT", SHIFTED, "has another Java type"),
        ("DECIMAL(10,0)", "DECIMAL(10,2)", HASH, ANOTHER),
        ("DECIMAL(10,0)", "DECIMAL(10,2)", AS_LONG, ANOTHER),
        ("INT", "VARCHAR(20)", HASH, "its sharding or its row conditions look at column u"),
        ("DATETIME", "DATETIME(3)", {**HASH, "value-type": "String"}, ANOTHER),
        ("BIGINT", "BIGINT UNSIGNED", AS_LONG, ""),
        ("INT", "BIGINT", AS_LONG, ""),
        ("INT", "BIGINT", MOD, ""),
        ("INT", "BIGINT", INLINE, ""),
        ("DECIMAL(10,2)", "DECIMAL(12,2)", HASH, ""),
        ("VARCHAR(9) CHARACTER SET utf8mb4", "VARCHAR(20) CHARACTER SET utf8mb4", HASH, ""),
    ],
)
def test_a_sharding_column_stops_where_its_values_would_be_routed_otherwise(
    box: Sandbox, before: str, after: str, sharding: Mapping[str, object], why: str
) -> None:
    """Newer changes of a row went to another place than the row."""
    followed = made(box, f"id INT, u {before} NOT NULL", "id", sharding)
    found = outcome(followed, f"MODIFY u {after} NOT NULL")
    assert (why in found) if why else found == ""
    if why == "has another Java type":
        assert f"its sharding looks at column u, and as {after.lower().split()[0]}" in found
    followed.close()


def test_a_number_of_a_condition_may_get_more_digits_a_moment_may_not(box: Sandbox) -> None:
    """A moment is compared by its digits: with more of them `is` found no row any more."""
    followed = made(box, "id INT, u DECIMAL(10,2), at DATETIME", "id")
    name = (followed.database, "t")
    selected = followed.selected[name]
    followed.selected[name] = type(selected)(True, ("id",), frozenset({"u", "at"}), selected.rules)
    assert outcome(followed, "MODIFY u DECIMAL(12,3)") == ""
    assert f"look at column at, whose values are {ANOTHER}" in outcome(followed, "MODIFY at DATETIME(3)")
    followed.close()
