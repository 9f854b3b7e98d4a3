"""The delete ledger: what the copy must take out again (invariant tombstone-under-open-chunk)."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pymysql
import pytest

from migrate.model.change import Key
from migrate.model.coordinate import Coordinate
from migrate.model.table import Table
from migrate.mysql.connection import Connection
from migrate.target import ledger, write_context
from sandbox.settings import Flavour
from tests.helpers import catalog_table, plain_table, unique
from tests.target.conftest import TargetSide, standby

AT, LATER = Coordinate(1, 2, 3, 4), Coordinate(1, 2, 3, 2**62)


def put(connection: Connection, migration: str, *keys: str, at: Coordinate = AT, empty: bool = False) -> list[bytes]:
    table = plain_table()
    wanted: list[Key] = [(key,) for key in keys]
    hashes = ledger.key_hashes(connection, table, wanted)
    entries = [(key, key_hash, at, empty) for key, key_hash in zip(wanted, hashes, strict=True)]
    with connection.transaction():
        ledger.put(connection, migration, table, "t_0", entries)
    return hashes


def noted(connection: Connection, migration: str, place: str = "t_0") -> dict[Key, tuple[Coordinate, bool]]:
    with connection.transaction():
        found = ledger.locked(connection, migration, plain_table(), place)
    return {entry.key: (entry.coordinate, entry.was_empty) for entry in found}


def test_an_entry_is_found_by_its_key_and_taken_out(side: TargetSide, migration: str) -> None:
    one, two = put(side.one, migration, "1", 'é"\\')
    assert noted(side.one, migration) == {("1",): (AT, False), ('é"\\',): (AT, False)}
    with side.one.transaction():
        found = ledger.find(side.one, migration, plain_table(), "t_0", [one, b"\0" * 32])
        ledger.remove(side.one, migration, plain_table(), "t_0", [one])
    assert [(entry.key, entry.key_hash) for entry in found.values()] == [(("1",), one)]
    assert list(noted(side.one, migration)) == [('é"\\',)]
    assert two != one


def test_a_later_delete_of_the_key_replaces_the_earlier_one(side: TargetSide, migration: str) -> None:
    put(side.one, migration, "1", at=AT)
    put(side.one, migration, "1", at=LATER, empty=True)
    assert noted(side.one, migration) == {("1",): (LATER, True)}


def test_places_and_migrations_do_not_mix(side: TargetSide, migration: str) -> None:
    hashes = put(side.one, migration, "1")
    other = standby(side.one)
    put(side.one, other, "1")
    assert noted(side.one, migration, "t_1") == {}
    assert write_context.read(side.one, migration).noted == {("s", "t_0")}
    with side.one.transaction():
        ledger.remove(side.one, migration, plain_table(), "t_1", hashes)
        ledger.remove(side.one, other, plain_table(), "t_0", hashes)
        assert ledger.any_locked(side.one, migration, plain_table(), "t_0")
        assert not ledger.any_locked(side.one, migration, plain_table(), "t_1")
    assert list(noted(side.one, migration)) == [("1",)]
    assert noted(side.one, other) == {}


def test_entries_of_a_group_that_is_no_more_are_forgotten_and_no_others(side: TargetSide, migration: str) -> None:
    groups = [replace(plain_table(), source=ledger.GROUP, database="", name=name) for name in ("gone", "kept")]
    for connection_of in (migration, other := standby(side.one)):
        put(side.one, connection_of, "1")
        with side.one.transaction():
            for table in groups:
                hashes = ledger.key_hashes(side.one, table, [("7",)])
                ledger.put(side.one, connection_of, table, table.name, [(("7",), hashes[0], AT, True)])
    ledger.forget_groups_but(side.one, migration, {"kept"})
    assert write_context.read(side.one, migration).noted == {("s", "t_0"), ("*", "kept")}
    assert write_context.read(side.one, other).noted == {("s", "t_0"), ("*", "kept"), ("*", "gone")}
    ledger.forget_groups_but(side.one, migration, set())
    assert write_context.read(side.one, migration).noted == {("s", "t_0")}


def test_many_entries_go_in_several_statements(side: TargetSide, migration: str) -> None:
    keys = [str(number) for number in range(1203)]
    hashes = put(side.one, migration, *keys)
    with side.one.transaction():
        assert len(ledger.find(side.one, migration, plain_table(), "t_0", hashes)) == 1203
        ledger.remove(side.one, migration, plain_table(), "t_0", hashes[:-1])
    assert list(noted(side.one, migration)) == [("1202",)]


def test_only_entries_that_wait_for_a_delayed_message_are_waited_for(side: TargetSide, migration: str) -> None:
    put(side.one, migration, "1", "2", empty=True)
    put(side.one, migration, "3")
    assert ledger.waiting(side.one, migration) == 2
    assert ledger.clean_up(side.one, migration, plain_table()) == 1
    assert sorted(noted(side.one, migration)) == [("1",), ("2",)]


def test_cleaning_up_has_a_limit(side: TargetSide, migration: str) -> None:
    put(side.one, migration, "1", "2", "3")
    assert ledger.clean_up(side.one, migration, plain_table(), limit=2) == 2
    assert ledger.clean_up(side.one, migration, plain_table(), limit=2) == 1


def test_the_copy_waits_for_a_delete_in_flight(side: TargetSide, migration: str) -> None:
    with side.one.transaction():
        entry = ((("1",), b"h" * 32, AT, False),)
        ledger.put(side.one, migration, plain_table(), "t_0", entry)
        for asked in (ledger.locked, ledger.any_locked):
            with pytest.raises(pymysql.OperationalError, match="1205"), side.two.transaction():
                asked(side.two, migration, plain_table(), "t_0")


# -- hashes


def text_table(side: TargetSide, collation: str, more: str = "") -> Table:
    charset = collation.split("_", 1)[0]
    name = unique("h")
    side.one.execute(f"CREATE TABLE {name} (k VARCHAR(40) CHARACTER SET {charset} COLLATE {collation}{more})")
    return catalog_table(side.one, side.database, name)


COLLATIONS = [
    *("utf8mb4_general_ci", "utf8mb4_unicode_ci", "utf8mb4_bin", "utf8mb4_unicode_520_ci", "latin1_swedish_ci"),
    *("latin1_bin", "gbk_chinese_ci", "cp1251_general_ci", "ascii_general_ci", "utf8mb3_general_ci"),
]
OWN = {
    Flavour.MARIADB: [
        "utf8mb4_nopad_bin",
        "utf8mb4_general_nopad_ci",
        "utf8mb4_uca1400_ai_ci",
        "utf8mb4_uca1400_nopad_as_cs",
    ],
    Flavour.MYSQL: ["utf8mb4_0900_ai_ci", "utf8mb4_0900_as_cs", "utf8mb4_0900_bin", "utf8mb4_ja_0900_as_cs_ks"],
}
ALL = [*COLLATIONS, *(collation for own in OWN.values() for collation in own)]
TEXTS = [
    "ABC",
    "abc",
    "abc ",
    " abc",
    "abc\t",
    "",
    "  ",
    "\0",
    "ábc",
    "äbc",
    "aebc",
    "ss",
    "ß",
    "SS",
    "й",
    "Й",
    "и",
    "😀",
    "🎁",
    "﷽",
]


@pytest.mark.parametrize("collation", ALL)
def test_two_keys_have_one_hash_exactly_where_the_server_takes_them_for_one(side: TargetSide, collation: str) -> None:
    if collation not in COLLATIONS and collation not in OWN[side.box.flavour]:
        pytest.skip("the other server's collation")
    table = text_table(side, collation, " PRIMARY KEY")
    column = table.key_columns[0]
    texts = []
    for text in TEXTS:
        try:
            raw = text.encode(
                {"latin1": "cp1252", "utf8mb3": "utf-8"}.get(
                    str(column.charset), str(column.charset).removesuffix("mb4")
                )
            )
        except UnicodeEncodeError:
            continue
        if column.charset != "utf8mb3" or len(text.encode()) < 4:
            texts.append(raw.decode("latin-1") if column.kind == "rawtext" else text)
    assert len(texts) > 8
    hashes = dict(zip(texts, ledger.key_hashes(side.one, table, [(text,) for text in texts]), strict=True))
    same = f"CONVERT(%s USING {column.charset}) = CONVERT(%s USING {column.charset}) COLLATE {collation}"

    def argument(text: str) -> str | bytes:
        return text.encode("latin-1") if column.kind == "rawtext" else text

    for one, two in product(texts, texts):
        row = side.one.one(f"SELECT {same}", [argument(one), argument(two)])
        assert row is not None
        assert (hashes[one] == hashes[two]) == bool(row[0]), (one, two)


def test_parts_of_a_composite_key_stay_apart(side: TargetSide) -> None:
    table = text_table(side, "utf8mb4_general_ci", ", n INT, b VARBINARY(9), PRIMARY KEY (k, n, b)")
    keys: list[Key] = [
        ("a", "1", "x"),
        ("a", "1", "X"),
        ("a", "2", "x"),
        ("a1", "1", "x"),
        ("b", "1", "x"),
        ("a", "11", ""),
    ]
    hashes = ledger.key_hashes(side.one, table, keys)
    assert len(set(hashes)) == len(keys)
    assert ledger.key_hashes(side.one, table, [("A ", "1", "x")]) == hashes[:1]


def test_exact_keys_are_hashed_without_the_server() -> None:
    table = plain_table(key=("id", "shard"))
    none: Connection = None  # type: ignore[assignment]
    hashes = ledger.key_hashes(none, table, [("1", "2"), ("1", "2"), ("12", ""), ("", "12")])
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 3
    assert hashes[0].hex() == "8169cab3831aaa019f12f5b449b10e3dffa012a58703c1cb158fd64c235f7713"  # of ["1", "2"]
