"""Decoded rows become messages: the rows of one event that fall into one partition (DESIGN §4)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from migrate.model.change import key_json, key_of, partition_of
from migrate.model.coordinate import ordinal
from migrate.model.errors import StopError
from migrate.model.message import Message, Op, Row, encode
from migrate.model.rowfilter import RowFilter
from migrate.model.table import Table
from migrate.publish.decode import RowEvent

Image = Sequence[str | None]
_ROOM = 1024  # bytes left for the record's own fields below the broker's limit


@dataclass(frozen=True, slots=True)
class Transaction:
    """Where the rows stand: the part of the coordinate that all of them share."""

    source: str
    incarnation: int
    file: int
    start: int
    gtid: str
    es: int  # Unix milliseconds


@dataclass(slots=True)
class _Run:
    partition: int
    op: Op
    data: list[Row]
    old: list[Row]
    rows: list[int]


class Emitter:
    """Makes messages for one table."""

    def __init__(self, table: Table, partitions: int, limit_bytes: int, kept: RowFilter | None = None) -> None:
        self._partitions = partitions
        self._kept = kept
        self._limit = limit_bytes - _ROOM
        self.table = table
        self.key = table.full_name.encode()  # of the Kafka records
        self._names = tuple(column.name for column in table.columns)
        self._types = {column.name: column.type for column in table.columns}
        self._only = partition_of(table.database, table.name, None, partitions) if table.one_partition else None

    def encoded(self, transaction: Transaction, event: int, rows: RowEvent) -> tuple[int, list[tuple[int, bytes]]]:
        """How many rows the event has, and its (partition, message)s as `messages` makes them."""
        changes = list(rows) if self._kept is None else [self._judged(self._kept, *change) for change in rows]
        return len(changes), list(self.messages(transaction, event, changes))

    def _judged(self, kept: RowFilter, before: Image | None, after: Image | None) -> tuple[Image | None, Image | None]:
        """A change as the kept rows see it: in to out is a delete, out to in an insert (DESIGN §4)."""

        def judged(image: Image | None) -> Image | None:
            return image if image is not None and kept.keeps(dict(zip(self._names, image, strict=True))) else None

        return judged(before), judged(after)

    def messages(
        self, transaction: Transaction, event: int, rows: Iterable[tuple[Image | None, Image | None]]
    ) -> Iterator[tuple[int, bytes]]:
        """(partition, message) of one row event's rows, in order within each partition.

        event: index of the row event in its transaction. rows: (before, after); a row that is to be left out keeps
        its place as (None, None), so that the others keep their ordinals. An update that changes the key becomes a
        delete and an insert (rule 2). Raises StopError when a single row is above the limit.
        """
        runs: list[_Run] = []
        latest: dict[int, _Run] = {}
        for index, (before, after) in enumerate(rows):
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
        return partition_of(self.table.database, self.table.name, self._key(row), self._partitions)

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
            es=transaction.es,
            ts=int(time.time() * 1000),
            gtid=transaction.gtid,
        )

    def _encode(self, message: Message, partition: int) -> Iterator[tuple[int, bytes]]:
        """The message, halved until every part is below the limit."""
        value = encode(message)
        if len(value) <= self._limit:
            yield partition, value
            return
        if len(message.data) == 1:
            row = message.data[0]
            raise StopError(
                f"{message.database}.{message.table} key {key_json(self._key(row))} at {tuple(message.coordinate)}:"
                f" one row makes a message of {len(value)} bytes, above kafka.max_message_bytes",
                hint="raise kafka.max_message_bytes and the topic's max.message.bytes, then start the publisher again",
            )
        half = len(message.data) // 2
        for part in (slice(None, half), slice(half, None)):
            old = message.old[part] if message.old is not None else None
            yield from self._encode(
                replace(message, data=message.data[part], rows=message.rows[part], old=old), partition
            )
