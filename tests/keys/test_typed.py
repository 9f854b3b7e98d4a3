"""A key as a person types it names the row that the server would find by it: a table over the types of keys."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import pytest

from migrate.chunks.sessions import Sessions
from migrate.commands.typed_keys import typed_key
from migrate.model.change import Key
from migrate.model.errors import ConfigError
from migrate.mysql.connection import Connection
from migrate.processes.same_keys import alike
from sandbox.stack import Sandbox
from tests.keys.cases import BOTH
from tests.keys.laid import lay_rows, sides


@dataclass(frozen=True)
class Typed:
    """A type, its rows' keys by what a person may type for each, and what is none of its values.

    found: of these the row itself says how its key is written; of all others that is known without a row.
    """

    type: str
    rows: dict[str, tuple[str, ...]]
    found: frozenset[str] = frozenset()
    none: tuple[str, ...] = ()
    flavours: tuple[str, ...] = BOTH


CASES = (
    Typed(
        "BIGINT",
        {"7": ("7", "007", "+7", "7.0", "7e0"), "-3": ("-3",)},
        none=("", "7.5", "x", "0x7", "1e999", "7" * 5000),
    ),
    Typed("BIT(64)", {"5": ("5", "05"), "18446744073709551615": ("18446744073709551615",)}, none=("b'101'",)),
    Typed(
        "DECIMAL(65,30)",
        {
            "1.500000000000000000000000000000": ("1.5", "1.50", "+1.5", "15e-1", "1.5" + "0" * 29),
            "0.000000000000000000000000000000": ("0", "-0.0", ".0"),
            "9007199254740993.000000000000000000000000000000": ("9007199254740993",),
        },
        none=("1.5x", "1e-31", "1e300", "NaN", ""),
    ),
    Typed("DECIMAL(10,2) UNSIGNED ZEROFILL", {"1.50": ("1.5", "0001.50")}, none=("1.505",)),
    Typed("DOUBLE", {"1.5": ("1.5", "1.50", "15e-1"), "0.1": ("0.1", ".1"), "0.0": ("0", "-0")}, none=("inf", "1e999")),
    Typed("FLOAT", {"0.10000000149011612": ("0.1", "0.10000000149011612"), "1.5": ("1.50",)}, none=("1e39", "nan")),
    Typed(
        "DATE",
        {"2024-02-29": ("2024-02-29", "2024-2-29", "2024-02-29 00:00:00", "20240229"), "0000-00-00": ("0000-00-00",)},
        none=("2024-13-01", "2024-2-32", "2024-02-29 01:00:00", "today", ""),
    ),
    Typed(
        "DATETIME",
        {"2024-02-29 00:00:00": ("2024-02-29", "2024-02-29 00:00", "2024-02-29T00:00:00.000")},
        none=("2024-02-29 00:00:00.5", "2024-02-29 25:00:00", "2024-02-29 00:00:00-05:00"),
    ),
    Typed(
        "DATETIME(6)",
        {
            "2024-02-29 00:00:00.000000": ("2024-02-29", "2024-02-29 00:00:00"),
            "2024-02-29 12:30:00.500000": ("2024-02-29 12:30:00.5", "2024-2-29 12:30:0.50"),
        },
        none=("2024-02-29 00:00:00.0000001",),
    ),
    Typed("TIMESTAMP(3)", {"2024-02-29 12:00:00.000": ("2024-02-29 12:00", "2024-02-29 12:00:00.0")}),
    Typed(
        "TIME(3)", {"10:00:00.500": ("10:00:00.5",), "-00:00:01.000": ("-0:0:1", "-00:00:01")}, none=("900:00:00", "x")
    ),
    Typed("YEAR", {"2024": ("2024", "24"), "1999": ("99",), "2005": ("5",)}, none=("x", "202")),
    Typed("ENUM('new','it''s','é')", {"1": ("new", "NEW", "1"), "2": ("it's",), "3": ("é", "É", "3")}, none=("old",)),
    Typed(r"ENUM('a\\b','x\ny','it''s\0')", {"1": ("a\\b",), "2": ("x\ny",), "3": ("it's\0",)}, none=(r"x\ny",)),
    Typed("ENUM('3','2','1')", {"1": ("1",), "3": ("3",)}),
    Typed("ENUM('3','2','1','10')", {"4": ("10", "4")}, found=frozenset({"10"})),
    Typed("ENUM('a','b') CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", {"1": ("a",)}, none=("A",)),
    Typed("SET('red','green','blue')", {"5": ("red,blue", "blue,RED", "5"), "0": ("", "0")}, none=("red,black",)),
    Typed(
        "VARCHAR(9) COLLATE utf8mb4_general_ci",
        {"ABC": ("ABC", "abc", "aBc "), "[1": ("[1",)},
        found=frozenset({"abc", "aBc "}),
    ),
    Typed("VARCHAR(9) COLLATE utf8mb4_bin", {"ABC": ("ABC",), "abc": ("abc",)}),
    Typed("VARCHAR(9) CHARACTER SET latin1", {"caf\xe9": ("café", "CAFÉ"), "\x80": ("€",)}, found=frozenset({"CAFÉ"})),
    Typed("VARCHAR(9) CHARACTER SET gbk", {"\xb6\xa9": ("订", "\xb6\xa9")}),
    Typed("VARCHAR(9) CHARACTER SET ucs2 COLLATE ucs2_bin", {"\x00a\x20\xac": ("a€",)}),
    Typed(
        "BINARY(4)",
        {"ab\0\0": ("ab", "ab\0\0", "0x6162", "0x61620000"), "\xff\xfe\0\x01": ("0xFFFE0001", "\xff\xfe\0\x01")},
        found=frozenset({"0x6162"}),
        none=("abcde",),
    ),
    Typed(
        "VARBINARY(9)",
        {"ab": ("ab", "0x6162"), "\xc3\xa9": ("é", "0xC3A9")},
        found=frozenset({"0x6162", "é", "0xC3A9"}),
    ),
    Typed(
        "UUID",
        {
            "123e4567-e89b-42d3-a456-426655440000": (
                "123E4567-E89B-42D3-A456-426655440000",
                "123e4567e89b42d3a456426655440000",
            )
        },
        none=("123e",),
        flavours=("mariadb",),
    ),
    Typed("INET6", {"2001:db8::9": ("2001:DB8:0::9",)}, none=("x",), flavours=("mariadb",)),
)


@pytest.fixture(scope="module")
def databases(box: Sandbox) -> Iterator[tuple[Connection, str, str]]:
    with sides(box) as found:
        yield found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.type[:40])
@pytest.mark.parametrize("composite", [False, True], ids=["alone", "composite"])
def test_what_a_person_types_is_the_key_that_the_row_has(
    box: Sandbox, databases: tuple[Connection, str, str], case: Typed, *, composite: bool
) -> None:
    if box.flavour not in case.flavours:
        pytest.skip("the other flavour's type")
    first = ("1",) if composite else ()
    columns, key = ("a INT NOT NULL, ", "a, k") if composite else ("", "k")
    definition = f"{columns}k {case.type} NOT NULL, n INT NOT NULL, v INT NOT NULL, PRIMARY KEY ({key})"
    laid = lay_rows(box, *databases, definition, [(*first, own) for own in case.rows])
    every = [(own, text) for own, texts in case.rows.items() for text in texts]
    with closing(Sessions(laid.settings)) as sessions:

        def typed(text: str) -> Key:
            written = json.dumps([*first, text]) if composite else text
            return typed_key(sessions, laid.planned, [laid.planned], written)

        for there in ("both sides", "the target", "no side"):
            asked = [one for one in every if one[1] not in case.found or there != "no side"]
            assert {one: typed(one[1]) for one in asked} == {one: (*first, one[0]) for one in asked}, there
            database = laid.source if there == "both sides" else laid.target
            laid.one.query(f"DELETE FROM {database}.t")
        for text in case.none:
            with pytest.raises(ConfigError, match="is no key of") as caught:
                typed(text)
            assert caught.value.hint


def test_keys_that_a_collation_takes_for_one_are_alike(box: Sandbox, databases: tuple[Connection, str, str]) -> None:
    definition = "k VARCHAR(9) COLLATE utf8mb4_general_ci NOT NULL PRIMARY KEY, n INT NOT NULL, v INT NOT NULL"
    laid = lay_rows(box, *databases, definition, [("ABC",)])
    others = [("abc ",), ("abd",), ("ABC",)]
    assert alike(laid.settings, laid.planned, ("Abc",), others) == {("abc ",), ("ABC",)}
    assert alike(laid.settings, laid.planned, ("Abc",), []) == set()
