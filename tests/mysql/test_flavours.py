"""Definitions and columns of one flavour for the other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from migrate.model.table import Column, Kind, Table
from migrate.mysql.flavours import collation_on, translated, unlike
from tests.helpers import int_column, text_column

OF_MYSQL = """CREATE TABLE `t` (
  `id` int NOT NULL COMMENT 'COLLATE utf8mb4_0900_ai_ci',
  `a` varchar(9) COLLATE utf8mb4_0900_as_cs DEFAULT 'it''s \\' COLLATE utf8mb4_0900_bin' COMMENT '/*!80016 */',
  `b` text CHARACTER SET utf8mb4 COLLATE utf8mb4_de_pb_0900_ai_ci,
  `p` point NOT NULL /*!80003 SRID 4326 */,
  `g` geomcollection DEFAULT NULL,
  `hidden` int DEFAULT '7' /*!80023 INVISIBLE */,
  PRIMARY KEY (`id`),
  KEY `k` (`a`) /*!80000 INVISIBLE */,
  CHECK ((`id` > 0)) /*!80016 NOT ENFORCED */
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci COMMENT='COLLATE=utf8mb4_0900_ai_ci'"""
FOR_MARIADB = """CREATE TABLE `t` (
  `id` int NOT NULL COMMENT 'COLLATE utf8mb4_0900_ai_ci',
  `a` varchar(9) COLLATE utf8mb4_uca1400_nopad_as_cs DEFAULT 'it''s \\' COLLATE utf8mb4_0900_bin' COMMENT '/*!80016 */',
  `b` text CHARACTER SET utf8mb4 COLLATE utf8mb4_uca1400_german2_nopad_ai_ci,
  `p` point NOT NULL,
  `g` geometrycollection DEFAULT NULL,
  `hidden` int DEFAULT '7' /*!80023 INVISIBLE */,
  PRIMARY KEY (`id`),
  KEY `k` (`a`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_uca1400_nopad_ai_ci COMMENT='COLLATE=utf8mb4_0900_ai_ci'"""
OF_MARIADB = """CREATE TABLE `t` (
  `id` int(11) NOT NULL,
  `a` varchar(9) /*M!100301 COMPRESSED*/ COLLATE utf8mb4_uca1400_german2_as_ci DEFAULT ' ENCRYPTED=YES',
  `j` longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT NULL CHECK (json_valid(`j`)),
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin PAGE_COMPRESSED=1 `ENCRYPTED`=YES"""


def test_a_definition_of_mysql_is_put_into_mariadbs_words_outside_of_quotes() -> None:
    assert translated(OF_MYSQL, "mariadb") == FOR_MARIADB


def test_a_definition_of_mariadb_is_put_into_mysqls_words() -> None:
    text = translated(OF_MARIADB, "mysql")
    assert "COLLATE utf8mb4_de_pb_0900_as_ci DEFAULT ' ENCRYPTED=YES'" in text
    assert text.endswith(") ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_bin")
    assert "CHECK (json_valid(`j`))" in text


@pytest.mark.parametrize(
    ("flavour", "collation", "found"),
    [
        ("mariadb", "utf8mb4_0900_ai_ci", "utf8mb4_uca1400_nopad_ai_ci"),
        ("mariadb", "utf8mb4_0900_bin", "utf8mb4_nopad_bin"),
        ("mariadb", "utf8mb4_sv_0900_as_cs", "utf8mb4_uca1400_swedish_nopad_as_cs"),
        ("mariadb", "utf8mb4_ja_0900_as_cs_ks", "utf8mb4_ja_0900_as_cs_ks"),  # none is near
        ("mariadb", "utf8mb4_zh_0900_as_cs", "utf8mb4_zh_0900_as_cs"),
        ("mysql", "utf8mb4_uca1400_ai_ci", "utf8mb4_0900_ai_ci"),
        ("mysql", "utf8mb4_uca1400_swedish_nopad_as_cs", "utf8mb4_sv_0900_as_cs"),
        ("mysql", "utf8mb4_uca1400_ai_cs", "utf8mb4_uca1400_ai_cs"),
        ("mysql", "utf8mb4_general_ci", "utf8mb4_general_ci"),
        ("mysql", "utf8mb4_0900_ai_ci", "utf8mb4_0900_ai_ci"),
    ],
)
def test_a_collation_is_called_what_the_server_calls_it(flavour: str, collation: str, found: str) -> None:
    assert collation_on(flavour, collation) == found


KEY = int_column("id")
ACROSS, WITHIN = ("mysql", "mariadb"), ("mysql", "mysql")


def told(mine: Column, theirs: Column, flavours: tuple[str, str] = ACROSS, in_key: bool = False) -> list[str]:
    key = (mine.name,) if in_key else ("id",)
    table = Table("s", "shop", "t", (KEY, mine), key)
    return unlike(table, (KEY, theirs), flavours)


def column(type_: str, kind: Kind, charset: str | None = None, collation: str | None = None) -> Column:
    return Column("c", type_, kind, charset, collation)


def test_columns_that_hold_the_same_values_fit() -> None:
    longtext = column("longtext", Kind.TEXT, "utf8mb4", "utf8mb4_bin")
    for mine, theirs in [
        (column("int", Kind.INT), column("int(11)", Kind.INT)),
        (column("bigint unsigned", Kind.INT), column("bigint(20) unsigned", Kind.INT)),
        (column("year", Kind.YEAR), column("year(4)", Kind.YEAR)),
        (column("geomcollection", Kind.GEOMETRY), column("geometrycollection", Kind.GEOMETRY)),
        (column("json", Kind.JSON), longtext),
        (column("uuid", Kind.UUID), column("char(36)", Kind.TEXT, "ascii", "ascii_bin")),
        (column("inet6", Kind.INET), column("varchar(39)", Kind.TEXT, "ascii", "ascii_bin")),
        (column("vector(3)", Kind.VECTOR), column("varbinary(12)", Kind.BINARY)),
    ]:
        assert told(mine, theirs) == []
    text = text_column("c")
    assert told(text, replace(text, collation="utf8mb4_bin"), WITHIN) == []


def test_columns_that_cannot_hold_them_as_they_are_are_named_with_the_reason() -> None:
    json, text = column("json", Kind.JSON), text_column("c")
    longtext = column("longtext", Kind.TEXT, "utf8mb4", "utf8mb4_bin")
    assert told(longtext, json, ("mariadb", "mysql"))[0].startswith("c (JSON of mysql, which writes documents anew")
    assert told(json, longtext, WITHIN) == ["c (longtext for json)"]
    assert told(json, column("text", Kind.TEXT, "utf8mb4"))[0].startswith("c (text for json; make it LONGTEXT")
    assert told(column("uuid", Kind.UUID), column("char(32)", Kind.TEXT, "ascii")) != []
    assert told(column("uuid", Kind.UUID), column("char(36)", Kind.RAWTEXT, "ucs2")) != []
    assert told(column("int", Kind.INT), column("int(11) unsigned", Kind.INT)) == ["c (int(11) unsigned for int)"]
    assert told(column("int(11)", Kind.INT), column("bigint", Kind.INT), WITHIN) == ["c (bigint for int(11))"]
    filled = column("int(7) unsigned zerofill", Kind.INT), column("int(9) unsigned zerofill", Kind.INT)
    assert told(*filled, WITHIN) == ["c (int(9) unsigned zerofill for int(7) unsigned zerofill)"]
    assert told(text, replace(text, charset="utf8mb3")) == ["c (character set utf8mb3 for utf8mb4)"]
    assert told(text, replace(text, nullable=True)) == ["c (NOT NULL on one side only)"]
    assert told(text, replace(text, generated=True)) == ["c (generated on one side only)"]
    assert told(text, replace(text, collation="utf8mb4_bin"), in_key=True) == [
        "c (a column of a unique key, in utf8mb4_bin; make it COLLATE utf8mb4_general_ci)"
    ]
    unique = Table("s", "shop", "t", (KEY, text), ("id",), (("c",),))
    (wrong,) = unlike(unique, (KEY, replace(text, collation="utf8mb4_bin")), WITHIN)
    assert "a column of a unique key" in wrong
    mapped = replace(text, collation="utf8mb4_0900_ai_ci")
    assert told(mapped, replace(text, collation="utf8mb4_uca1400_nopad_ai_ci"), in_key=True) == []


def test_columns_that_are_missing_or_in_another_order_are_named() -> None:
    one, two = text_column("c"), text_column("d")
    table = Table("s", "shop", "t", (KEY, one, two), ("id",))
    other = replace(one, nullable=not one.nullable)
    assert unlike(table, (KEY, one), WITHIN) == ["d (missing)"]
    assert unlike(table, (KEY, one, two, text_column("e")), WITHIN) == ["e (not at the source)"]
    assert unlike(table, (KEY, two, one), WITHIN) == ["in another order: d, c"]
    assert unlike(table, (KEY, other, text_column("e")), WITHIN) == [
        "d (missing)",
        "e (not at the source)",
        "c (NOT NULL on one side only)",
    ]


def test_older_and_newer_servers_of_one_flavour_call_the_same_column_differently() -> None:
    """MySQL before 8.0.19 prints widths of integers, MySQL before 8.0.28 and MariaDB before 10.6 call utf8mb3 utf8."""
    assert told(column("int(11)", Kind.INT), column("int", Kind.INT), WITHIN) == []
    old, new = (column("varchar(9)", Kind.TEXT, name, f"{name}_general_ci") for name in ("utf8", "utf8mb3"))
    assert told(old, new, WITHIN) == []
    assert told(new, old, WITHIN) == []
    other = column("varchar(9)", Kind.TEXT, "utf8mb4", "utf8mb4_general_ci")
    assert told(old, other, WITHIN) == ["c (character set utf8mb4 for utf8)"]
