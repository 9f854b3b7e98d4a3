"""Decoded rows become messages: the rows of one event that fall into one partition (docs/messages.md)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from migrate.model.change import key_json, key_of, partition_of
from migrate.model.coordinate import ordinal
from migrate.model.errors import Code, StopError
from migrate.model.message import Frame, Message, Op, Row, encode, tail
from migrate.model.rowfilter import RowFilter
from migrate.model.table import Table
from migrate.publish.decode.row_json import ERRORS, JsonRows, UnsuitedError
from migrate.publish.decode.rows import DELETE, UPDATE, RowDecoder, RowEvent
from migrate.state.oversized import Oversized

Image = Sequence[str | None]
_WRITERS = 64  # layouts of one table to keep at a time
ROOM = 1024  # bytes left for the record's own fields below the broker's limit


Encoded = list[tuple[int, bytes]]
"""(partition, message)s"""


@dataclass(slots=True)
class Transaction:
    """Where the rows stand: the part of the coordinate that all of them share. Not changed once made."""

    source: str
    incarnation: int
    file: int
    start: int
    gtid: str
    es: int  # Unix milliseconds
    standby: bool = False  # the side was standby, and the stream that writes there did not make it

    tail: str = field(init=False, compare=False)  # the end of its messages, up to the ordinals

    def __post_init__(self) -> None:
        self.tail = tail(self.gtid, self.source, self.incarnation, self.file, self.start, standby=self.standby)


@dataclass(slots=True)
class _Run:
    partition: int
    op: Op
    data: list[Row]
    old: list[Row]
    rows: list[int]


class Emitter:
    """Makes messages for one table."""

    def __init__(
        self,
        table: Table,
        partitions: int,
        limit_bytes: int,
        kept: RowFilter | None = None,
        *,
        topic: str = "",
        hashed: tuple[str, str] | None = None,
        routing: Sequence[str] | None = None,
        park: Callable[[Oversized], None] | None = None,
        types: bool = False,
    ) -> None:
        """kept: only these rows. topic: where the caller sends the messages. hashed: the names that a key's partition
        is chosen by, if they are not the table's.

        routing: the sharding columns; of a row above the limit, `old` and a delete's `data` keep those and the key
        alone. park: takes note of a row that is above the limit even so, and is left out; without it, StopError.
        types: each message has the columns' types too, for readers of Canal's messages.
        """
        self._needed = None if routing is None else frozenset((*table.key, *routing))
        self._park = park
        self._partitions = partitions
        self._hashed = hashed if hashed is not None else (table.database, table.name)
        self._kept = kept
        self._limit = limit_bytes - ROOM
        self.table = table
        self.key = table.full_name.encode()  # of the Kafka records
        self.topic = topic
        self._writers: dict[RowDecoder, JsonRows] = {}
        self._names = tuple(column.name for column in table.columns)
        self._types = {column.name: column.type for column in table.columns} if types else {}
        names = table.database, table.name, table.key
        self._frames = {op: Frame(*names, self._types, op, layout=table.layout) for op in Op}
        self._only = partition_of(*self._hashed, None, partitions) if table.one_partition else None

    def encoded(self, transaction: Transaction, event: int, rows: RowEvent) -> tuple[int, Encoded]:
        """How many rows the event has, and the (partition, message)s that `messages` makes of it, made faster."""
        if self._kept is None:
            try:
                return self._fast(transaction, event, rows)
            except ERRORS:  # what is really wrong with the event is said by its decoder
                pass
        changes = list(rows)
        return len(changes), list(self.messages(transaction, event, changes))

    def _fast(self, transaction: Transaction, event: int, rows: RowEvent) -> tuple[int, Encoded]:
        decoder, kind = rows.decoder, rows.type
        writer = self._writers.get(decoder) or self._new_writer(decoder)
        body, at = decoder.images(kind, rows.body)
        first = ordinal(event, 0, 0)
        if kind in UPDATE:
            groups, behind = writer.updates(body, at, first)
            op, width = Op.UPDATE, 3
        else:
            groups, behind = writer.images(body, at, first)
            op, width = Op.DELETE if kind in DELETE else Op.INSERT, 2
        message, es, end, limit = self._frames[op].message, transaction.es, transaction.tail, self._limit
        ts = int(time.time() * 1000)
        made = [(partition, message(es, ts, end, group, width)) for partition, group in groups.items()]
        for _, value in made:
            if len(value) > limit:
                made = list(self._fitting(groups, partial(message, es, ts, end), width))
                break
        return (behind - first) >> 1, made

    def _new_writer(self, decoder: RowDecoder) -> JsonRows:
        if len(self._writers) >= _WRITERS:
            self._writers.clear()
        nullable = [column.nullable for column in decoder.table_map.columns]
        writer = self._writers[decoder] = JsonRows(decoder.codecs, nullable, self.table, self._partitions, self._hashed)
        return writer

    def _fitting(
        self, groups: Mapping[int, list[Any]], message: Callable[[list[Any], int], bytes], width: int
    ) -> Iterator[tuple[int, bytes]]:
        """The messages of groups, halved until every part is below the limit."""
        for partition, group in groups.items():
            value = message(group, width)
            if len(value) <= self._limit:
                yield partition, value
                continue
            if len(group) == width:
                raise UnsuitedError
            half = len(group) // width // 2 * width
            for part in (group[:half], group[half:]):
                yield from self._fitting({partition: part}, message, width)

    def _judged(self, kept: RowFilter, before: Image | None, after: Image | None) -> tuple[Image | None, Image | None]:
        """A change as the kept rows see it: in to out is a delete, out to in an insert."""

        def judged(image: Image | None) -> Image | None:
            return image if image is not None and kept.keeps(dict(zip(self._names, image, strict=True))) else None

        return judged(before), judged(after)

    def messages(
        self, transaction: Transaction, event: int, rows: Iterable[tuple[Image | None, Image | None]]
    ) -> Iterator[tuple[int, bytes]]:
        """(partition, message) of one row event's rows, in order within each partition.

        event: index of the row event in its transaction. rows: (before, after); a row that is left out keeps its
        place, so that the others keep their ordinals. An update that changes the key becomes a delete and an insert
        (invariant per-key-order). Raises StopError when a single row is above the limit.
        """
        runs: list[_Run] = []
        latest: dict[int, _Run] = {}
        for index, (before, after) in enumerate(rows):
            if self._kept is not None:
                before, after = self._judged(self._kept, before, after)
            for partition, op, data, old, half in self._changes(before, after):
                run = latest.get(partition)
                if run is None or run.op is not op:
                    run = latest[partition] = _Run(partition, op, [], [], [])
                    runs.append(run)
                run.data.append(data)
                run.rows.append(ordinal(event, index, half))
                if old is not None:
                    run.old.append(old)
        for run in runs:
            yield from self._encode(self._message(transaction, run), run.partition)

    def _changes(self, before: Image | None, after: Image | None) -> Iterator[tuple[int, Op, Row, Row | None, int]]:
        old = dict(zip(self._names, before, strict=True)) if before is not None else None
        new = dict(zip(self._names, after, strict=True)) if after is not None else None
        if old is not None and new is not None and self._key(old) == self._key(new):
            changed = {name: value for name, value in old.items() if new[name] != value}
            yield self._partition(new), Op.UPDATE, new, changed, 0
            return
        if old is not None:
            yield self._partition(old), Op.DELETE, old, None, 0
        if new is not None:
            yield self._partition(new), Op.INSERT, new, None, 0 if old is None else 1

    def _key(self, row: Row) -> tuple[str, ...]:
        return key_of(row, self.table.key, self.table.full_name)

    def _partition(self, row: Row) -> int:
        if self._only is not None:
            return self._only
        return partition_of(*self._hashed, self._key(row), self._partitions)

    def _message(self, transaction: Transaction, run: _Run) -> Message:
        return Message(
            database=self.table.database,
            table=self.table.name,
            type=run.op,
            data=tuple(run.data),
            old=tuple(run.old) if run.op is Op.UPDATE else None,
            source=transaction.source,
            incarnation=transaction.incarnation,
            file=transaction.file,
            transaction=transaction.start,
            rows=tuple(run.rows),
            pk_names=self.table.key,
            mysql_type=self._types,
            layout=self.table.layout,
            es=transaction.es,
            ts=int(time.time() * 1000),
            gtid=transaction.gtid,
            standby=transaction.standby,
        )

    def _slimmed(self, message: Message) -> bytes | None:
        """A single row's message without the values that no consumer of ours needs."""
        needed = self._needed
        if needed is None or message.type == Op.INSERT:
            return None

        def slim(rows: tuple[Row, ...]) -> tuple[Row, ...]:
            return tuple({name: value for name, value in row.items() if name in needed} for row in rows)

        if message.type == Op.DELETE:
            return encode(replace(message, data=slim(message.data)))
        return encode(replace(message, old=slim(message.old or ())))

    def _left_place(self, message: Message) -> bytes | None:
        """Of an update that is left out and may move its row to another place: the delete of the row as it was.

        A later update tells only the place it finds the row at, and the row as it was would stay for ever.
        """
        needed, old = self._needed, message.old
        if needed is None or message.type != Op.UPDATE or not old or needed.isdisjoint(old[0]):
            return None
        value = self._slimmed(replace(message, type=Op.DELETE, data=({**message.data[0], **old[0]},), old=None))
        if value is None or len(value) > self._limit:
            raise self._too_large(message, len(value or b""))
        return value

    def _too_large(self, message: Message, size: int) -> StopError:
        key = key_json(self._key(message.data[0]))
        return StopError(
            f"{message.database}.{message.table} key {key} at {tuple(message.coordinate)}:"
            f" one row makes a message of {size} bytes, above kafka.max_message_bytes",
            hint="raise kafka.max_message_bytes and the topic's max.message.bytes, then start the publisher again;"
            " or let it leave such rows out: publish.oversized: park",
            code=Code.SIZE,
        )

    def _oversized(self, message: Message, size: int) -> Oversized:
        return Oversized(
            message.source,
            message.database,
            message.table,
            message.type,
            key_json(self._key(message.data[0])),
            message.coordinate,
            size,
        )

    def _encode(self, message: Message, partition: int) -> Iterator[tuple[int, bytes]]:
        """The message, halved until every part is below the limit."""
        value = encode(message)
        if len(value) <= self._limit:
            yield partition, value
            return
        if len(message.data) == 1:
            value = self._slimmed(message) or value
            if len(value) <= self._limit:
                yield partition, value
                return
            if self._park is not None:
                self._park(self._oversized(message, len(value)))
                if (left := self._left_place(message)) is not None:
                    yield partition, left
                return
            raise self._too_large(message, len(value))
        half = len(message.data) // 2
        for part in (slice(None, half), slice(half, None)):
            old = message.old[part] if message.old is not None else None
            yield from self._encode(
                replace(message, data=message.data[part], rows=message.rows[part], old=old), partition
            )
