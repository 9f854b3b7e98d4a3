"""`migrate cutover` and `migrate rollback`: numbered, journalled steps, each re-runnable after a kill.

Before the switch everything can be undone, and any error does: writes are given back. The switch is one transaction of
the state; after it there is only the way on.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

from migrate.commands import cutover_check, preconditions
from migrate.commands.cutover_context import CutoverContext
from migrate.commands.cutover_end import CutoverEnd
from migrate.commands.cutover_freeze import Freeze
from migrate.cutover import freeze_deadline, lost_server
from migrate.cutover.catch_up import StreamComparison, refuse_copied_since
from migrate.cutover.freeze_deadline import GuardianLine
from migrate.cutover.journal import CutoverReport, Journal
from migrate.cutover.lock import nobody_came
from migrate.cutover.phase_hooks import Phase, StepHooks
from migrate.model.errors import MigrateError
from migrate.state import cutover
from migrate.state.cutover import StepState, SwitchDirection
from migrate.state.switch import Side
from migrate.target import broadcast


class Cutover:
    """One run in one direction. For one thread, with the lease held."""

    def __init__(self, context: CutoverContext) -> None:
        self._context = context
        self._journal = Journal(context.settings.name, context.state, context.say)
        self._report = CutoverReport(context.direction, parts=self._journal.parts)
        if context.direction is SwitchDirection.TO_SOURCES:
            lost = broadcast.notes_of_lost(context.plan, context.without)
            self._report.notes += [*broadcast.notes_of_rollback(context.plan), *lost]
        self._end = CutoverEnd(self._context, self._journal, self._report)

    def close(self) -> None:
        self._context.close()

    def rehearse(self) -> CutoverReport:
        """Every step that does not block writes, and how long the freeze would be."""
        context, report = self._context, self._report
        report.rehearsed = True
        self._journal.hooks = self._hooks()
        with self._journal.part("check"):
            cutover_check.check(context)
        with ExitStack() as until:
            comparison = until.enter_context(closing(self._comparison()))
            with self._journal.part("catch up"):
                comparison.catch_up()
            cutover_check.hurry(context, context.stream, context.other)
            with self._journal.part("drain"):
                cutover_check.drain(context, context.settings.check.wait_seconds)
            with self._journal.part("compare"):
                keys = comparison.look()
            with self._journal.part("roles"):
                cutover_check.read_other_side(context, context.settings.check.wait_seconds)
            with self._journal.part("settle"):  # as rows change meanwhile
                comparison.settle(keys)
        report.keys = len(keys)
        report.freeze_seconds = sum(report.parts[name] for name in ("drain", "compare", "roles"))
        return report

    @property
    def number(self) -> int:
        """Of the run; 0 before it has one."""
        return self._report.run

    def run(self, watch: GuardianLine, *, rehearse: bool = False) -> CutoverReport:
        """Switch. Raises: PreflightError before anything was done, CutoverAborted when writes were given back.

        watch: of the guardian, which ends the freeze should this process not be able to. rehearse: writes are stopped
        all the same, and given back instead of the switch.
        """
        context, report, limits = self._context, self._report, self._context.settings.cutover
        report.rehearsed = rehearse
        self._journal.hooks = self._hooks()
        with ExitStack() as until:
            with self._ended_when_refused():
                with self._journal.part("check"):
                    if context.without:
                        self._give_up(watch)
                    cutover_check.check(context)
                comparison = None if context.without else until.enter_context(closing(self._comparison()))
                if comparison is not None:
                    with self._journal.part("catch up"):
                        comparison.catch_up()
                self._begin(comparison)
                watch.run(report.run)
                cutover_check.hurry(context, context.stream, context.other)
            began = time.monotonic()
            freeze = Freeze(context, self._journal, report, comparison, began)
            try:
                watch.until(limits.freeze_seconds)
                with freeze_deadline.interrupting(limits.freeze_seconds):
                    freeze.run()
            except BaseException as error:
                watch.until(limits.hooks.seconds)
                self._end.abort(error, switching=freeze.switching)
                raise
            watch.until(limits.hooks.seconds)
            if rehearse:
                self._end.rehearsal(began)
            else:
                self.finish(report.run, began)
                self._note_unread()
            watch.settled()
        return report

    @property
    def notes(self) -> list[str]:
        """What a rollback leaves to a person."""
        return self._report.notes

    def delivered(self) -> dict[str, str]:
        """Of the servers that are gone, up to where their writes were published."""
        context = self._context
        lost_server.refuse_answering(context.stream.sources, context.without)
        with context.state.connect() as connection:
            self._report.notes += lost_server.notes_of_waiting(connection, context.stream, context.without)
            return lost_server.delivered(connection, context.stream, context.without)

    def finish(self, run: int, began: float | None = None) -> None:
        """As `CutoverEnd.finish`."""
        self._end.finish(run, began)

    def give_back(self, run: int, why: str) -> bool:
        """As `CutoverEnd.give_back`."""
        return self._end.give_back(run, why)

    def give_back_left(self) -> None:
        """As `CutoverEnd.give_back_left`."""
        self._end.give_back_left()

    def _hooks(self) -> StepHooks:
        phase = Phase.CUTOVER if self._context.direction is SwitchDirection.TO_TARGETS else Phase.ROLLBACK
        return StepHooks(self._context.settings, phase, self._report.rehearsed)

    def _comparison(self) -> StreamComparison:
        context = self._context
        return StreamComparison(context.stream, context.state, context.plan, context.settings.cutover, context.say)

    def _give_up(self, watch: GuardianLine) -> None:
        """The run begins before its check: until it ends the stream asks the lost servers for no row, and partitions
        that wait for one go on. Raises: as `check`."""
        context, name = self._context, self._context.settings.name
        preconditions.refuse_elsewhere(context.state, name, context.side)
        lost_server.refuse_answering(context.stream.sources, context.without)
        with context.state.begin() as connection:
            context.still_ours(connection)
            nobody_came(name, context.side, connection)
            number = cutover.begin(connection, name, context.direction)
            for server, upto in lost_server.delivered(connection, context.stream, context.without).items():
                cutover.write(connection, name, number, cutover.without(server), StepState.BEGUN, upto)
        self._report.run = self._journal.run = number
        watch.run(number)
        cutover_check.unblock(context)

    @contextmanager
    def _ended_when_refused(self) -> Iterator[None]:
        """Before the freeze: a run that went without a server ends, and the stream asks that server again."""
        try:
            yield
        except BaseException as error:
            if self._report.run:
                self.give_back(self._report.run, error.message if isinstance(error, MigrateError) else "")
            raise

    def _note_unread(self) -> None:
        """The rows that a lost server may have, for the operator."""
        context = self._context
        if context.without:
            with context.state.connect() as connection:
                kept = "source" if context.side is Side.TARGET else "target"
                self._report.notes += lost_server.notes_of_unread(connection, context.stream, f"{kept}s")

    def _begin(self, comparison: StreamComparison | None) -> None:
        """The run, if everything is still as it was checked; that may have been long ago."""
        context, name = self._context, self._context.settings.name
        with context.state.begin() as connection:
            context.still_ours(connection)
            if not self._report.run:
                nobody_came(name, context.side, connection)
            refuse_copied_since(connection, context.stream.name, context.plan, comparison)
            if not self._report.run:
                self._report.run = self._journal.run = cutover.begin(connection, name, context.direction)
