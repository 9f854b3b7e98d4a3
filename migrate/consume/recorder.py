"""Messages that were polled become records in the state, and only then work (invariant record-before-queue)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa
import structlog

from migrate.consume.ownership import LastConsumed, LeasedPartition, gaps
from migrate.consume.partitions import Partitions
from migrate.kafka.reader import RawMessage
from migrate.metrics import consumer as measured
from migrate.model.errors import Code, StopError
from migrate.model.message import Message, Received, without_rows
from migrate.model.message_reader import decode
from migrate.model.partition import leave_out_hint
from migrate.state import reached, record
from migrate.state.lease import Leases
from migrate.state.left_out_messages import LeaveOutReasons
from migrate.state.record import Partition, Record

log = structlog.get_logger("migrate.consume")


class Recorder:
    def __init__(
        self,
        leases: Leases,
        partitions: Partitions,
        left_out: LeaveOutReasons,
        run: Callable[[Callable[[sa.Connection], Any]], Any],
    ) -> None:
        """partitions: those that are ours; told of messages that cannot be read. left_out: messages that a person left
        out. run: runs an action in a transaction of the state database."""
        self._leases = leases
        self._partitions = partitions
        self._left_out = left_out
        self._run = run

    def record(self, raws: Sequence[RawMessage]) -> list[Received]:
        """Write the records of one poll, then say what is to be queued (invariant record-before-queue)."""
        decoded = self._decode(raws)
        if not decoded:
            return []

        def write(connection: sa.Connection) -> tuple[set[str], dict[Partition, set[int]]]:
            lost = self._leases.lost(connection, [leased.held for leased, _ in decoded])
            done: dict[Partition, set[int]] = {}
            records: dict[Partition, list[Record]] = {}
            for leased, items in decoded:
                if leased.partition.lease in lost:
                    continue
                if items[0][0].offset <= leased.recorded:
                    offsets = [raw.offset for raw, _ in items]
                    done[leased.partition] = record.done_offsets(connection, leased.partition, offsets)
                records[leased.partition] = [
                    Record(raw.offset, message.source, message.coordinate, len(message.data)) for raw, message in items
                ]
            record.insert_new(connection, records)
            for leased, items in decoded:
                for gap in gaps(leased, items) if leased.partition in records else ():
                    log.error("messages are missing in Kafka", lost=str(gap), hint="is cleanup.policy compact?")
                    reached.note_lost(connection, leased.partition.migration, gap)
            return lost, done

        lost, known = self._run(write)
        received = []
        for leased, items in decoded:
            if leased.partition.lease in lost:
                self._partitions.lost(leased.partition)
                continue
            done = known.get(leased.partition, set())
            received += [
                Received(leased.partition, raw.offset, len(raw.value), message, raw.offset not in done, raw.topic)
                for raw, message in items
            ]
        measured.received(item.size for item in received)
        return received

    def _decode(self, raws: Sequence[RawMessage]) -> list[tuple[LeasedPartition, list[tuple[RawMessage, Message]]]]:
        """By partition; of one with a message that is none, what stands before that, unless it is left out."""
        by_partition: dict[tuple[str, int], list[RawMessage]] = {}
        for raw in raws:
            by_partition.setdefault((raw.topic, raw.partition), []).append(raw)
        decoded = []
        for where, part in by_partition.items():
            leased = self._partitions.read_at(*where)
            if leased is None:
                continue  # given up meanwhile
            if (last := leased.evidence) is not None:
                leased.evidence = None
                if part[0].offset <= last.offset and self._is_other(last, part[0]):
                    self._partitions.cut(leased)
                    continue
                part = [raw for raw in part if raw.offset > last.offset]
            items = []
            for raw in part:
                try:
                    items.append((raw, decode(raw.value, raw.where, raw.offset)))
                except StopError as error:
                    if why := self._left_out.reason(leased.partition, raw.offset):
                        measured.set_aside.labels("left out").inc()
                        log.warning("a message is left out", message=raw.where, refusal=error.message, reason=why)
                        items.append((raw, without_rows(raw.offset)))
                        continue
                    hint = error.hint_and(leave_out_hint(raw.topic, raw.partition, raw.offset))
                    stopped = StopError(error.message, hint=hint, code=Code.MESSAGE, refused_offset=raw.offset)
                    self._partitions.unreadable(leased, raw.offset - raw.skipped, stopped)  # a gap is seen again
                    break
            if items:
                decoded.append((leased, items))
        return decoded

    @staticmethod
    def _is_other(last: LastConsumed, raw: RawMessage) -> bool:
        """Whether a message is not the one that was consumed from its offset; one that is none may be left out."""
        try:
            return last.is_other(decode(raw.value, raw.where, raw.offset))
        except StopError:
            return False
