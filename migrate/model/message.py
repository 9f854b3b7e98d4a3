"""The Kafka message: Canal's flat message plus `layout`, `gtid`, `pos` and `delay` (docs/messages.md)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from hashlib import blake2b
from json.encoder import encode_basestring as _wide
from json.encoder import encode_basestring_ascii as _quoted
from typing import Any

from migrate.model.coordinate import Coordinate
from migrate.model.jdbc_types import jdbc_type
from migrate.model.partition import Partition

Row = dict[str, str | None]
CANAL = "canal"
"""The source's name for messages without `pos`: they are ordered by their offset."""
DIGEST = 1 << 63
"""Set in what stands for the ordinal of a Canal message (`Message.identity`)."""
REFRESH = "REFRESH"
"""The type of a message that asks for rows to be read at the source again (invariant refresh-settles-doubt): `data`
holds their keys."""
CASCADE = "CASCADE"
"""The type of a marker (`migrate.target.cascades`): `old`, or without it `data`, has values that a parent's change took
from rows of the table by a foreign key; `sql` says by which rule."""
LEFT_OUT = "LEFT OUT"
"""The type of what stands for a message that a person left out."""
REQUEUE = "(requeue)"
"""In a source's place: what brings delayed deletes back and sends markers of foreign keys."""


class Op(StrEnum):
    INSERT = "INSERT"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


@dataclass(frozen=True, slots=True)
class Delay:
    """A delete that found nothing while its chunk was open, and comes again (invariant tombstone-under-open-chunk)."""

    tier: int
    due_ms: int  # Unix time at which it is to be looked at again, in milliseconds
    database: str  # physical place
    table: str


@dataclass(frozen=True, slots=True)
class Message:
    """Rows of one row event that fall into one partition, or a statement.

    data: after images (before images of a delete); old: for an update the before values of the changed
    columns; rows: the ordinals parallel to data.
    """

    database: str
    table: str
    type: str
    data: tuple[Row, ...]
    source: str
    incarnation: int
    file: int
    transaction: int
    rows: tuple[int, ...]
    old: tuple[Row, ...] | None = None
    pk_names: tuple[str, ...] = ()
    mysql_type: dict[str, str] = field(default_factory=dict)
    layout: str = ""  # `Table.layout` of the columns; "" where nothing names them
    id: int = 0
    es: int = 0  # commit time at the source, Unix milliseconds
    ts: int = 0  # time of publishing, Unix milliseconds
    sql: str = ""
    gtid: str = ""
    is_ddl: bool = False
    delay: Delay | None = None
    standby: bool = False  # written at a side where only a stream was to write then: carried by nobody

    @property
    def refresh(self) -> bool:
        """Whether its rows are keys, to be read at the source again (invariant refresh-settles-doubt)."""
        return self.type == REFRESH

    @property
    def cascade(self) -> bool:
        """Whether it is a marker: rows with the values that it names are to be read at the source again."""
        return self.type == CASCADE

    @property
    def from_log(self) -> bool:
        """Whether it has changes that a publisher read from a log; else it is a delayed delete that came back, or asks
        for rows to be read again."""
        return self.delay is None and not self.refresh and not self.cascade

    @property
    def coordinate(self) -> Coordinate:
        """Of the last row."""
        return Coordinate(self.incarnation, self.file, self.transaction, self.rows[-1] if self.rows else 0)

    @property
    def identity(self) -> tuple[str, Coordinate]:
        """What tells it from another message at its offset: source and coordinate; of Canal's, which have no place but
        their offset, a digest of what they hold stands in the place of the ordinal, above all ordinals."""
        place = self.coordinate
        if self.source != CANAL:
            return self.source, place
        digest = int.from_bytes(blake2b(encode(self), digest_size=8).digest(), "big")
        return self.source, place._replace(ordinal=digest | DIGEST)

    def coordinates(self) -> Iterable[Coordinate]:
        return (Coordinate(self.incarnation, self.file, self.transaction, row) for row in self.rows)


@dataclass(frozen=True, slots=True)
class Received:
    """A message as it came out of its partition, with its record written."""

    partition: Partition
    offset: int
    size: int  # bytes of the message's value
    message: Message
    apply: bool = True  # False when it was consumed before and is read again
    topic: str = ""  # its name, for people


def without_rows(offset: int) -> Message:
    """What stands for a message that is left out."""
    return Message("", "", LEFT_OUT, (), CANAL, 0, 0, offset, ())


def encode(message: Message) -> bytes:
    """The message as compact UTF-8 JSON: byte for byte what a `Frame` makes of the same rows."""
    frame = Frame(
        message.database,
        message.table,
        message.pk_names,
        message.mysql_type,
        message.type,
        id=message.id,
        is_ddl=message.is_ddl,
        sql=message.sql,
        layout=message.layout,
    )
    place = message.source, message.incarnation, message.file, message.transaction
    end = tail(message.gtid, *place, standby=message.standby)
    data = ",".join(map(_row_text, message.data)) if message.data else None
    old = None if message.old is None else ",".join(map(_row_text, message.old))
    return frame.around(
        message.es, message.ts, end, data, old, _numbers(list(message.rows)), _delay_text(message.delay)
    )


class Frame:
    """The texts around the rows of one table's messages of one type, made once for many messages.

    Names are written in ASCII, so that one name does not make Python keep the whole text in wide characters.
    """

    def __init__(
        self,
        database: str,
        table: str,
        pk_names: tuple[str, ...],
        types: dict[str, str],
        kind: str,
        *,
        id: int = 0,  # noqa: A002  Canal's name
        is_ddl: bool = False,
        sql: str = "",
        layout: str = "",
    ) -> None:
        self._head = (
            f'{{"id":{id},"database":{_ascii(database)},"table":{_ascii(table)},"pkNames":{_ascii(pk_names)},'
            f'"isDdl":{_ascii(is_ddl)},"type":{_ascii(kind)},"es":'
        )
        named = f'"layout":{_ascii(layout)},' if layout else ""
        numbers = {column: jdbc_type(type_) for column, type_ in types.items()} or None
        of_types = f'"sqlType":{_ascii(numbers)},"mysqlType":{_ascii(types or None)}'
        self._middle = f',"sql":{_wide(sql)},{of_types},{named}"data":'

    def message(self, es: int, ts: int, tail: str, group: list[Any], width: int) -> bytes:
        """The message with these rows.

        tail: what `tail()` made; group: flat, for each row its JSON object, with a width of 3 the object of its old
        values, and its ordinal.
        """
        if width == len(group):  # one row, as most messages of small transactions
            old = group[1] if width == 3 else None
            return self.around(es, ts, tail, group[0], old, f"[{group[-1]}]")
        old = ",".join(group[1::3]) if width == 3 else None
        return self.around(es, ts, tail, ",".join(group[::width]), old, _numbers(group[width - 1 :: width]))

    def around(
        self, es: int, ts: int, tail: str, data: str | None, old: str | None, rows: str, delay: str = ""
    ) -> bytes:
        """The message with these texts: the objects of `data` and `old` parted by commas, or None for null."""
        data = "null" if data is None else f"[{data}]"
        old = "null" if old is None else f"[{old}]"
        return f'{self._head}{es},"ts":{ts}{self._middle}{data},"old":{old}{tail}{rows}}}{delay}}}'.encode()


def tail(gtid: str, source: str, incarnation: int, file: int, transaction: int, *, standby: bool = False) -> str:
    """The end of a message of a transaction, up to `rows`."""
    role = '"standby":true,' if standby else ""
    return f',"gtid":{_quoted(gtid)},{_in_file(source, incarnation, file)}{transaction},{role}"rows":'


@lru_cache(maxsize=64)
def _in_file(source: str, incarnation: int, file: int) -> str:
    return f'"pos":{{"source":{_quoted(source)},"inc":{incarnation},"file":{file},"tx":'


def _numbers(rows: list[int]) -> str:
    return str(rows).replace(" ", "")


def _row_text(row: Row) -> str:
    """A row's JSON object: its names in ASCII, its values as they are."""
    return "{" + ",".join([f"{_quoted(name)}:{'null' if v is None else _wide(v)}" for name, v in row.items()]) + "}"


def _delay_text(delay: Delay | None) -> str:
    if delay is None:
        return ""
    return ',"delay":' + _ascii(
        {"tier": delay.tier, "due": delay.due_ms, "database": delay.database, "table": delay.table}
    )


def _ascii(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
