"""Single keys looked up on both sides: where they are, with which digest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from migrate.chunks.column_codecs import to_text
from migrate.chunks.sessions import Sessions
from migrate.model.change import Key
from migrate.model.errors import Code, StopError
from migrate.model.table import Column, Table
from migrate.mysql.connection import Connection
from migrate.mysql.keys import among, order, up_to
from migrate.mysql.quoting import quote
from migrate.mysql.quoting import table as full_name
from migrate.mysql.rowfilter import and_rows
from migrate.mysql.values import Parameter, compared, selected
from migrate.target.home import named
from migrate.target.routing import PlannedTable
from migrate.verify.digest import no_digest, row_digest, told_by, value

_KEYS = 200


class BlindSpot(StopError):  # noqa: N818 - what it says is what is so
    """A row is at a server, and not found by its key: nothing can be said of this table's rows."""

    code = Code.KEY


@dataclass(slots=True)
class Seen:
    """A key at one look: its place and digest by the source, and the digests it has at places.

    named: the key as the source writes it, where the server takes several texts for one key. holders: the tables that
    have it, of which a group may have more than one by mistake. belongs: where its row belongs at the side that is
    read, where that is another table; "" where it does not. nodes: of a broadcast table, how many places there are,
    each of which has every row; else 0. mirrors: where one is read, the digest at each node but the first, by its name;
    None where a node has no such row.
    """

    source: tuple[int, str] | None = None
    targets: dict[int, str] = field(default_factory=dict)
    named: Key | None = None
    holders: tuple[PlannedTable, ...] = ()
    belongs: str = ""
    nodes: int = 0
    mirrors: dict[str, str | None] = field(default_factory=dict)


def look_up(sessions: Sessions, tables: Sequence[PlannedTable], keys: Sequence[Key]) -> dict[Key, Seen]:
    """Each key at the sources and at every place of the tables, which share them.

    Where only the server can tell which keys are one, a key at a time.
    """
    planned, mixed = tables[0], sessions.mixed(tables)
    seen: dict[Key, Seen] = {}
    size = _KEYS if planned.table.key_is_exact else 1
    for start in range(0, len(keys), size):
        part = keys[start : start + size]
        nodes, mirrors = len(planned.places) if planned.broadcast else 0, planned.mirror_tables
        found = {key: Seen(nodes=nodes, mirrors=dict.fromkeys(map(_named, mirrors))) for key in part}
        alone = part[0] if size == 1 else None
        for one in tables:
            for key, place, digest, belongs in _at_source(sessions.source(one.table.source), one, part, mixed):
                there = found[alone or key]
                there.belongs = belongs or there.belongs
                there.source, there.named, there.holders = (place, digest), key, (*there.holders, one)
        for mirror in mirrors:
            there_too = replace(planned, table=mirror, belongs=None)
            for key, _, digest, _ in _at_source(sessions.source(mirror.source), there_too, part, mixed):
                found[alone or key].mirrors[_named(mirror)] = digest
        for key, place, digest in _at_targets(sessions, planned, part, mixed):
            found[alone or key].targets[place] = digest
        if unseen := [key for key, one in found.items() if one.source is None and not one.targets]:
            _refuse_blindness(sessions, tables, part, unseen)
        seen |= found
    return seen


def _named(table: Table) -> str:
    return named(table.id)


def _refuse_blindness(
    sessions: Sessions, tables: Sequence[PlannedTable], asked: Sequence[Key], unseen: Sequence[Key]
) -> None:
    """Raise BlindSpot when a key that was found nowhere is there: looked for by the order of keys, not by its value.

    asked: all that were looked up by one condition, which is then asked of that very row, as it may have come since.
    """
    planned = tables[0]
    for one in tables:
        name = full_name(one.table.database, one.table.name)
        _refuse_blind(sessions.source(one.table.source), one.table, name, asked, unseen)
    for mirror in planned.mirror_tables:
        _refuse_blind(sessions.source(mirror.source), mirror, full_name(mirror.database, mirror.name), asked, unseen)
    for place in planned.places:
        _refuse_blind(sessions.targets.get(place.database), planned.table, quote(place.table), asked, unseen)


def _refuse_blind(connection: Connection, table: Table, name: str, asked: Sequence[Key], unseen: Sequence[Key]) -> None:
    columns, arguments, parts = table.key_columns, list[Parameter](), []
    fields = ", ".join(map(compared, columns))
    tail = f"ORDER BY {order(table, descending=True)} LIMIT 1"
    for key in unseen:
        where, values = up_to(table, key)
        parts.append(f"(SELECT {fields} FROM {name} WHERE {where} {tail})")
        arguments += values
    found = {_key_of(columns, raw) for raw in connection.query(" UNION ALL ".join(parts), arguments)}
    said, said_arguments = among(table, asked)
    for key in unseen:
        if key not in found:
            continue
        where, values = up_to(table, key)
        row = connection.one(f"SELECT {fields}, {said} FROM {name} WHERE {where} {tail}", [*said_arguments, *values])
        if row is not None and _key_of(columns, row[:-1]) == key and not int(row[-1]):
            raise BlindSpot(
                f"{connection.name}: a row of {table.full_name} is not found by its key",
                hint="nothing is compared of this table; please report its key's types and the server's version",
            )


def _key_of(columns: Sequence[Column], raw: Sequence[bytes | None]) -> Key:
    return tuple(str(text) for text in _texts(columns, raw))


def _at_source(
    connection: Connection, planned: PlannedTable, keys: Sequence[Key], mixed: bool
) -> Iterator[tuple[Key, int, str, str]]:
    table, columns = planned.table, told_by(planned)
    fields = ", ".join(map(selected, columns))
    where, arguments = and_rows(*among(table, keys), planned.rows)
    name = full_name(table.database, table.name)
    statement = f"SELECT {fields}, {row_digest(table, mixed)} FROM {name} WHERE {where}"
    for *raw, digest in connection.query(statement, arguments):
        row = dict(zip((column.name for column in columns), _texts(columns, raw), strict=True))
        place = planned.rule.route_many([[row[name]] for name in planned.rule.columns], rows=1)[0]
        if digest is None:
            raise no_digest(table)
        (belongs,) = planned.elsewhere([[row[column.name]] for column in planned.belongs_by], 1)
        yield _key(table, row), place, digest.decode(), belongs


def _at_targets(
    sessions: Sessions, planned: PlannedTable, keys: Sequence[Key], mixed: bool
) -> Iterator[tuple[Key, int, str]]:
    table = planned.table
    where, arguments = among(table, keys)
    fields = ", ".join([*map(compared, table.key_columns), row_digest(table, mixed)])
    for database in planned.databases:
        places = [index for index, place in enumerate(planned.places) if place.database == database]
        parts = [
            f"SELECT {index}, {fields} FROM {quote(planned.places[index].table)} WHERE {where}" for index in places
        ]
        rows = sessions.targets.get(database).query(" UNION ALL ".join(parts), arguments * len(places))
        for index, *raw, digest in rows:
            row = dict(zip(table.key, _texts(table.key_columns, raw), strict=True))
            if digest is None:
                raise no_digest(table)
            yield _key(table, row), int(index), str(digest)


def lock_digest(connection: Connection, planned: PlannedTable, place: int, key: Key, mixed: bool) -> str | None:
    """A key's digest at a place, as `Seen.targets` has it, locked until the transaction ends; None where it is not."""
    where, arguments = among(planned.table, [key])
    name = quote(planned.places[place].table)
    statement = f"SELECT {row_digest(planned.table, mixed)} FROM {name} WHERE {where} FOR UPDATE"
    row = connection.one(statement, arguments)
    if row is not None and row[0] is None:
        raise no_digest(planned.table)
    return None if row is None else str(row[0])


def differing_columns(sessions: Sessions, planned: PlannedTable, key: Key, place: int) -> list[str]:
    """The columns whose stored bytes differ between the source's row and the row at a place."""
    table, mixed = planned.table, sessions.mixed([planned])
    fields = ", ".join(f"COALESCE(SHA2({value(column, mixed)}, 256), '-')" for column in table.stored)
    where, arguments = among(table, [key])
    name = full_name(table.database, table.name)
    here = sessions.source(table.source).one(f"SELECT {fields} FROM {name} WHERE {where}", arguments)
    connection = sessions.targets.get(planned.places[place].database)
    there = connection.one(f"SELECT {fields} FROM {quote(planned.places[place].table)} WHERE {where}", arguments)
    if here is None or there is None:
        return []
    pairs = zip(table.stored, here, there, strict=True)
    return [column.name for column, mine, theirs in pairs if mine.decode() != str(theirs)]


def _texts(columns: Sequence[Column], raw: Sequence[bytes | None]) -> list[str | None]:
    return [to_text(column)([value])[0] for column, value in zip(columns, raw, strict=True)]


def _key(table: Table, row: dict[str, str | None]) -> Key:
    return tuple(str(row[name]) for name in table.key)
