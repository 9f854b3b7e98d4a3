"""The freeze of a cutover: the steps between the last write at one side and the first at the other.

It has an end (`migrate.cutover.freeze_deadline`), whatever hangs. Up to the switch every step can be undone.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import sqlalchemy as sa

from migrate.commands.cutover_check import drain, read_other_side, refuse_closed, refuse_holes
from migrate.commands.cutover_context import CutoverContext
from migrate.cutover import acknowledgements, freeze_deadline, lost_server, side_roles
from migrate.cutover.catch_up import StreamComparison, pass_up_to, refuse_copied_since
from migrate.cutover.journal import CutoverReport, Journal
from migrate.cutover.left_server import OtherSession
from migrate.cutover.lock import still_at
from migrate.model.errors import ServerError
from migrate.publish.start_position import SourceEnd
from migrate.state import compared, consumed_total, cutover, position, switch
from migrate.state.compared import Because
from migrate.state.cutover import Outcome, StepState
from migrate.state.switch import Writes
from migrate.status import target_losses
from migrate.verify.catch_up import CatchUp

_SOON = 2.0  # seconds in the freeze to see that a server that is gone still does not answer


class Freeze:
    """For one run; its steps once each, in the order of `steps`."""

    def __init__(
        self,
        context: CutoverContext,
        journal: Journal,
        report: CutoverReport,
        comparison: StreamComparison | None,
        began: float,
    ) -> None:
        """comparison: None when a server is gone with which nothing can be compared. began: by `time.monotonic`."""
        self._context = context
        self._journal = journal
        self._report = report
        self._comparison = comparison
        self._stops_at = began + context.settings.cutover.freeze_seconds
        self._ends: dict[str, SourceEnd] = {}  # of the logs, while the tables are locked
        self._catch_up: CatchUp | None = None
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
        if self._comparison is not None:
            first.append(("compare", self._compare))
        return first if self._report.rehearsed else [*first, ("roles", self._roles), ("switch", self._switch)]

    def run(self) -> None:
        """Every step. Raises ServerError, OwnershipLost."""
        for name, step in self.steps:
            with self._journal.step(name):
                step()

    def _stop_writes(self) -> None:
        self._context.blocks.stop(self._report.run, self._still_running)

    def _lock(self) -> None:
        """Every transaction that changed the tables is over; where the logs end then."""
        context = self._context
        for server in context.servers:
            tables = [(id_[1], id_[2]) for id_ in context.plan.tables if id_[0] == server.name]

            def ended(sessions: list[OtherSession], name: str = server.name) -> None:
                for session in sessions:
                    context.say(f"{context.side} '{name}': ended {session}, which held on to the tables")

            with context.state.connect() as connection:
                before = position.load(connection, context.stream.name, server.name)
            wait = min(context.settings.cutover.wait_seconds, self._left())
            end = self._ends[server.name] = server.lock(tables, wait, self._left() + freeze_deadline.GRACE, ended)
            end.refuse_earlier(server.name, before)
            self._report.ends[server.name] = f"{end.at.file}:{end.at.pos}"
        refuse_holes(context)  # a server that restarts later lets go of its locks

    def _drain(self) -> None:
        self._catch_up = drain(self._context, self._left(), self._ends)

    def _compare(self) -> None:
        if self._comparison is not None:
            self._report.keys = self._comparison.compare()

    def _roles(self) -> None:
        context = self._context
        # A server that came back would lack the version with which all others are frozen.
        lost_server.refuse_answering(context.stream.sources, context.without, _SOON)
        if self._catch_up is not None:
            pass_up_to(self._catch_up.again(), self._left())  # a row may have been asked for meanwhile
        with context.state.begin() as connection:
            self._still_running(connection)  # what is frozen by an earlier version is refused by the databases
            version = switch.get(connection, context.settings.name).version
            lacks = [target_losses.Expected.read(connection, one.plan).lost for one in context.written]
        side_roles.freeze(context.written, version, lacks, min(context.settings.cutover.wait_seconds, self._left()))
        with context.state.begin() as connection:
            self._still_running(connection)
            switch.note_frozen(connection, context.settings.name, version)
        read_other_side(context, self._left())

    def _switch(self) -> None:
        context = self._context
        self._left()
        for server in context.servers:
            server.still_locked()
        for server in context.others:
            server.close()  # which may have ended in the time since the check
        refuse_closed(context)
        context.blocks.refuse_opened()
        lost_server.refuse_answering(context.stream.sources, context.without, _SOON)
        with context.state.begin() as connection:
            context.still_ours(connection)
            self._commit(connection)
            self.switching = True

    def _commit(self, connection: sa.Connection) -> None:
        """One transaction of the state: it is switched."""
        context, name, run = self._context, self._context.settings.name, self._report.run
        if cutover.lock(connection, name, run) is not Outcome.RUNNING:
            raise ServerError("this run was ended meanwhile by another `migrate cutover`")
        if context.settings.cutover.stop == "application":
            acknowledgements.refuse_late(connection, name)
        held = cutover.blocked(connection, name, context.side.other)
        switch.put(connection, name, context.side.other, Writes.CLOSED if held else Writes.OPEN)
        refuse_copied_since(connection, context.stream.name, context.plan, self._comparison)
        cutover.came_to(connection, name, run, Outcome.SWITCHED)
        if context.without:
            compared.forget(connection, name, Because.WITHOUT, ", ".join(sorted(context.without)))
        else:
            for one in (context.stream.name, context.other.name):
                compared.note(connection, one, consumed_total.prefixes(connection, one))
        for server, upto in lost_server.delivered(connection, context.stream, context.without).items():
            cutover.write(connection, name, run, cutover.without(server), StepState.DONE, upto)

    def _still_running(self, connection: sa.Connection) -> None:
        """Raises OwnershipLost, ServerError when somebody else may have ended this run."""
        self._context.still_ours(connection)
        still_at(self._context.settings.name, self._report.run, Outcome.RUNNING, connection)

    def _left(self) -> float:
        """Seconds that the freeze may still take. Raises ServerError when it is over."""
        left = self._stops_at - time.monotonic()
        if left <= 0:
            raise freeze_deadline.over(self._context.settings.cutover.freeze_seconds)
        return left
