"""Which of a source's addresses a publisher reads: the present one while it answers, else the next that may follow."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

import structlog

from migrate.model.errors import MigrateError, ServerError, StopError
from migrate.mysql.catalog import server_facts
from migrate.mysql.connection import Connection, connect
from migrate.mysql.errors import explained, unreachable
from migrate.publish import failover
from migrate.publish.failover import LacksTransactions, Purged
from migrate.publish.log.logfiles import OtherLog
from migrate.publish.start_position import is_server
from migrate.publish.unacknowledged import UnacknowledgedTransactions
from migrate.settings import Failover, Source
from migrate.state.failover import NotedFailover as Note
from migrate.state.position import Position
from migrate.state.schema_history import ByTime

log = structlog.get_logger("migrate.publish")
_PAUSE = 1.0
_BEHIND = (LacksTransactions, Purged)
"""Why the end of another address's log is taken, of the standby side. Never since it does not log what it replicates:
what is written there would be missing from then on, and the present address may only be down for a while."""


@dataclass(frozen=True, slots=True)
class ReachedSource:
    """A session on the server to read from, and the place there; None for a publisher that never ran."""

    source: Source
    connection: Connection
    position: Position | None
    note: Note | None = None  # when it is another server
    by_time: ByTime | None = None  # and the place there was found by time
    other: OtherLog | None = None  # why its log does not go on from the position, where only its end is to be taken


class SourceSelection:
    """Tries the addresses in order, beginning with the one that the stored position is from.

    published: what the topic has beyond the stored position; asked only when the server is another one. follows:
    whether the server is of the standby side, of which nothing is to be carried: the end of any log does.
    """

    def __init__(
        self,
        source: Source,
        stored: Position | None,
        settings: Failover,
        published: Callable[[Position], UnacknowledgedTransactions],
        stop: threading.Event,
        follows: Callable[[], bool] = lambda: False,
    ) -> None:
        self._name = f"source '{source.name}'"
        self._stored = stored
        self._settings = settings
        self._published = published
        self._stop = stop
        self._follows = follows
        places = [source.at(f"{host}:{port}") for host, port in source.places]
        first = next((at for at, place in enumerate(places) if stored and place.address == stored.address), 0)
        self._present, *self._others = places[first:] + places[:first]
        self._told: dict[str, str] = {}

    def open(self) -> ReachedSource:
        """Wait for the present address, at most `failover.down_seconds`; then take the next one that may follow.

        Raises: ServerError when the only address does not answer, LacksTransactions when the present server is another
        one and lacks what was published, OtherLog when there is no safe place on it, StopError when it is not to be
        read.
        """
        deadline = time.monotonic() + self._settings.down_seconds
        while True:
            try:
                return self._try(self._present)
            except LacksTransactions as error:  # it may still be applying them
                present: MigrateError = error
            except OtherLog:
                if self._follows() and (reached := self._next() or self._at_end()):
                    return reached
                raise
            except ServerError as error:
                if not self._others or not unreachable(error.__cause__):
                    raise
                present = error
            self._tell(self._present, present)
            if time.monotonic() >= deadline:
                if reached := self._next() or self._at_end():
                    return reached
                if isinstance(present, LacksTransactions):
                    raise present
            if self._stop.wait(_PAUSE):
                raise ServerError(f"{self._name}: stopped while no address could be read")

    def _next(self) -> ReachedSource | None:
        for source in self._others:
            try:
                reached = self._try(source)
            except MigrateError as error:
                self._tell(source, error)
                continue
            log.warning("going on at another address", source=source.name, address=source.address)
            return reached
        return None

    def _at_end(self) -> ReachedSource | None:
        """Of the standby side, where no address goes on from the position: the present one in spite of that if it
        answers, else the next one that is only behind."""
        if self._follows():
            for source in (self._present, *self._others):
                with suppress(ServerError, StopError):
                    return self._try(source, at_end=(OtherLog,) if source is self._present else _BEHIND)
        return None

    def _try(self, source: Source, *, at_end: tuple[type[OtherLog], ...] = ()) -> ReachedSource:
        """at_end: why the end of its log is good enough."""
        connection = connect(source, self._name)
        try:
            return self._judge(source, connection)
        except OtherLog as why:
            if isinstance(why, at_end):
                return ReachedSource(source, connection, self._stored, other=why)
            connection.close()
            raise
        except BaseException:
            connection.close()
            raise

    def _judge(self, source: Source, connection: Connection) -> ReachedSource:
        if self._stored is None:
            return ReachedSource(source, connection, None)
        with explained(self._name):
            facts = server_facts(connection)
        if is_server(facts, self._stored):
            return ReachedSource(source, connection, replace(self._stored, address=source.address))
        back = self._settings.back_seconds
        published = self._published(self._stored)
        position, note, by_time = failover.switch(connection, source, self._stored, back, published)
        return ReachedSource(source, connection, position, note, by_time)

    def _tell(self, source: Source, error: MigrateError) -> None:
        """Log why an address is not read, once for each reason."""
        if self._told.get(source.address) != error.message:
            log.warning("an address cannot be read", source=source.name, address=source.address, reason=error.message)
            self._told[source.address] = error.message
