"""Rows that no message takes: what tables may have, and what the ends of their keys do have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from migrate.model.table import Kind, Table
from migrate.model.words import some
from migrate.mysql.connection import Connection
from migrate.mysql.quoting import quote
from migrate.preflight.limits import limited
from migrate.preflight.result import Result, Verdict
from migrate.preflight.schema.shards import of_an_end
from migrate.preflight.server_checks import each
from migrate.settings import Settings
from migrate.target.routing import PlannedTable

SAMPLE = 500
"""Rows from each end of the key: to know the length of a large value, the server may have to read it."""

_MEASURED = frozenset({Kind.TEXT, Kind.RAWTEXT, Kind.BINARY, Kind.JSON})
_UNLIMITED = frozenset({Kind.JSON, Kind.GEOMETRY})
"""Types whose length the catalog does not tell; max_allowed_packet, of 1 GiB at most, is their limit."""
_NAMED = 5


def check(connection: Connection, tables: Sequence[PlannedTable], settings: Settings) -> Iterator[Result]:
    """A note that names the tables whose rows may be above kafka.max_message_bytes, and a problem for each that has
    some; a note where publish.oversized is park. A row's message is never shorter than its texts and bytes."""
    limit = settings.kafka.max_message_bytes
    large: list[str] = []

    def look(planned: PlannedTable) -> Iterator[Result]:
        if longest(connection, planned.table) > limit:
            large.append(planned.table.full_name)
            yield from _sampled(connection, planned, settings)

    yield from each(connection, "row size", tables, look, lambda planned: planned.table.full_name)
    if large:
        told = f"{connection.name}: a row of {some(large, _NAMED)} may be longer than a message, {limit:,} bytes"
        told += f" (kafka.max_message_bytes); {_then(settings)}"
        yield Result("row size", connection.name, Verdict.NOTE, told, _mend(settings))


def longest(connection: Connection, table: Table) -> int:
    """Bytes of a row's texts and bytes, at most."""
    rows = connection.query(
        "SELECT COLUMN_NAME, CHARACTER_OCTET_LENGTH FROM information_schema.COLUMNS"
        " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
        (table.database, table.name),
    )
    told = {str(name): int(octets or 0) for name, octets in rows}
    return sum(2**30 if one.kind in _UNLIMITED else told.get(one.name, 0) for one in table.stored)


def octets(table: Table) -> str:
    """SQL for the bytes of a row's texts and bytes; "" where it has no such columns."""
    measured = [quote(one.name) for one in table.stored if one.kind in _MEASURED]
    return " + ".join(f"COALESCE(OCTET_LENGTH({name}), 0)" for name in measured)


def _sampled(connection: Connection, planned: PlannedTable, settings: Settings) -> Iterator[Result]:
    table, limit = planned.table, settings.kafka.max_message_bytes
    size = octets(table)
    if not size:
        return
    most = 0
    for descending in (False, True):
        sql, arguments = of_an_end(
            planned, "COALESCE(MAX(_octets_), 0)", [f"{size} AS _octets_"], SAMPLE, descending=descending
        )
        ((found,),) = connection.query(limited(connection, sql), arguments)
        most = max(most, int(found))
    if most > limit:
        told = f"{table.full_name}: has a row of {most:,} bytes, above kafka.max_message_bytes ({limit:,})"
        stops = settings.publish.oversized == "stop"
        verdict = Verdict.PROBLEM if stops else Verdict.NOTE
        yield Result("row size", table.full_name, verdict, f"{told}; {_then(settings)}", _mend(settings))


def _then(settings: Settings) -> str:
    if settings.publish.oversized == "stop":
        return "the publisher stops at the first change of such a row"
    return "a change of such a row is left out of the stream, and `migrate status` names it"


def _mend(settings: Settings) -> str:
    mend = "raise kafka.max_message_bytes, the topics' max.message.bytes and the brokers' message.max.bytes"
    if settings.publish.oversized == "stop":
        mend += "; or let the stream leave such rows out: publish.oversized: park (docs/refused.md)"
    return mend
