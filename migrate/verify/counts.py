"""How many rows there are, and which keys are the last, on both sides."""

from __future__ import annotations

from collections.abc import Sequence

from migrate.chunks.column_codecs import to_text
from migrate.chunks.keyrange import condition
from migrate.model.change import Key
from migrate.mysql.connection import Connection
from migrate.mysql.keys import order
from migrate.mysql.quoting import quote
from migrate.mysql.quoting import table as full_name
from migrate.mysql.rowfilter import and_rows
from migrate.mysql.values import compared, selected
from migrate.target.pool import TargetPool
from migrate.target.routing import PlannedTable


def source_count(connection: Connection, planned: PlannedTable) -> int:
    """Rows of the source's table that belong to the migration."""
    where, arguments = and_rows("1 = 1", [], planned.rows)
    name = full_name(planned.table.database, planned.table.name)
    row = connection.one(f"SELECT COUNT(*) FROM {name} WHERE {where}", arguments)
    return int(row[0]) if row else 0


def place_counts(pool: TargetPool, planned: PlannedTable) -> list[int]:
    """Rows of each place, one statement a database."""
    counts = [0] * len(planned.places)
    for database in planned.databases:
        places = [index for index, place in enumerate(planned.places) if place.database == database]
        parts = [f"SELECT {index}, COUNT(*) FROM {quote(planned.places[index].table)}" for index in places]
        for index, rows in pool.get(database).query(" UNION ALL ".join(parts)):
            counts[int(index)] = int(rows)
    return counts


def last_key(connection: Connection, planned: PlannedTable) -> Key | None:
    """The last key of the source's rows that belong to the migration, as its server orders them."""
    return _at_source(connection, planned, f"{order(planned.table, descending=True)} LIMIT 1")


def key_at(connection: Connection, planned: PlannedTable, offset: int) -> Key | None:
    """The key that so many of these rows stand before."""
    return _at_source(connection, planned, f"{order(planned.table)} LIMIT 1 OFFSET {offset}")


def _at_source(connection: Connection, planned: PlannedTable, tail: str) -> Key | None:
    table = planned.table
    where, arguments = and_rows("1 = 1", [], planned.rows)
    fields = ", ".join(selected(column) for column in table.key_columns)
    name = full_name(table.database, table.name)
    return _key(planned, connection.one(f"SELECT {fields} FROM {name} WHERE {where} ORDER BY {tail}", arguments))


def last_beyond(pool: TargetPool, planned: PlannedTable, bounds: Sequence[Key]) -> list[Key]:
    """The last key of each place that has one above all the bounds, as its server orders them."""
    table = planned.table
    conditions = [condition(table, bound, None) for bound in bounds] or [condition(table, None, None)]
    where = " AND ".join(sql for sql, _ in conditions)
    arguments = [value for _, values in conditions for value in values]
    fields = ", ".join(compared(column) for column in table.key_columns)
    found = []
    for place in planned.places:
        statement = (
            f"SELECT {fields} FROM {quote(place.table)} WHERE {where} ORDER BY {order(table, descending=True)} LIMIT 1"
        )
        found.append(_key(planned, pool.get(place.database).one(statement, arguments)))
    return [key for key in found if key is not None]


def _key(planned: PlannedTable, row: Sequence[bytes | None] | None) -> Key | None:
    if row is None:
        return None
    readers = [to_text(column) for column in planned.table.key_columns]
    return tuple(str(read([value])[0]) for read, value in zip(readers, row, strict=True))
