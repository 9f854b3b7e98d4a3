"""Where a publisher is: stored once Kafka has confirmed everything before it (invariant position-after-delivery)."""

from __future__ import annotations

import threading
from collections.abc import Callable

import sqlalchemy as sa
import structlog

from migrate.model import process_names
from migrate.model.errors import ServerError
from migrate.publish.acknowledged import Acknowledged
from migrate.publish.batches import Batches
from migrate.publish.position_store import store_of
from migrate.publish.state_writes import StateWrites
from migrate.settings import Settings
from migrate.state import acknowledged, exit_reason, outstanding
from migrate.state import migration as migrations
from migrate.state import position as positions
from migrate.state.database import in_transaction
from migrate.state.lease import HeldLease, Leases
from migrate.state.outstanding import ListedBatches
from migrate.state.position import Position

log = structlog.get_logger("migrate.publish")
Note = Callable[[sa.Connection], None]


class PositionKeeper:
    """Of the publisher that holds a source's lease. For one thread."""

    def __init__(
        self,
        settings: Settings,
        source: str,
        state: sa.Engine,
        leases: Leases,
        held: HeldLease,
        stop: threading.Event,
        delivered: Acknowledged,
    ) -> None:
        """delivered: what the broker acknowledged, stored with the position that follows from it."""
        self._name = settings.name
        self._source = source
        self._state = state
        self._leases = leases
        self._held = held
        self._stop = stop
        self._delivered = delivered
        self._store = store_of(settings, source)
        self.writes = StateWrites(settings.name, source, state, leases, held, stop)
        """The state transactions of this publisher, counted."""
        self._saved: Position | None = None
        self._listed = ListedBatches()
        self._answered = self._works = False  # the source has sent something; and a flush came after it

    def load(self) -> tuple[Position | None, Position | None]:
        """What the state has, and where to go on: what the store has; or what the state has, where that lacks what was
        noted up to there. Raises StopError, ServerError."""
        with self._state.connect() as state:
            in_state = positions.load(state, self._name, self._source)
            self.writes.count = positions.writes(state, self._name, self._source)
            self._listed, _ = outstanding.get(state, self._name, self._source)  # a killed publisher's, until our flush
        if in_state is not None and self._store.is_behind(self.writes.count):
            self.writes.forget_lost()
            self._save_in_store(in_state)
        return in_state, self._store.load(in_state)

    def begin(self, position: Position) -> None:
        """Where this process begins; it is stored."""
        self._saved = self.writes.began = position

    def has_saved(self, position: Position) -> bool:
        """Whether it is what is stored."""
        return position == self._saved

    def enter(self, file: str) -> None:
        """Note, before the first message of a file, that there may be some: consumers believe none from beyond it."""
        self.writes.run(lambda state: positions.enter(state, self._name, self._source, file))

    def heard(self) -> None:
        """The source has sent something."""
        self._answered = True

    def flush(self, batches: Batches, *, idle: bool = False) -> bool:
        """Store the position, what is on its way, that the source is idle; returns whether somebody is in a hurry.

        Raises ServerError, OwnershipLost.
        """
        self._leases.check(self._held.name)
        position, listed = batches.acknowledged, ListedBatches.of(batches.outstanding)
        if position != self._saved or listed != self._listed:
            self.save(position, listed=listed)
        if idle and not listed.batches:
            in_transaction(
                self._state, lambda state: outstanding.note_idle(state, self._name, self._source), self._stop
            )
        return self.writes.look(lambda state: migrations.hurried(state, self._name))

    def note_works(self) -> None:
        """How the last publisher ended is over, once a position is flushed of what the source sent."""
        if self._answered and not self._works:
            process = process_names.publisher(self._source)
            in_transaction(self._state, lambda state: exit_reason.clear(state, self._name, process), self._stop)
            self._works = True

    def save(
        self,
        position: Position,
        note: Note = lambda _connection: None,
        *,
        listed: ListedBatches | None = None,
        state_first: bool = False,
    ) -> None:
        """note: what goes into the same transaction, before it. listed: batches on their way. state_first: it counts
        once the state has it, and another store gets it at the next flush. Raises ServerError, what `note` raises."""

        def save(connection: sa.Connection) -> None:
            note(connection)
            if position != self._saved:
                positions.save(connection, self._name, position)
            if listed is not None and listed != self._listed:
                outstanding.put(connection, self._name, self._source, listed)
            acknowledged.put(connection, self._source, ends)

        if position != self._saved and not state_first:
            try:
                self._save_in_store(position)
            except ServerError as error:
                if self._saved is None:
                    raise
                log.warning("position not saved, tried again at the next flush", error=str(error.__cause__))
                return
        ends = self._delivered.changed()
        self.writes.run(save)
        self._delivered.stored()
        if position != self._saved:
            log.info("position saved", **_told(position))
        self._saved, self._listed = position, listed or self._listed

    def _save_in_store(self, position: Position) -> None:
        """Raises ServerError: without it a restart would not know that this run was."""
        try:
            self._store.save(position, self.writes.count or 0)
        except OSError as error:
            raise ServerError(f"where the publisher begins cannot be stored: {error}") from error


def _told(position: Position) -> dict[str, object]:
    """All that finds the place again by hand, on this server or another one."""
    told = {"source": position.source, "address": position.address, "server_id": position.server_id}
    at = {"file": position.file, "pos": position.pos, "gtid_set": position.gtid_set}
    return told | at | {"event_time": position.event_time and f"{position.event_time:%Y-%m-%dT%H:%M:%SZ}"}
