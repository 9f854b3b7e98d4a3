"""The six tables of a chaos run: how they look, where their rows belong, and which changes a writer makes to them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

Values = dict[str, str]
"""Column → its value as SQL."""
SPREAD = 17  # between two keys that are written to again and again
FRESH = 1_000_000  # keys from here on are inserted during the run, and never touched again


@dataclass(frozen=True)
class TableSpec:
    """A table over 2 databases × 2 tables, or 1 × 4. `stamp` notes which write a row is from; it is used once a row.

    `key`: its columns for one of the writer's keys, counted from 0; the same key may be spelled in several ways.
    `others`: the other columns of a new or changed row but for `stamp`. `where`: the shard, 0 to 3, from a row.
    """

    name: str
    columns: str
    key_columns: tuple[str, ...]
    key: Callable[[int, Random], Values]
    others: Callable[[Random], Values]
    shard_column: str
    where: Callable[[Mapping[str, str]], int]
    kinds: Sequence[str]  # of changes, see `writer`
    databases: int = 2
    fill: int = 0  # rows before the start; see `cold_keys`
    moved: Callable[[Random], Values] | None = None  # columns that bring a row to another shard
    unique: str = ""  # a column with a unique key, whose values swap
    slot: Callable[[Mapping[str, str]], int | None] = lambda row: _slot(row["id"])  # back from a row; None: nobody's

    def config(self, database: str) -> str:
        """Its part of the config file."""
        column, name = self.shard_column, self.name
        head = f"  - name: {database}.{name}\n"
        if self.unique:
            head += "    unique_apart: true\n"  # each writer keeps its values unique over the target tables
        head += "    sharding:\n"
        if self.databases == 1:
            return (
                f'{head}      nodes: "ds_0.{name}_${{0..3}}"\n'
                f"      table: {{column: {column}, algorithm: MOD, props: {{sharding-count: 4}}}}\n"
            )
        return (
            f'{head}      nodes: "ds_${{0..1}}.{name}_${{0..1}}"\n'
            f"      database: {{column: {column}, algorithm: INLINE,"
            f' props: {{algorithm-expression: "ds_${{{column} % 2}}"}}}}\n'
            f"      table: {{column: {column}, algorithm: INLINE,"
            f' props: {{algorithm-expression: "{name}_${{{column}.intdiv(2) % 2}}"}}}}\n'
        )

    def places(self) -> list[tuple[int, str]]:
        """(Database, table) of shard 0 to 3."""
        if self.databases == 1:
            return [(0, f"{self.name}_{shard}") for shard in range(4)]
        return [(shard % 2, f"{self.name}_{shard // 2}") for shard in range(4)]


def _slot(number: str) -> int | None:
    slot, rest = divmod(int(number) - 1, SPREAD)
    return None if rest else slot


def _number(column: str) -> Callable[[int, Random], Values]:
    return lambda slot, _choice: {column: str(1 + slot * SPREAD)}


def _pair(slot: int, _choice: Random) -> Values:
    return {"a": str(1 + slot), "b": f"X'{'00' * (slot % 3)}{slot * 7919 % 65536:04x}00'"}


def _word(slot: int, choice: Random) -> Values:
    """One key in one of its spellings: letters of either size, accents and spaces behind do not count there."""
    word = f"straw{slot}berry"
    spelled = "".join(choice.choice((letter, letter.upper())) for letter in word).replace("e", choice.choice("eéê"))
    return {"word": f"'{spelled}{' ' * choice.randrange(3)}'"}


def _text(choice: Random) -> str:
    return choice.choice(("NULL", "''", "'0'", "' a '", "'ünï🍓'", f"'{choice.randrange(10**6)}'", "REPEAT('x', 300)"))


def _user(choice: Random) -> Values:
    return {"user_id": str(choice.randrange(1000))}


def cold_keys(spec: TableSpec, scale: float) -> list[int]:
    """Keys of the rows before the start: each is changed or deleted at most once, so that no later change of it makes
    good what was lost."""
    return [one for one in range(1, int(spec.fill * scale) + 1) if _slot(str(one)) is None]


_ALL = ("insert", "update", "delete", "rekey", "chain", "again", "upsert", "bulk")
TABLES = (
    TableSpec(
        "numbers",
        "id BIGINT UNSIGNED NOT NULL, amount DECIMAL(30,10) NULL, note VARCHAR(400) NULL, seen TIMESTAMP(6) NULL,"
        " stamp BIGINT NOT NULL, PRIMARY KEY (id)",
        ("id",),
        _number("id"),
        lambda choice: {
            "amount": f"{choice.randrange(-(10**12), 10**12)}.{choice.randrange(10**9)}",
            "note": _text(choice),
            "seen": f"'2024-02-29 12:00:00.{choice.randrange(10**6):06d}'",
        },
        "id",
        lambda row: int(row["id"]) % 4,
        (*_ALL, *("fresh", "once") * 3),
        fill=2000,
    ),
    TableSpec(
        "pairs",
        "a INT NOT NULL, b VARBINARY(12) NOT NULL, note VARBINARY(400) NULL, stamp BIGINT NOT NULL, PRIMARY KEY (b, a)",
        ("b", "a"),
        _pair,
        lambda choice: {"note": _text(choice)},
        "a",
        lambda row: int(row["a"]) % 4,
        _ALL,
        slot=lambda row: int(row["a"]) - 1,
    ),
    TableSpec(
        "words",
        "word VARCHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL, user_id INT NOT NULL,"
        " note VARCHAR(400) NULL, stamp BIGINT NOT NULL, PRIMARY KEY (word)",
        ("word",),
        _word,
        lambda choice: {"note": _text(choice)} | _user(choice),
        "user_id",
        lambda row: int(row["user_id"]) % 4,
        (*_ALL, "spell", "move"),
        moved=_user,
        slot=lambda row: int(re.sub(r"\D", "", row["word"])),
    ),
    TableSpec(
        "seats",
        "id INT NOT NULL, seat INT NOT NULL, note VARCHAR(400) NULL, stamp BIGINT NOT NULL, PRIMARY KEY (id),"
        " UNIQUE KEY seat (seat)",
        ("id",),
        _number("id"),
        lambda choice: {"note": _text(choice)},
        "id",
        lambda row: int(row["id"]) % 4,
        ("insert", "update", "delete", "rekey", "chain", "again", "swap", "swap", "swap", "free", "evict"),
        databases=1,
        unique="seat",
    ),
    TableSpec(
        "movers",
        "id BIGINT NOT NULL, user_id INT NOT NULL, note VARCHAR(400) NULL, stamp BIGINT NOT NULL, PRIMARY KEY (id)",
        ("id",),
        _number("id"),
        lambda choice: {"note": _text(choice)} | _user(choice),
        "user_id",
        lambda row: int(row["user_id"]) % 4,
        (*_ALL, "move", "move", "move", "move", "move", *("fresh", "once") * 3),
        fill=2000,
        moved=_user,
    ),
    TableSpec(
        "lists",
        "id INT NOT NULL, history MEDIUMTEXT NOT NULL, stamp BIGINT NOT NULL, PRIMARY KEY (id)",
        ("id",),
        _number("id"),
        lambda _choice: {},
        "id",
        lambda row: int(row["id"]) % 4,
        ("append",),
    ),
)
