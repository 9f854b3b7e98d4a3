"""Markers: what a foreign key does to child rows by itself, as a message.

A marker names values that a parent's change took from the columns that refer to it. It travels in every partition of
the child table, behind the child's own changes; each partition's owner finds the rows that have such a value at the
target, and refreshes them (docs/decisions/0032).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from migrate.model.change import Key
from migrate.model.coordinate import ordinal
from migrate.model.message import CASCADE, Message, Row, encode
from migrate.model.table import Table
from migrate.mysql.connection import Connection
from migrate.mysql.foreign_keys import ForeignKey
from migrate.mysql.keys import Condition, among
from migrate.mysql.quoting import quote
from migrate.mysql.values import compared, from_server
from migrate.target.routing import PlannedTable, TargetDatabase
from migrate.target.rows import slices

_AT_ONCE = 500
"""Values in a marker."""
_ROOM = 1024
"""Bytes below the broker's limit, for the record's own fields."""
_PLACES = 50
"""Tables that one statement asks."""

Pair = tuple[Row, Row | None]
"""What child rows had in the columns of a foreign key, and what the parent has there now; None: the parent is gone."""
Values = dict[tuple[str, ...], list[Row]]
"""By the columns that they are of."""


def acts(key: ForeignKey, *, deletes: bool) -> bool:
    """Whether the server changes child rows by itself where a parent is deleted, or its referenced columns change."""
    return bool(key.on_delete if deletes else key.on_update)


def changed(key: ForeignKey, before: Row, after: Row | None) -> Pair | None:
    """What a change of a parent's row is to the rows that refer to it; None where it is nothing to them.

    No row refers to one that has NULL in a referenced column.
    """
    return pair(key, before, after) if acts(key, deletes=after is None) else None


def pair(key: ForeignKey, before: Row, after: Row | None) -> Pair | None:
    """As `changed`, whatever the foreign key does then."""
    old = [before.get(name) for name in key.referenced]
    if None in old:
        return None
    was = dict(zip(key.columns, old, strict=True))
    if after is None:
        return was, None
    new = [after.get(name) for name in key.referenced]  # of a generated column nobody knows
    return None if new == old else (was, dict(zip(key.columns, new, strict=True)))


def handed_on(key: ForeignKey, one: Pair, below: ForeignKey) -> Pair | None:
    """What the rows that a pair means are to the rows that refer to them, where the values alone tell.

    Args: key: by which the pair's rows are children; below: a foreign key to their table, with its names.
    None where it is nothing to them, and where the rows must be looked at: what they are referred to by is not in the
    pair, or rows that have some of its values are many more than it means.
    """
    was, now = one
    rule = key.on_delete if now is None else key.on_update
    if rule not in ("CASCADE", "SET NULL"):
        return None
    names = dict(zip(below.columns, below.referenced, strict=True))
    held = tuple(name for name in below.columns if names[name] in was)
    # An index begins with the columns of a foreign key in their order: what begins with others is not looked for.
    exact = held == below.columns or (len(held) == len(was) and held == below.columns[: len(held)])
    if not held or not exact:
        return None
    before: Row = {name: was[names[name]] for name in held}
    if now is None and rule == "CASCADE":
        return (before, None) if acts(below, deletes=True) else None
    became = now if now is not None and rule == "CASCADE" else {}
    after: Row = {name: became.get(names[name]) for name in held}
    return (before, after) if after != before and acts(below, deletes=False) else None


def markers(
    child: Table, at: Message, key: ForeignKey, event: int, pairs: Iterable[tuple[int, Pair]], limit: int
) -> Iterator[Message]:
    """Markers of a child table.

    Args: at: a message with the transaction's place and times, its id the generation of the rows (0: of a parent that
    the log has). event: the parent's row event in it. pairs: each with the index of its row in the event. limit: of a
    marker, in bytes.
    """
    seen: dict[tuple[tuple[str | None, ...], tuple[str | None, ...]], tuple[int, Row, Row | None]] = {}
    for index, (was, now) in pairs:
        seen.setdefault((tuple(was.values()), tuple((now or {}).values())), (index, was, now))
    for deletes in (True, False):
        some = [one for one in seen.values() if (one[2] is None) is deletes]
        event_, does = ("DELETE", key.on_delete) if deletes else ("UPDATE", key.on_update)
        rule = f"ON {event_} {does}" if does else ""
        for start in range(0, len(some), _AT_ONCE):
            part = some[start : start + _AT_ONCE]
            before, after = tuple(was for _, was, _ in part), tuple(now for _, _, now in part if now is not None)
            marker = replace(
                at,
                database=child.database,
                table=child.name,
                type=CASCADE,
                data=after or before,
                old=before if after else None,
                rows=tuple(ordinal(event, index, 0) for index, _, _ in part),
                sql=rule,
            )
            yield from _fitting(marker, limit)


def _fitting(marker: Message, limit: int) -> Iterator[Message]:
    """A marker, halved until every part is below the limit."""
    if len(marker.data) == 1 or len(encode(marker)) <= limit - _ROOM:
        yield marker
        return
    half = len(marker.data) // 2
    for part in (slice(None, half), slice(half, None)):
        old = marker.old[part] if marker.old is not None else None
        yield from _fitting(replace(marker, data=marker.data[part], old=old, rows=marker.rows[part]), limit)


def pairs_of(marker: Message) -> list[Pair]:
    """The values that a marker names."""
    if marker.old is None:
        return [(row, None) for row in marker.data]
    return list(zip(marker.old, marker.data, strict=True))


def values_of(planned: PlannedTable, messages: Iterable[Message]) -> tuple[Values, Values]:
    """What rows had that markers of a table mean; and what rows may have since that the target does not have under
    their key: the values are part of it, or rows belong to the migration by them."""
    conditions = planned.rows.conditions if planned.rows is not None else ()
    telling = {*planned.table.key, *(one.column.name for one in conditions)}
    old, new = Values(), Values()
    for message in messages:
        for was, now in pairs_of(message):
            _add(planned.table, old, was)
            if now is not None and not telling.isdisjoint(now):
                _add(planned.table, new, now)
    return old, new


def _add(table: Table, values: Values, row: Row) -> None:
    """None where the table has such columns no longer, or where one of them is NULL."""
    if None not in row.values() and row.keys() <= table.by_name.keys():
        values.setdefault(tuple(row), []).append(row)


def conditions(table: Table, values: Values, at_once: int) -> Iterator[Condition]:
    """Conditions for the rows that have some values, so many values in each."""
    for columns, rows in values.items():
        for part in slices(rows, at_once):
            yield among(replace(table, key=columns), [tuple(str(row[name]) for name in columns) for row in part])


def select(
    connection: Connection, names: Sequence[str], planned: PlannedTable, database: TargetDatabase, where: Condition
) -> Iterator[tuple[Any, ...]]:
    """Columns of the rows in a target database that a condition names, from all of the table's places there."""
    fields = fields_of(planned.table, names)
    places = [place.table for place in planned.places if place.database == database]
    for part in slices(places, _PLACES):
        ways = [f"SELECT {fields} FROM {quote(place)} WHERE {where[0]}" for place in part]
        yield from connection.query(" UNION ALL ".join(ways), where[1] * len(part))


def fields_of(table: Table, names: Iterable[str]) -> str:
    """What `key_in` reads."""
    return ", ".join(compared(table.by_name[name]) for name in names)


def key_in(table: Table, raw: Sequence[Any]) -> Key:
    """The key of a row that was selected by `fields_of`."""
    return tuple(str(from_server(column)(value)) for column, value in zip(table.key_columns, raw, strict=True))
