"""A source whose foreign keys change rows in no log, and what its publisher makes of the rest."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from migrate.model.message import Row
from migrate.model.table import Column, Kind, Table
from migrate.mysql.foreign_keys import ForeignKey, foreign_keys
from migrate.publish.cascades import Cascades
from migrate.publish.decode.rows import DELETE, UPDATE
from migrate.publish.emit import Emitter, Transaction
from migrate.publish.schema.definitions import Definitions, Selected
from migrate.state.migration import Migration, Topic
from migrate.state.schema_history import Version
from migrate.target.routing import Plan
from tests.helpers import int_column, make_settings, text_column
from tests.property.stream import sharding

PARTITIONS = 2
MIGRATION = Migration("m", (Topic("topic", "topic", PARTITIONS),))
COLUMNS = (int_column("id"), int_column("shard"), Column("up", "int(11)", Kind.INT), text_column("code"))
NAMES = ("a", "b", "c", "d")
TABLES = {name: Table("s", "shop", name, COLUMNS, ("id",)) for name in NAMES}
_CASCADE = "ON DELETE CASCADE ON UPDATE CASCADE"
SHAPES = {
    "handed on": (
        ("b", "code", "a", "code", "ON UPDATE CASCADE"),
        ("c", "code", "b", "code", _CASCADE),
        ("d", "code", "c", "code", _CASCADE),
    ),
    "set to NULL": (
        ("b", "code", "a", "code", "ON DELETE SET NULL ON UPDATE CASCADE"),
        ("c", "code", "b", "code", "ON DELETE CASCADE ON UPDATE SET NULL"),
    ),
    "in part": (
        ("b", "code", "a", "code", "ON UPDATE CASCADE"),
        ("c", "code, up", "b", "code, id", _CASCADE),
        ("d", "up, code", "b", "id, code", _CASCADE),
    ),
    "by the key": (
        ("b", "up", "a", "id", _CASCADE),
        ("c", "up", "b", "id", _CASCADE),
        ("d", "code", "c", "code", _CASCADE),
    ),
    "in the end": (
        ("b", "up", "a", "id", _CASCADE),
        ("c", "up", "b", "id", "ON DELETE SET NULL ON UPDATE CASCADE"),
        ("d", "up", "c", "up", "ON DELETE CASCADE ON UPDATE CASCADE"),
    ),
    "a tree": (("a", "up", "a", "id", "ON DELETE CASCADE"), ("b", "code", "a", "code", _CASCADE)),
}
"""Each foreign key: the child and its columns, the parent and the columns that it has of it, the rules."""
Rows = dict[str, dict[str, Row]]
"""By table and id."""


class RefusedError(Exception):
    """The server would."""


def plan() -> Plan:
    tables = [{"name": f"shop.{name}", "sharding": sharding(name)} for name in NAMES]
    return Plan(make_settings(tables=tables), {table.id: table for table in TABLES.values()})


def creates(shape: str) -> dict[str, str]:
    """What is enough of each table's SHOW CREATE TABLE."""
    made = dict.fromkeys(NAMES, "")
    for number, (child, columns, parent, referenced, rules) in enumerate(SHAPES[shape]):
        ours, theirs = (", ".join(f"`{one}`" for one in some.split(", ")) for some in (columns, referenced))
        made[child] += f"  CONSTRAINT `k{number}` FOREIGN KEY ({ours}) REFERENCES `{parent}` ({theirs}) {rules}\n"
    return made


@dataclass
class Family:
    """Rows now, and what was logged: `log` has the changes, `history` the rows at first and behind each."""

    shape: str
    rows: Rows = field(default_factory=dict)
    log: list[tuple[str, Row | None, Row | None]] = field(default_factory=list)
    history: list[Rows] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.keys = {name: foreign_keys(create, "shop") for name, create in creates(self.shape).items()}
        links = [(child, key) for child, keys in self.keys.items() for key in keys]
        self._children = {parent: [(child, key) for child, key in links if key.parent[1] == parent] for parent in NAMES}

        self.rows = {name: {str(one["id"]): one for one in self._first(name)} for name in NAMES}
        self.history.append(self.rows)

    def _first(self, name: str) -> Iterator[Row]:
        """A chain of every key; of a tree one branch."""
        is_tree = self.shape == "a tree" and name == "a"
        for key, above, code in (("1", None, "x"), ("2", "1", "y"), ("3", "2", "z")):
            yield {"id": key, "shard": "0", "up": above if is_tree else key, "code": code}

    def is_parent(self, name: str) -> bool:
        return bool(self._children[name])

    def change(self, table: str, before: Row | None, after: Row | None) -> None:
        """Do it, with all that follows, if the server would."""
        kept = self.rows
        self.rows = {name: dict(rows) for name, rows in kept.items()}
        try:
            self._put(table, before, after, 0)
            self._check()
        except RefusedError:
            self.rows = kept
            return
        self.log.append((table, before, after))
        self.history.append(self.rows)

    def _put(self, table: str, before: Row | None, after: Row | None, depth: int) -> None:
        if depth > 15:
            raise RefusedError
        if before is not None and self.rows[table].pop(str(before["id"]), None) is None:
            return  # it went meanwhile
        if after is not None:
            if str(after["id"]) in self.rows[table]:
                raise RefusedError
            self.rows[table][str(after["id"])] = after
        if before is None:
            return
        for child, key in self._children[table]:
            self._cascade(child, key, before, after, depth)

    def _cascade(self, child: str, key: ForeignKey, before: Row, after: Row | None, depth: int) -> None:
        old = [before[name] for name in key.referenced]
        new = None if after is None else [after[name] for name in key.referenced]
        if None in old or new == old:
            return
        rule = key.on_delete if new is None else key.on_update
        for row in [row for row in self.rows[child].values() if [row[name] for name in key.columns] == old]:
            if not rule:
                raise RefusedError
            if rule == "SET NULL":
                self._put(child, row, {**row, **dict.fromkeys(key.columns)}, depth + 1)
            else:
                now = None if new is None else {**row, **dict(zip(key.columns, new, strict=True))}
                self._put(child, row, now, depth + 1)

    def _check(self) -> None:
        """Every parent is there, and what is referred to is unique."""
        for child, keys in self.keys.items():
            for key in keys:
                values = [tuple(row[name] for name in key.referenced) for row in self.rows[key.parent[1]].values()]
                known = [one for one in values if None not in one]
                wanted = [tuple(row[name] for name in key.columns) for row in self.rows[child].values()]
                if len(known) != len({*known}) or not {one for one in wanted if None not in one} <= {*known}:
                    raise RefusedError


def a_family(chance: random.Random) -> Family:
    family = Family(chance.choice([*SHAPES]))
    names = [name for name in NAMES if family.keys[name] or family.is_parent(name)]
    ids, codes = ("1", "2", "3"), ("x", "y", "z", None)
    for _ in range(chance.randint(1, 12)):
        table, there = (name := chance.choice(names)), [*family.rows[name].values()]
        what = chance.choice(["insert", "update", "delete"])
        if what == "insert" or not there:
            row = {"id": chance.choice(ids), "shard": "0", "up": chance.choice([None, *ids])}
            family.change(table, None, {**row, "code": chance.choice(codes)})
        elif what == "delete":
            family.change(table, chance.choice(there), None)
        else:
            before, column = chance.choice(there), chance.choice(["id", "up", "code"])
            family.change(table, before, {**before, column: chance.choice(codes if column == "code" else ids)})
    return family


class Event:
    """Of one row, as a publisher sees it."""

    body = bytes(8)

    def __init__(self, before: Row | None, after: Row | None) -> None:
        self.type = min(UPDATE) if before and after else min(DELETE) if before else -1
        self._images = tuple(None if row is None else tuple(row.values()) for row in (before, after))

    def __iter__(self) -> Iterator[Any]:
        yield self._images


class Publisher:
    def __init__(self, family: Family, planned: Plan) -> None:
        made = {("shop", name): Version(TABLES[name], create) for name, create in creates(family.shape).items()}
        self._known = Definitions({name: Selected(False) for name in made}, made, {})
        by_name = {id_[1:]: one for id_, one in planned.tables.items()}
        self._cascades = Cascades(by_name, MIGRATION, "topic", 100_000)
        self._emitters = {name: Emitter(table, PARTITIONS, 100_000) for name, table in TABLES.items()}

    def messages(self, at: int, table: str, before: Row | None, after: Row | None) -> Iterator[tuple[int, bytes]]:
        """Partition and message of what a change leaves in the topic."""
        transaction, event = Transaction("s", 1, 1, at, "", 0), Event(before, after)
        yield from self._emitters[table].messages(transaction, 0, [*event])
        for _, _, marked in self._cascades.behind(self._known, TABLES[table], transaction, 0, event):  # type: ignore[arg-type]
            yield from marked
