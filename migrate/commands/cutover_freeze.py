"""The freeze of a cutover: the steps between the last write at one side and the first at the other.

It has an end (`migrate.cutover.freeze_deadline`), whatever hangs. Up to the switch every step can be undone.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import sqlalchemy as sa

from migrate.commands.cutover_check import drain, read_other_side, refuse_closed
from migrate.commands.cutover_way import Way
from migrate.cutover import freeze_deadline, lost_server, side_roles
from migrate.cutover.catch_up import Comparing, pass_up_to, refuse_copied_since
from migrate.cutover.journal import Journal, Report
from migrate.cutover.left_server import Session
from migrate.cutover.lock import still_at
from migrate.model.errors import ServerError
from migrate.publish.start_position import SourceEnd
from migrate.state import compared, cutover, position, record, switch
from migrate.state.compared import Because
from migrate.state.cutover import Outcome, Stage
from migrate.state.switch import Writes
from migrate.status import target_losses
from migrate.verify.catch_up import Passing

_SOON = 2.0  # seconds in the freeze to see that a server that is gone still does not answer


class Freeze:
    """For one run; its steps once each, in the order of `steps`."""

    def __init__(self, way: Way, journal: Journal, report: Report, comparing: Comparing | None, began: float) -> None:
        """comparing: None when a server is gone with which nothing can be compared. began: by `time.monotonic`."""
        self._way = way
        self._journal = journal
        self._report = report
        self._comparing = comparing
        self._stops_at = began + way.settings.cutover.freeze_seconds
        self._ends: dict[str, SourceEnd] = {}  # of the logs, while the tables are locked
        self._passing: Passing | None = None
        self.switching = False
        """From here on only the state knows whether it has switched."""

    @property
    def steps(self) -> list[tuple[str, Callable[[], None]]]:
        """By their names in the journal. A rehearsal ends before the roles."""
        first: list[tuple[str, Callable[[], None]]] = [
            ("stop writes", self._stop_writes),
            ("lock", self._lock),
            ("drain", self._drain),
        ]
        if self._comparing is not None:
            first.append(("compare", self._compare))
        return first if self._report.rehearsed else [*first, ("roles", self._roles), ("switch", self._switch)]

    def run(self) -> None:
        """Every step. Raises ServerError, OwnershipLost."""
        for name, step in self.steps:
            with self._journal.step(name):
                step()

    def _stop_writes(self) -> None:
        self._way.blocks.stop(self._still_running)

    def _lock(self) -> None:
        """Every transaction that changed the tables is over; where the logs end then."""
        way = self._way
        for server in way.servers:
            tables = [(id_[1], id_[2]) for id_ in way.plan.tables if id_[0] == server.name]

            def ended(sessions: list[Session], name: str = server.name) -> None:
                for session in sessions:
                    way.say(f"{way.side} '{name}': ended {session}, which held on to the tables")

            with way.state.connect() as connection:
                before = position.load(connection, way.stream.name, server.name)
            wait = min(way.settings.cutover.wait_seconds, self._left())
            end = self._ends[server.name] = server.lock(tables, wait, self._left() + freeze_deadline.GRACE, ended)
            end.refuse_earlier(server.name, before)
            self._report.ends[server.name] = f"{end.at.file}:{end.at.pos}"

    def _drain(self) -> None:
        self._passing = drain(self._way, self._left(), self._ends)

    def _compare(self) -> None:
        if self._comparing is not None:
            self._report.keys = self._comparing.compare()

    def _roles(self) -> None:
        way = self._way
        if self._passing is not None:
            pass_up_to(self._passing.again(), self._left())  # a row may have been asked for meanwhile
        with way.state.connect() as connection:
            version = switch.get(connection, way.settings.name).version
            lacks = [target_losses.Expected.read(connection, one.plan).lost for one in way.written]
        side_roles.freeze(way.written, version, lacks, min(way.settings.cutover.wait_seconds, self._left()))
        with way.state.begin() as connection:
            switch.note_frozen(connection, way.settings.name, version)
        read_other_side(way, self._left())

    def _switch(self) -> None:
        way = self._way
        self._left()
        for server in way.servers:
            server.still_locked()
        for server in way.others:
            server.close()  # which may have ended in the time since the check
        refuse_closed(way)
        lost_server.refuse_answering(way.stream.sources, way.without, _SOON)
        with way.state.begin() as connection:
            way.still_ours(connection)
            self._commit(connection)
            self.switching = True

    def _commit(self, connection: sa.Connection) -> None:
        """One transaction of the state: it is switched."""
        way, name, run = self._way, self._way.settings.name, self._report.run
        if cutover.lock(connection, name, run) is not Outcome.RUNNING:
            raise ServerError("this run was ended meanwhile by another `migrate cutover`")
        held = cutover.blocked(connection, name, way.side.other)
        switch.put(connection, name, way.side.other, Writes.CLOSED if held else Writes.OPEN)
        refuse_copied_since(connection, way.stream.name, way.plan, self._comparing)
        cutover.came_to(connection, name, run, Outcome.SWITCHED)
        if way.without:
            compared.forget(connection, name, Because.WITHOUT, ", ".join(sorted(way.without)))
        else:
            for one in (way.stream.name, way.other.name):
                compared.note(connection, one, record.prefixes(connection, one))
        for server, upto in lost_server.delivered(connection, way.stream, way.without).items():
            cutover.write(connection, name, run, f"without {server}", Stage.DONE, upto)

    def _still_running(self, connection: sa.Connection) -> None:
        """Raises OwnershipLost, ServerError when somebody else may have ended this run."""
        self._way.still_ours(connection)
        still_at(self._way.settings.name, self._report.run, Outcome.RUNNING, connection)

    def _left(self) -> float:
        """Seconds that the freeze may still take. Raises ServerError when it is over."""
        left = self._stops_at - time.monotonic()
        if left <= 0:
            raise freeze_deadline.over(self._way.settings.cutover.freeze_seconds)
        return left
