"""Where a publisher goes on, and at which server: its stored position, a failover, or the first one of all."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial

import sqlalchemy as sa
import structlog

from migrate.model.errors import Code, ServerError, StopError
from migrate.mysql import left_out
from migrate.mysql.catalog import collation_charsets
from migrate.mysql.connection import Connection
from migrate.mysql.errors import explained
from migrate.mysql.foreign_keys import logs_cascades
from migrate.mysql.readable import wait_until_executed_is_readable
from migrate.mysql.server_start import started
from migrate.publish import configured_start, replaced_log, start_position
from migrate.publish.added_tables import AddedTables
from migrate.publish.log import logfiles
from migrate.publish.position_keeper import PositionKeeper
from migrate.publish.schema.following import begin_incarnation
from migrate.publish.side_role import SideRead
from migrate.publish.source_selection import ReachedSource, SourceSelection
from migrate.publish.start_position import ResumePlan
from migrate.publish.unacknowledged import Unacknowledged
from migrate.settings import Settings, Source
from migrate.state import compared, leading, schema_history, server_start
from migrate.state import failover as failovers
from migrate.state import migration as migrations
from migrate.state.compared import Because
from migrate.state.database import in_transaction
from migrate.state.position import Position
from migrate.target.routing import PlannedTable

log = structlog.get_logger("migrate.publish")
Name = tuple[str, str]


@dataclass(frozen=True, slots=True)
class OpenedSource:
    """source: as it is reached. logs_cascades: whether its log has what foreign keys change. started: when the server
    was, in seconds since 1970."""

    source: Source
    position: Position
    resume: ResumePlan
    charsets: dict[int, str]
    flavour: str
    logs_cascades: bool
    started: int


class SourceOpening:
    """Of one source, once at the start of its publisher."""

    def __init__(
        self,
        settings: Settings,
        source: Source,
        planned: Mapping[Name, PlannedTable],
        state: sa.Engine,
        keeper: PositionKeeper,
        unacknowledged: Unacknowledged,
        added: AddedTables,
        stop: threading.Event,
    ) -> None:
        self._settings = settings
        self._source = source
        self._tables = {name: one.table for name, one in planned.items()}
        self._state = state
        self._keeper = keeper
        self._unacknowledged = unacknowledged
        self._added = added
        self._stop = stop

    def open(self) -> OpenedSource:
        """The stored position, or the first one, which is stored at once (invariant capture-before-copy).

        Raises: StopError, ServerError, OwnershipLost.
        """
        settings, named = self._settings, self._source
        in_state, stored = self._keeper.load()
        beyond = self._unacknowledged.beyond
        reached = SourceSelection(named, stored, settings.failover, beyond, self._stop, self._follows).open()
        source, connection = reached.source, reached.connection
        with closing(connection), explained(f"source '{source.name}'"):
            written = source.address == named.address  # by the stream the other way
            databases = {database for database, _ in self._tables}
            since = started(connection)
            self._refuse_left_out(connection, databases)
            side = SideRead(connection, settings.name, named.name, databases, written=written)
            if (found := reached.position) is None:
                position, resume = self._first(connection, source, side)
            else:
                self._keep(connection, found, reached, stored, side, is_stored=in_state is not None)
                side.set_right(self._state)
                position, resume = self._goes_on(connection, reached, found)
                if (known := logfiles.with_created(source, position)) != position:  # after a rewind or a failover
                    self._keeper.save(position := known)
                self._added.take_places(connection, position)
            self._note_start(since, anew=reached.position is None or reached.note is not None)
            charsets, logs = collation_charsets(connection), logs_cascades(connection)
            return OpenedSource(source, position, resume, charsets, connection.flavour, logs, since)

    def _refuse_left_out(self, connection: Connection, databases: Collection[str]) -> None:
        """Raises StopError where changes are missing from the log; what was compared counts no more."""
        if (lacks := left_out.of(connection, databases)) is None:
            return
        name, source = self._settings.name, self._source.name
        in_transaction(
            self._state, lambda state: server_start.note_left_out(state, name, source, lacks.told), self._stop
        )
        hint = f"{lacks.mend}; then `migrate verify`, all tables"
        raise StopError(lacks.told, hint=hint, code=Code.LOG)

    def _note_start(self, since: int, *, anew: bool) -> None:
        """Once the position is stored: a restarted server may have written without its log meanwhile. anew: the place
        in its log was taken just now."""
        name, source = self._settings.name, self._source.name
        note = server_start.put if anew else server_start.note
        if self._keeper.writes.look(lambda state: server_start.differs(state, name, source, since)):
            self._keeper.writes.run(lambda state: note(state, name, source, since))

    def _first(self, connection: Connection, source: Source, side: SideRead) -> tuple[Position, ResumePlan]:
        first = configured_start.first(connection, self._settings, source, list(self._tables), self._stop)
        first = logfiles.with_created(source, first)
        resume = start_position.resume(connection, first)
        for table in self._tables.values():
            configured_start.check_definition(connection, table)
        side.set_right(self._state)
        self._keeper.save(first, self._begin)
        log.info("first start", source=source.name, file=first.file, pos=first.pos, gtid_set=first.gtid_set)
        return first, resume

    def _keep(
        self,
        connection: Connection,
        position: Position,
        reached: ReachedSource,
        stored: Position | None,
        side: SideRead,
        *,
        is_stored: bool,
    ) -> None:
        """Store where to go on, where that is not stored yet. is_stored: the state has a position."""
        if is_stored and stored is not None:
            self._unacknowledged.note(stored, self._unacknowledged.beyond(stored))
        if position == stored:
            if not is_stored:  # the first one was killed between its file and the state
                self._keeper.save(position, self._begin)
        elif (note := reached.note) is None:
            self._keeper.save(position)
        else:
            wait_until_executed_is_readable(connection, self._stop)  # a copy reads there from then on
            noted = partial(self._note_failover, position=position, reached=reached, note=note, side=side)
            self._keeper.save(position, noted, state_first=True)

    def _goes_on(
        self, connection: Connection, reached: ReachedSource, position: Position
    ) -> tuple[Position, ResumePlan]:
        """Raises ServerError, StopError."""
        try:
            if reached.other is not None:
                raise reached.other
            resume = start_position.resume(connection, position)
            logfiles.check(connection, reached.source, position, by_gtid=resume.by_gtid)
        except logfiles.OtherLog as why:
            position = self._begin_at_end(connection, reached.source, position, why)
            resume = start_position.resume(connection, position)
        return position, resume

    def _begin_at_end(
        self, connection: Connection, source: Source, before: Position, why: logfiles.OtherLog
    ) -> Position:
        """Raises `why` where what is lost with the log had to be carried. ServerError, StopError."""
        if not self._follows():
            raise why
        end = start_position.first_position(connection, self._settings, source, [*self._tables], self._stop)
        after = replaced_log.position_at_end(connection, [*self._tables.values()], before, end, why)
        note = partial(replaced_log.note, migration=self._settings.name, before=before, after=after, why=why)

        def begin(state: sa.Connection) -> None:
            note(state)
            self._unacknowledged.forget(state)

        self._keeper.save(after, begin, state_first=True)
        return after

    def _follows(self) -> bool:
        """Whether applications write at the other side: nothing of this one is to be carried."""
        with self._state.connect() as connection:
            return not leading.leads(connection, self._settings.name)

    def _begin(self, connection: sa.Connection) -> None:
        """An init that adds tables locks the same row; what it adds once we have a position, it notes as added. What
        was written by hand at a standby side before it was read, is in no list: the two sides count as unequal."""
        migrations.lock(connection, self._settings.name)
        compared.forget(connection, self._settings.name, Because.BEGAN, self._source.name)
        known = schema_history.latest(connection, self._settings.name)
        if {key[1:] for key in known if key[0] == self._source.name} != self._tables.keys():
            raise ServerError(f"source '{self._source.name}': its tables changed meanwhile", hint="start again")

    def _note_failover(
        self,
        connection: sa.Connection,
        position: Position,
        reached: ReachedSource,
        note: failovers.NotedFailover,
        side: SideRead,
    ) -> None:
        """In the transaction of the position that follows from it."""
        name = self._settings.name
        failovers.note(connection, name, note)
        # A refresh or a copy may have read what the new server never had, and no message names those rows. It may also
        # have had rows of its own, at a side that is written to.
        compared.forget(connection, name, Because.SERVER, note.source)
        if back := reached.by_time is not None:
            since, apart = reached.by_time.since, self._settings.failover.back_seconds
            leading.refuse_replay(connection, name, note.source, since, apart)
            self._unacknowledged.forget(connection)
        begin_incarnation(connection, name, position, reached.by_time, back=back, role=side.lacks(connection))
