"""The publisher: one source's binlog into the topic (invariants per-key-order, position-after-delivery)."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial

import sqlalchemy as sa
import structlog

from migrate.kafka.producer import AcknowledgedLost, DeliveryFailed, OrderedProducer
from migrate.model import process_names
from migrate.model.coordinate import Coordinate, in_log
from migrate.model.errors import Code, MigrateError, ServerError, StopError
from migrate.model.table import Table
from migrate.mysql.catalog import collation_charsets
from migrate.mysql.connection import Connection
from migrate.mysql.errors import explained
from migrate.mysql.foreign_keys import logs_cascades
from migrate.publish import configured_start as begin
from migrate.publish import replaced_log, start_position
from migrate.publish.acknowledged import Acknowledged
from migrate.publish.added_tables import Ahead, Joining, PlaceReached
from migrate.publish.batches import Batches, Boundary
from migrate.publish.cascades import Cascades
from migrate.publish.decode.rows import RowEvent
from migrate.publish.emit import Emitter, Transaction
from migrate.publish.log import logfiles
from migrate.publish.log.ahead import LookAhead
from migrate.publish.log.binlog import BinlogReader, NotByGtid
from migrate.publish.outbox import Outbox
from migrate.publish.position_store import store_of
from migrate.publish.reader import TransactionReader
from migrate.publish.schema.following import History, begin_incarnation
from migrate.publish.schema.schema import Schema
from migrate.publish.side_role import SideRead
from migrate.publish.source_selection import Reach, Reached
from migrate.publish.state_writes import StateWrites
from migrate.publish.unacknowledged import beyond
from migrate.settings import Settings
from migrate.state import (
    acknowledged,
    compared,
    exit_reason,
    leading,
    left_out_messages,
    outstanding,
    oversized,
    schema_history,
)
from migrate.state import failover as failovers
from migrate.state import migration as migrations
from migrate.state import position as positions
from migrate.state.database import in_transaction
from migrate.state.lease import Held, Leases
from migrate.state.outstanding import Listed
from migrate.state.oversized import Oversized
from migrate.state.position import Position
from migrate.target.routing import PlannedTable

log = structlog.get_logger("migrate.publish")
_LAST_FLUSH = 10.0
_HURRY = 0.05  # seconds between two flushes while somebody is in a hurry
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0  # seconds, after a failed delivery


class Publisher:
    """Reads, publishes, and moves the position only over what the broker has confirmed."""

    def __init__(
        self,
        settings: Settings,
        source: str,
        planned: Mapping[tuple[str, str], PlannedTable],
        state: sa.Engine,
        leases: Leases,
        held: Held,
        stop: threading.Event,
    ) -> None:
        self._settings = settings
        self._source = settings.source(source)
        self._planned = planned
        self._tables = {name: one.table for name, one in planned.items()}
        self._state = state
        self._leases = leases
        self._held = held
        self._stop = stop
        with state.connect() as connection:
            self._migration = migrations.get(connection, settings.name)
        self._acknowledged = Acknowledged(settings, source, self._migration, state, stop)
        self._producer = self._new_producer()
        self._saved: Position | None = None
        self._store = store_of(settings, source)
        self._writes = StateWrites(settings.name, source, state, leases, held, stop)
        self._listed = Listed()
        self._joining = Joining(settings.name, source, self._tables, state, self._writes, stop)
        self._position = self._saved = self._writes.began = self._start_position()
        self._acknowledged.refuse_lost(self._position)
        self._batches = Batches(self._position, self._resume.gtids, settings.publish.outstanding_bytes)
        self._floor: tuple[int, int] | None = None  # with a resume by GTID: the file and position it should begin at
        self._history = History(settings, self._source, planned, state, self._writes)
        self._schema: Schema  # where the log is read
        self._emitters: dict[tuple[str, str], Emitter] = {}
        self._emitter: Emitter | None = None  # that was used last
        self._ahead: Ahead  # tables whose place in the log is still ahead
        self._begun = False  # rows of the transaction that is being read were met
        self._answered = self._works = False  # the source has sent something; and a flush came after it
        self._outbox = Outbox(self._batches, self._producer, settings.publish)
        self._entered = ""  # the file that messages may be from, as the state knows

    def _start_position(self) -> Position:
        """The stored position, or the first one, which is stored at once (invariant capture-before-copy)."""
        name, source = self._settings.name, self._source.name
        with self._state.connect() as state:
            in_state, self._writes.count = positions.load(state, name, source), positions.writes(state, name, source)
            self._listed, _ = outstanding.get(state, name, source)  # a killed publisher's, until our first flush
            names = self._migration.topic_names
            without = {
                (names[one.partition.topic_id], one.partition.number, one.offset)
                for one in left_out_messages.every(state, name)
            }
        stored = self._stored(in_state)
        topics = self._migration.topics
        partitions = [(topic.name, number) for topic in topics for number in range(topic.partitions)]
        published = partial(beyond, self._settings, partitions, without)
        failover = self._settings.failover
        reached = Reach(self._source, stored, failover, published, self._stop, self._follows).open()
        self._source, with_source = reached.source, reached.connection
        with closing(with_source), explained(f"source '{self._source.name}'"):
            self._charsets = collation_charsets(with_source)
            self._flavour = with_source.flavour
            self._cascades = None if logs_cascades(with_source) else self._new_cascades()
            written = self._source.address == self._settings.source(source).address  # by the stream the other way
            side = SideRead(with_source, name, source, {database for database, _ in self._tables}, written=written)
            if (position := reached.position) is not None:
                if position != stored:
                    self._save(position, reached=reached, side=side)
                elif in_state is None:  # the first one was killed between its file and the state
                    self._save(position, check=self._begin)
                side.set_right(self._state)
                try:
                    if reached.other is not None:
                        raise reached.other
                    self._resume = start_position.resume(with_source, position)
                    logfiles.check(with_source, self._source, position, by_gtid=self._resume.by_gtid)
                except logfiles.OtherLog as why:
                    position = self._begin_at_end(with_source, position, why)
                self._joining.take_places(with_source, position)
                return position
            first = begin.first(with_source, self._settings, self._source, list(self._tables), self._stop)
            self._resume = start_position.resume(with_source, first)
            for table in self._tables.values():
                begin.check_definition(with_source, table)
            side.set_right(self._state)
        self._save(first, check=self._begin)
        log.info("first start", source=self._source.name, file=first.file, pos=first.pos, gtid_set=first.gtid_set)
        return first

    def _stored(self, in_state: Position | None) -> Position | None:
        """What the store has; or what the state has, where that lacks what was noted up to there. Raises StopError."""
        if in_state is not None and self._store.is_behind(self._writes.count):
            self._writes.forget_lost()
            self._save_in_store(in_state)
        return self._store.load(in_state)

    def _save_in_store(self, position: Position) -> None:
        """Raises ServerError: without it a restart would not know that this run was."""
        try:
            self._store.save(position, self._writes.count or 0)
        except OSError as error:
            raise ServerError(f"where the publisher begins cannot be stored: {error}") from error

    def _follows(self) -> bool:
        """Whether applications write at the other side: nothing of this one is to be carried."""
        with self._state.connect() as connection:
            return not leading.leads(connection, self._settings.name)

    def _begin_at_end(self, with_source: Connection, before: Position, why: logfiles.OtherLog) -> Position:
        """Raises `why` where what is lost with the log had to be carried. ServerError, StopError."""
        if not self._follows():
            raise why
        end = start_position.first_position(with_source, self._settings, self._source, [*self._tables], self._stop)
        after = replaced_log.position_at_end(with_source, [*self._tables.values()], before, end, why)
        name = self._settings.name
        note = partial(replaced_log.note, migration=name, before=before, after=after, why=why)
        self._save(after, check=note, state_first=True)
        self._resume = start_position.resume(with_source, after)
        return after

    def _begin(self, connection: sa.Connection) -> None:
        """An init that adds tables locks the same row; what it adds once we have a position, it notes as added. What
        was written by hand at a standby side before it was read, is in no list: the two sides count as unequal."""
        migrations.lock(connection, self._settings.name)
        compared.forget(connection, self._settings.name)
        known = schema_history.latest(connection, self._settings.name)
        if {key[1:] for key in known if key[0] == self._source.name} != self._tables.keys():
            raise ServerError(f"source '{self._source.name}': its tables changed meanwhile", hint="start again")

    def run(self) -> None:
        """Publish until stopped. Raises StopError, OwnershipLost, ServerError; the position stays where it is safe.

        What Kafka did not take is rolled back, and published again from the last acknowledged position.
        """
        with self._acknowledged.looking():
            self._run()

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            began = time.monotonic()
            try:
                self._publish()
                return
            except (PlaceReached, NotByGtid) as why:
                self._roll_back()
                if isinstance(why, NotByGtid):
                    log.warning("going on by file", source=self._source.name, reason=why.message)
                    self._resume = replace(self._resume, by_gtid=False)
                if self._stop.is_set():
                    return
                continue
            except AcknowledgedLost:
                self._acknowledged.note()
                raise
            except DeliveryFailed as error:
                log.error("delivery failed, rolled back", source=self._source.name, error=error.message)
                self._roll_back()
                self._acknowledged.look()  # the broker may have come back with less; if so, the new producer raises
            pause = min(pause * 2, _LONGEST_PAUSE) if time.monotonic() - began < _LONGEST_PAUSE else _FIRST_PAUSE
            if self._stop.wait(pause):
                return

    def _roll_back(self) -> None:
        """A new producer, and everything again from the position that the old one acknowledged."""
        self._position = self._batches.rollback()
        self._resume = self._resume.at(self._position, self._flavour)
        self._producer.abandon()
        self._producer = self._new_producer()
        self._outbox = Outbox(self._batches, self._producer, self._settings.publish)

    def _new_producer(self) -> OrderedProducer:
        publish = self._settings.publish
        bytes_, ends = publish.outstanding_bytes, self._acknowledged.ends
        return OrderedProducer(self._settings.kafka, bytes_, self._stop, publish.linger_seconds, ends)

    def _publish(self) -> None:
        settings, position = self._settings.publish, self._position
        self._ahead = self._joining.ahead(position, self._resume.gtids, self._flavour)
        binlog = BinlogReader(
            self._source,
            position.replica_id,
            min(settings.heartbeat_seconds, settings.batch_seconds or settings.heartbeat_seconds),
            position.file,
            position.pos,
            self._resume.gtids if self._resume.by_gtid else None,
            server=(position.server_id, position.server_uuid),
        )
        self._schema = self._history.schema(position, self._charsets, self._ahead.names)
        reader = TransactionReader(
            self._source.name,
            position.incarnation,
            position.file,
            self._schema,
            self._charsets,
            self,
            self._history.side(position),
            mariadb=self._flavour == "mariadb",
        )
        if self._flavour == "mariadb":
            beside = start_position.beside(self._source, position.replica_id)
            ahead = LookAhead(self._source, beside, (position.server_id, position.server_uuid), self._stop)
            self._outbox.fate = lambda: ahead.fate(*reader.began)
        self._batches.created = reader.created
        self._floor = in_log(position.file, position.pos) if self._resume.by_gtid else None
        self._begun = False
        self._enter(position.file)
        binlog.open()
        scheme = "GTID" if self._resume.by_gtid else "file"
        log.info("publishing", source=self._source.name, file=position.file, pos=position.pos, by=scheme)
        next_flush = time.monotonic() + settings.flush_seconds
        again = math.inf  # a source that is idle sends heartbeats, which are often enough but for somebody in a hurry

        def pause() -> float:
            nonlocal next_flush, again
            self._outbox.pause()
            self._producer.poll()
            if time.monotonic() >= next_flush:
                hurried = self._flush_position(idle=reader.idle)
                self._note_works()
                again = _HURRY if hurried else math.inf
                next_flush = time.monotonic() + (_HURRY if hurried else settings.flush_seconds)
            return 0.0 if self._stop.is_set() else again

        try:
            for events in binlog.reads(pause):
                reader.follow(events)
                self._answered = True
        except MigrateError:
            self._leases.check(self._held.name)  # the source hangs up, or refuses, when another reads in our place
            raise
        finally:
            binlog.close()
            self._finish()

    def _finish(self) -> None:
        """Give what was sent a chance to be confirmed, and keep the position that follows from it."""
        if self._producer.lost:  # what would be sent now comes in the places of what was lost
            self._producer.abandon()
            return
        try:
            self._producer.flush(_LAST_FLUSH)
            self._flush_position()
        except AcknowledgedLost as error:
            self._acknowledged.note()
            log.error("the broker lost acknowledged messages", error=error.message)
        except MigrateError as error:  # what brought us here matters more
            log.warning("not everything was delivered; it is sent again after the start", error=str(error))

    # -- the sink of TransactionReader

    def begin(self, *, whole: bool) -> None:
        self._begun = True
        self._outbox.begin(whole=whole)

    def savepoint(self, name: str) -> None:
        self._outbox.mark(name)

    def rolled_back(self, name: str) -> bool:
        return self._outbox.undo(name)

    def rows(self, table: Table, transaction: Transaction, event: int, rows: RowEvent) -> None:
        emitter = self._emitter
        if emitter is None or emitter.table is not table:
            emitter = self._emitter = self._emitter_of(table)
        count, messages = emitter.encoded(transaction, event, rows)
        self._outbox.add(emitter.topic, emitter.key, messages, count)
        if self._cascades is not None:
            for topic, key, marked in self._cascades.behind(self._schema.known, table, transaction, event, rows):
                self._outbox.add(topic, key, marked, 0)

    def role(self, role: str, since: Coordinate, gtid: str, at: int) -> None:
        self._history.note_role(role, since, gtid, at)
        log.info("role of the side", source=self._source.name, role=role, at=tuple(since))

    def _emitter_of(self, table: Table) -> Emitter:
        emitter = self._emitters.get((table.database, table.name))
        if emitter is None or emitter.table is not table:  # new to us, or its definition changed
            emitter = self._emitters[(table.database, table.name)] = self._new_emitter(table)
        return emitter

    def _new_emitter(self, table: Table) -> Emitter:
        planned = self._planned[(table.database, table.name)]
        topic = self._migration.topic(planned.topic or self._settings.topic)
        return Emitter(
            table,
            topic.partitions,
            self._settings.kafka.max_message_bytes,
            planned.rows,
            topic=topic.name,
            hashed=planned.hashed,
            routing=planned.rule.columns,
            park=self._park if self._settings.publish.oversized == "park" else None,
            types=self._settings.publish.types,
        )

    def _new_cascades(self) -> Cascades:
        settings = self._settings
        return Cascades(self._planned, self._migration, settings.topic, settings.kafka.max_message_bytes)

    def _park(self, row: Oversized) -> None:
        """Name a row that is left out; before the position can move past it."""
        at, table = tuple(row.coordinate), f"{row.database}.{row.table}"
        log.error("row left out, too large for Kafka", table=table, at=at, bytes=row.size)
        self._writes.run(lambda state: oversized.note(state, self._settings.name, row))

    def boundary(self, file: str, pos: int, event_time: int, gtid: str | None) -> None:
        """A transaction ended here; the position moves here once it is confirmed."""
        if file != self._entered:
            self._enter(file)
        if self._floor is not None:
            if in_log(file, pos) > self._floor:
                self._floor = None
            elif gtid is None:
                return  # what heads the file that the server began with
            else:
                file, pos = self._below_floor(file, pos, gtid)
        self._begun = False
        self._outbox.end(Boundary(file, pos, event_time, gtid))
        if self._ahead.names and self._ahead.reached(file, pos, gtid):
            self._outbox.flush()
            raise PlaceReached

    def _enter(self, file: str) -> None:
        """Note, before the first message of a file, that there may be some: consumers believe none from beyond it."""

        self._writes.run(lambda state: positions.enter(state, self._settings.name, self._source.name, file))
        self._entered = file

    def _below_floor(self, file: str, pos: int, gtid: str) -> tuple[str, int]:
        """By GTID the server sent a transaction from before our position: it was still committing when we took that.

        Our tables were locked then. Rows of ours would have coordinates below what is sent already, and would be taken
        for repeats.
        """
        if self._begun:
            raise StopError(
                f"source '{self._source.name}' sent {gtid}, which ends at {file}:{pos}, before the stored position"
                f" {self._position.file}:{self._position.pos}, and is not in its GTID set",
                hint="the log was rewritten: publish again from before it with `migrate publish --from`",
                code=Code.POSITION,
            )
        return self._position.file, self._position.pos

    # -- the position

    def _flush_position(self, *, idle: bool = False) -> bool:
        """Store the position, what is on its way, that the source is idle; returns whether somebody is in a hurry."""
        self._leases.check(self._held.name)
        position, listed = self._batches.acknowledged, Listed.of(self._batches.outstanding)
        if position != self._saved or listed != self._listed:
            self._save(position, listed)
        if idle and not listed.batches:
            name, source = self._settings.name, self._source.name
            in_transaction(self._state, lambda state: outstanding.note_idle(state, name, source), self._stop)
        return self._writes.look(lambda state: migrations.hurried(state, self._settings.name))

    def _note_works(self) -> None:
        """How the last publisher ended is over, once a position is flushed of what the source sent."""
        if self._answered and not self._works:
            name, process = self._settings.name, process_names.publisher(self._source.name)
            in_transaction(self._state, lambda state: exit_reason.clear(state, name, process), self._stop)
            self._works = True

    def _save(
        self,
        position: Position,
        listed: Listed | None = None,
        reached: Reached | None = None,
        side: SideRead | None = None,
        check: Callable[[sa.Connection], None] = lambda _connection: None,
        *,
        state_first: bool = False,
    ) -> None:
        """state_first: it counts once the state has it, and another store gets it at the next flush."""
        note = reached.note if reached is not None else None

        def save(connection: sa.Connection) -> None:
            check(connection)
            if reached is not None and note is not None:
                failovers.note(connection, self._settings.name, note)
                # A refresh or a copy may have read what the new server never had, and no message names those rows. It
                # may also have had rows of its own, at a side that is written to.
                compared.forget(connection, self._settings.name)
                if back := reached.by_time is not None:
                    since, apart = reached.by_time.since, self._settings.failover.back_seconds
                    leading.refuse_replay(connection, self._settings.name, note.source, since, apart)
                role = side.lacks(connection) if side is not None else None
                begin_incarnation(connection, self._settings.name, position, reached.by_time, back=back, role=role)
            if position != self._saved:
                positions.save(connection, self._settings.name, position)
            if listed is not None and listed != self._listed:
                outstanding.put(connection, self._settings.name, self._source.name, listed)
            acknowledged.put(connection, self._source.name, ends)

        if position != self._saved and note is None and not state_first:  # so does a failover, with its note
            try:
                self._save_in_store(position)
            except ServerError as error:
                if self._saved is None:
                    raise
                log.warning("position not saved, tried again at the next flush", error=str(error.__cause__))
                return
        ends = self._acknowledged.changed()
        self._writes.run(save)
        if position != self._saved:
            log.info("position saved", source=position.source, file=position.file, pos=position.pos)
        self._saved, self._listed = position, listed or self._listed
