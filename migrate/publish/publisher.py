"""The publisher: one source's binlog into the topic (invariants per-key-order, position-after-delivery)."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping
from dataclasses import replace

import sqlalchemy as sa
import structlog

from migrate.kafka.producer import AcknowledgedLost, DeliveryFailed, OrderedProducer
from migrate.metrics.publisher import PublisherMetrics
from migrate.model.errors import MigrateError, ServerError
from migrate.model.table import Table
from migrate.publish import start_position
from migrate.publish.acknowledged import Acknowledged
from migrate.publish.added_tables import AddedTables
from migrate.publish.batches import Batches
from migrate.publish.cascades import Cascades
from migrate.publish.ddl_messages import DdlMessages
from migrate.publish.emit import Emitter
from migrate.publish.log import logfiles
from migrate.publish.log.ahead import LookAhead
from migrate.publish.log.binlog import BinlogReader, NotByGtid
from migrate.publish.opening import SourceOpening
from migrate.publish.outbox import Outbox
from migrate.publish.position_keeper import PositionKeeper
from migrate.publish.reader import TransactionReader
from migrate.publish.schema.following import History
from migrate.publish.schema.policy import ToBeApplied
from migrate.publish.transaction_sink import TransactionSink
from migrate.publish.unacknowledged import Unacknowledged
from migrate.settings import Settings
from migrate.state import migration as migrations
from migrate.state import oversized
from migrate.state.lease import HeldLease, Leases
from migrate.state.oversized import Oversized
from migrate.target.routing import PlannedTable

log = structlog.get_logger("migrate.publish")
_LAST_FLUSH = 10.0
_POLL = 0.1
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
        held: HeldLease,
        stop: threading.Event,
    ) -> None:
        self._settings = settings
        self._planned = planned
        self._leases = leases
        self._held = held
        self._stop = stop
        with state.connect() as connection:
            self._migration = migrations.get(connection, settings.name)
        self._acknowledged = Acknowledged(settings, source, self._migration, state, stop)
        self._producer = self._new_producer()
        self._keeper = PositionKeeper(settings, source, state, leases, held, stop, self._acknowledged)
        tables = {name: one.table for name, one in planned.items()}
        self._added = AddedTables(settings.name, source, tables, state, self._keeper.writes, stop)
        self._unacknowledged = Unacknowledged(settings, source, self._migration, state, self._keeper.writes, stop)
        named = settings.source(source)
        self._opened = SourceOpening(
            settings, named, planned, state, self._keeper, self._unacknowledged, self._added, stop
        ).open()
        self._position, self._resume = self._opened.position, self._opened.resume
        self._keeper.begin(self._position)
        self._acknowledged.refuse_lost(self._position)
        self._batches = Batches(self._position, self._resume.gtids, settings.publish.outstanding_bytes)
        self._published = PublisherMetrics(source, self._position.file, self._position.pos)
        self._history = History(settings, self._opened.source, planned, state, self._keeper.writes)
        self._outbox = Outbox(self._batches, self._producer, settings.publish)
        self._went_back = False  # and what was sent before that is not noted yet
        self._returns = False  # to the source, after a time without it
        self._abandoned = False  # a producer, of which messages may still come

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
                if self._publish():
                    return
                self._roll_back()  # tables that were added join here
                continue
            except NotByGtid as why:
                self._roll_back()
                log.warning(
                    "the place in the log is followed by file, not by GTID",
                    source=self._opened.source.name,
                    reason=why.message,
                )
                self._resume = replace(self._resume, by_gtid=False)
                if self._stop.is_set():
                    return
                continue
            except AcknowledgedLost:
                self._acknowledged.note()
                raise
            except DeliveryFailed as error:
                log.error("delivery failed, rolled back", source=self._opened.source.name, error=error.message)
                self._roll_back()
                self._acknowledged.look()  # the broker may have come back with less; if so, the new producer raises
            pause = min(pause * 2, _LONGEST_PAUSE) if time.monotonic() - began < _LONGEST_PAUSE else _FIRST_PAUSE
            if self._stop.wait(pause):
                return

    def _roll_back(self) -> None:
        """A new producer, and everything again from the position that the old one acknowledged."""
        self._published.rolled_back()
        self._position = self._batches.rollback()
        self._went_back = True
        self._resume = self._resume.at(self._position, self._opened.flavour)
        self._producer.abandon()
        self._abandoned = True
        self._producer = self._new_producer()
        self._outbox = Outbox(self._batches, self._producer, self._settings.publish)

    def _note_unacknowledged(self) -> None:
        """What was sent before a roll-back, beyond the position that it went back to. Raises DeliveryFailed while the
        broker is away."""
        if not self._went_back:
            return
        self._keeper.flush(self._batches)  # or a kill would go on from an earlier position, and not look for these
        if not self._keeper.has_saved(self._position):
            raise DeliveryFailed("the position that the publisher went back to cannot be stored")
        try:
            found = self._unacknowledged.beyond(self._position)
        except ServerError as error:
            raise DeliveryFailed(error.message, hint=error.given) from error
        self._unacknowledged.note(self._position, found)
        self._went_back = False

    def _new_producer(self) -> OrderedProducer:
        publish = self._settings.publish
        bytes_, ends = publish.outstanding_bytes, self._acknowledged.ends
        return OrderedProducer(self._settings.kafka, bytes_, self._stop, publish.linger_seconds, ends)

    def _publish(self) -> bool:
        """From the position on, until stopped. False where added tables join, which are read by another schema."""
        settings, position = self._settings.publish, self._position
        self._note_unacknowledged()
        if self._returns:
            logfiles.recheck(self._opened.source, position, by_gtid=self._resume.by_gtid)
        self._returns = True
        binlog = self._binlog()
        reader = self._reader()
        self._batches.created = reader.created
        self._keeper.enter(position.file)
        binlog.open()
        scheme = "GTID" if self._resume.by_gtid else "file"
        log.info("publishing", source=self._opened.source.name, file=position.file, pos=position.pos, by=scheme)
        next_flush = time.monotonic() + settings.flush_seconds
        again = math.inf  # a source that is idle sends heartbeats, which are often enough but for somebody in a hurry

        def pause() -> float:
            nonlocal next_flush, again
            self._outbox.pause()
            self._producer.poll()
            if time.monotonic() >= next_flush:
                hurried = self._keeper.flush(self._batches, idle=reader.idle)
                self._count()
                self._keeper.note_works()
                again = _HURRY if hurried else math.inf
                next_flush = time.monotonic() + (_HURRY if hurried else settings.flush_seconds)
            return 0.0 if self._stop.is_set() else again

        try:
            for events in binlog.reads(pause):
                if not reader.follow(events):
                    return self._stop.is_set()
                self._keeper.heard()
        except ToBeApplied:
            if not self._delivers():
                return True
            raise
        except MigrateError:
            self._leases.check(self._held.name)  # the source hangs up, or refuses, when another reads in our place
            raise
        finally:
            binlog.close()
            self._finish()
        return True

    def _delivers(self) -> bool:
        """Wait until the broker has all that stands before a statement; False when told to stop first. What came later
        would be written behind what the statement did at the targets. Raises DeliveryFailed, OwnershipLost."""
        self._outbox.flush()
        while not self._outbox.is_settled:
            if self._stop.is_set():
                return False
            self._leases.check(self._held.name)
            self._producer.poll(_POLL)
        return True

    def _binlog(self) -> BinlogReader:
        settings, position = self._settings.publish, self._position
        return BinlogReader(
            self._opened.source,
            position.replica_id,
            min(settings.heartbeat_seconds, settings.batch_seconds or settings.heartbeat_seconds),
            position.file,
            position.pos,
            self._resume.gtids if self._resume.by_gtid else None,
            server=(position.server_id, position.server_uuid),
            since=self._opened.started,
        )

    def _reader(self) -> TransactionReader:
        """From the position on."""
        opened, position = self._opened, self._position
        ahead = self._added.ahead(position, self._resume.gtids, opened.flavour)
        schema = self._history.schema(position, opened.charsets, ahead.names)
        sink = TransactionSink(
            opened.source.name,
            position,
            self._outbox,
            self._history,
            schema.known,
            ahead,
            self._new_emitter,
            self._keeper.enter,
            by_gtid=self._resume.by_gtid,
            cascades=None if opened.logs_cascades else self._new_cascades(),
        )
        if self._settings.publish.ddl_messages:
            schema.passed = self._new_ddl_messages().send
        is_mariadb = opened.flavour == "mariadb"
        reader = TransactionReader(
            opened.source.name,
            position.incarnation,
            position.file,
            schema,
            opened.charsets,
            sink,
            self._history.side(position),
            mariadb=is_mariadb,
        )
        if is_mariadb:
            beside = start_position.beside(opened.source, position.replica_id)
            to_the_end = LookAhead(opened.source, beside, (position.server_id, position.server_uuid), self._stop)
            self._outbox.fate = lambda: to_the_end.fate(*reader.began)
        return reader

    def _finish(self) -> None:
        """Give what was sent a chance to be confirmed, and keep the position that follows from it."""
        if self._producer.lost:  # what would be sent now comes in the places of what was lost
            self._producer.abandon()
            return
        try:
            self._producer.flush(_LAST_FLUSH)
            self._keeper.flush(self._batches)
            self._count()
            settled = self._outbox.is_settled and not self._abandoned
            if settled and self._keeper.has_saved(self._batches.acknowledged):
                self._note_end()
        except AcknowledgedLost as error:
            self._acknowledged.note()
            log.error("the broker lost acknowledged messages", error=error.message)
        except MigrateError as error:  # what brought us here matters more
            log.warning("not everything was delivered; it is sent again after the start", error=str(error))

    def _note_end(self) -> None:
        """What it saves the next start is no reason to fail."""
        try:
            self._unacknowledged.note_end()
        except ServerError as error:
            log.info("the ends of the topics are not known; the next start reads them back", error=error.message)

    def _count(self) -> None:
        at = self._batches.acknowledged
        self._published.take_over(self._batches, at.file, at.pos)

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
            routing=planned.routing,
            park=self._park if self._settings.publish.oversized == "park" else None,
            types=self._settings.publish.types,
        )

    def _new_cascades(self) -> Cascades:
        settings = self._settings
        return Cascades(self._planned, self._migration, settings.topic, settings.kafka.max_message_bytes)

    def _new_ddl_messages(self) -> DdlMessages:
        settings, kafka = self._settings, self._settings.kafka
        named = self._opened.source.name
        return DdlMessages(named, self._planned, self._migration, settings.topic, kafka.max_message_bytes, self._outbox)

    def _park(self, row: Oversized) -> None:
        """Name a row that is left out; before the position can move past it."""
        at, table = tuple(row.coordinate), f"{row.database}.{row.table}"
        log.error("row left out, too large for Kafka", table=table, at=at, bytes=row.size)
        self._keeper.writes.run(lambda state: oversized.note(state, self._settings.name, row))
