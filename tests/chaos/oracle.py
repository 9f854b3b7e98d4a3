"""The oracle of a chaos run: rows, placement, and what was acknowledged. It uses none of the service's code.

Rows are compared as the servers' own text, by primary key over all shards; `plant` is the negative control.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from sandbox.broker import KafkaBroker
from sandbox.database import DatabaseServer
from sandbox.stack import Sandbox
from tests.chaos.tables import TABLES, TableSpec
from tests.chaos.writer import Writer
from tests.failover.topic import messages

Texts = dict[str, bytes | None]
Key = tuple[str, ...]


@dataclass(frozen=True, order=True)
class Finding:
    """A row that is not as it must be. `slot`: which of the writers' keys it is, if any."""

    table: str
    key: Key
    kind: str
    detail: str = ""
    slot: int | None = None

    def __str__(self) -> str:
        return f"{self.kind} {self.table} {list(self.key)}: {self.detail}"


class Oracle:
    """Reads source and targets; `name`: of the migration, whose databases are NAME_src, NAME_0 and NAME_1."""

    def __init__(self, box: Sandbox, name: str) -> None:
        self._box = box
        self._name = name

    def findings(self, writers: Sequence[Writer]) -> list[Finding]:
        """Everything that is wrong, sorted."""
        found: list[Finding] = []
        for spec in TABLES:
            placed = self.placed(spec)
            found += self._differences(spec, placed)
            found += self._lost(spec, placed, writers)
        return sorted(found)

    def source(self, spec: TableSpec) -> dict[Key, Texts]:
        return {_key(spec, row): row for row in _rows(self._box.source, f"{self._name}_src.{spec.name}")}

    def placed(self, spec: TableSpec) -> list[tuple[int, Key, Texts]]:
        """(Shard, key, row) of every row at the targets."""
        return [
            (shard, _key(spec, row), row)
            for shard, (database, table) in enumerate(spec.places())
            for row in _rows(self._box.targets[database], f"{self._name}_{database}.{table}")
        ]

    def _differences(self, spec: TableSpec, placed: list[tuple[int, Key, Texts]]) -> Iterator[Finding]:
        wanted = self.source(spec)
        seen: set[Key] = set()
        for shard, key, row in placed:
            expected = wanted.get(key)
            slot = spec.slot(_texts(row))
            if expected is None:
                yield Finding(spec.name, key, "extra", f"shard {shard} has {row}", slot)
            elif key in seen or spec.where(_texts(expected)) != shard:
                yield Finding(spec.name, key, "misplaced", f"shard {shard} has {row}, the source {expected}", slot)
            else:
                seen.add(key)
                if row != expected:
                    yield Finding(spec.name, key, "different", f"shard {shard} has {row}, the source {expected}", slot)
        for key in wanted.keys() - seen:
            yield Finding(spec.name, key, "missing", f"the source has {wanted[key]}", spec.slot(_texts(wanted[key])))

    def _lost(
        self, spec: TableSpec, placed: list[tuple[int, Key, Texts]], writers: Sequence[Writer]
    ) -> Iterator[Finding]:
        """Acknowledged writes that the target does not show, and rows that were acknowledged as deleted."""
        known = {slot: row for writer in writers for slot, row in writer.rows[spec.name].items()}
        there: dict[int, Texts] = {}
        for _, key, row in placed:
            slot = spec.slot(_texts(row))
            if slot is not None:
                there[slot] = row
                if slot not in known:
                    yield Finding(spec.name, key, "back again", f"{row} was acknowledged as deleted", slot)
        for slot, last in known.items():
            have = there.get(slot)
            if have is None:
                yield Finding(spec.name, (f"key {slot}",), "lost", f"no row instead of {last}", slot)
            elif have["stamp"] != str(last.stamp).encode():
                yield Finding(spec.name, _key(spec, have), "stale", f"{have} instead of {last}", slot)
            elif last.numbers and (have["history"] or b"").decode() != ",".join(map(str, last.numbers)):
                yield Finding(
                    spec.name, _key(spec, have), "list", f"{have['history']!r} instead of {last.numbers}", slot
                )

    # -- what is known of a key

    def history(self, found: Finding, writers: Sequence[Writer], kafka: KafkaBroker) -> list[str]:
        """What the writers did with the key, and every message of it in the topic."""
        spec = next(spec for spec in TABLES if spec.name == found.table)
        lines = [
            f"writer: {line}"
            for writer in writers
            if found.slot is not None
            for line in writer.history.get((spec.name, found.slot), [])
        ]
        for partition, at, message in messages(kafka, f"migrate.{self._name}"):
            if message["table"] != spec.name:
                continue
            for number, row in enumerate(message["data"] or []):
                old = message.get("old") or []
                before = {**row, **((old[number] if number < len(old) else None) or {})}
                if any(_is(spec, found, one) for one in (row, before)):
                    pos = message["pos"]
                    place = (pos["inc"], pos["file"], pos["tx"], pos["rows"][number])
                    lines.append(f"topic [{partition}] {at} {message['type']} {place} {row} before {before}")
        return lines

    # -- negative control

    def plant(self) -> list[Finding]:
        """Drop a row at the target, put one there twice, and change one; returns what must be found."""
        planted = []
        rows = {spec.name: (spec, self.placed(spec)) for spec in TABLES}
        spec, placed = rows["numbers"]
        shard, key, _ = next(one for one in placed if spec.slot(_texts(one[2])) is None)
        self._run(spec, shard, f"DELETE FROM {{}} WHERE {_where(spec, key)}")
        planted.append(Finding(spec.name, key, "missing"))
        spec, placed = rows["movers"]
        shard, key, row = next(one for one in placed if spec.slot(_texts(one[2])) is None)
        values = ", ".join("NULL" if value is None else f"'{value.decode()}'" for value in row.values())
        self._run(spec, (shard + 1) % 4, f"INSERT INTO {{}} VALUES ({values})")
        planted.append(Finding(spec.name, key, "misplaced"))
        spec, placed = rows["words"]
        shard, key, _ = placed[0]
        self._run(spec, shard, f"UPDATE {{}} SET note = 'changed by hand' WHERE {_where(spec, key)}")
        planted.append(Finding(spec.name, key, "different"))
        return sorted(planted)

    def _run(self, spec: TableSpec, shard: int, statement: str) -> None:
        database, table = spec.places()[shard]
        self._box.targets[database].execute(statement.format(table), database=f"{self._name}_{database}")


def _rows(server: DatabaseServer, table: str) -> list[Texts]:
    """Every row as the server's own text."""
    options: dict[str, Any] = {"conv": {}, "use_unicode": False, "init_command": "SET SESSION time_zone = '+00:00'"}
    with closing(server.connect(**options)) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {table}")
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _texts(row: Mapping[str, bytes | None]) -> dict[str, str]:
    return {name: (value or b"").decode("utf-8", "replace") for name, value in row.items()}


def _is(spec: TableSpec, found: Finding, row: Mapping[str, str | None]) -> bool:
    """Whether a message's row is of the key that was found."""
    if found.slot is None:
        return all(str(row.get(name)) == text for name, text in zip(spec.key_columns, found.key, strict=True))
    return spec.slot({name: row.get(name) or "0" for name in spec.key_columns}) == found.slot


def _key(spec: TableSpec, row: Texts) -> Key:
    return tuple((row[name] or b"").decode("utf-8", "backslashreplace") for name in spec.key_columns)


def _where(spec: TableSpec, key: Key) -> str:
    return " AND ".join(f"{name} = '{value}'" for name, value in zip(spec.key_columns, key, strict=True))
