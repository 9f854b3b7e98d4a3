"""How a run of a cutover ends: writes are given back, or the other side is opened for good. Each can be done again."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import sqlalchemy as sa

from migrate.commands.cutover_context import CutoverContext
from migrate.cutover import side_roles
from migrate.cutover.journal import CutoverReport, Journal
from migrate.cutover.lock import nobody_came, still_at
from migrate.model.errors import CutoverAborted, MigrateError, PreflightError, ServerError
from migrate.state import compared, cutover, switch
from migrate.state.compared import Because
from migrate.state.cutover import Outcome, StepState, SwitchDirection
from migrate.state.switch import Writes

_ROLLBACK, _CUTOVER = "`migrate rollback --without NAME`", "`migrate cutover --without NAME`"


class CutoverEnd:
    def __init__(self, context: CutoverContext, journal: Journal, report: CutoverReport) -> None:
        self._context = context
        self._journal = journal
        self._report = report

    def finish(self, run: int, began: float | None = None) -> None:
        """What is left after the switch: the other side is opened for good. Raises ServerError; then again.

        began: when the freeze did, by `time.monotonic`.
        """
        context = self._context
        self._report.run = self._journal.run = run
        if began is not None and self._is_in_freeze(run):  # it was committed, and is there no more
            self._switch_again(run)
        try:
            with self._journal.step("release"):
                still = partial(still_at, context.settings.name, run, Outcome.SWITCHED)
                self._open(still)
                with context.state.begin() as connection:
                    still(connection)
                    switch.put(connection, context.settings.name, context.side.other, Writes.OPEN)
        except BaseException:
            self._journal.write_failed()
            raise
        if began is not None:
            self._report.freeze_seconds = time.monotonic() - began
        for server in context.servers:
            server.unlock()
        with context.state.begin() as connection:
            cutover.came_to(connection, context.settings.name, run, Outcome.DONE, self._report.freeze_seconds or None)
        side_roles.set_right(context.written, context.state, context.say)

    def _open(self, still: Callable[[sa.Connection], None]) -> None:
        """The servers of the side that was entered, which an earlier run closed."""
        try:
            self._context.other_blocks.give_back(still)
        except ServerError as error:
            back = _ROLLBACK if self._context.direction is SwitchDirection.TO_TARGETS else _CUTOVER
            hint = f"{back} goes back without a server that is lost for good"
            raise ServerError(error.message, hint=error.hint_and(hint)) from error.__cause__

    def rehearsal(self, began: float) -> None:
        """Writes were stopped for a rehearsal. Raises ServerError; then the guardian does it."""
        for server in self._context.servers:
            server.unlock()
        self._lift()
        self.give_back(self._report.run, "it was a rehearsal")
        self._report.measured = True
        self._report.freeze_seconds = time.monotonic() - began

    def give_back(self, run: int, why: str) -> bool:
        """End a run that has not switched: applications go on where they were. False: it has switched.

        Raises ServerError; then it is to be called again.
        """
        context, name = self._context, self._context.settings.name
        if (version := self._is_in_freeze(run)) and side_roles.has_switched(*context.written, version):
            self._switch_again(run)
            return False
        with context.state.begin() as connection:
            outcome = cutover.lock(connection, name, run)
            if ours := outcome in (Outcome.RUNNING, Outcome.ABORTING):
                cutover.came_to(connection, name, run, Outcome.ABORTING)  # it cannot switch any more
        if not ours:
            if outcome is Outcome.ABORTED:  # by another process; this one may have gone on meanwhile
                self.give_back_left()
            return outcome is Outcome.ABORTED
        context.blocks.give_back(partial(still_at, name, run, Outcome.ABORTING))
        with context.state.begin() as connection:
            if cutover.lock(connection, name, run) is Outcome.ABORTING:
                switch.put(connection, name, context.side, Writes.OPEN)
                cutover.write(connection, name, run, "give back", StepState.DONE, why)
                cutover.came_to(connection, name, run, Outcome.ABORTED)
        side_roles.set_right(context.written, context.state, context.say)
        return True

    def _is_in_freeze(self, run: int) -> int:
        """The version of the switch, where the state has a run that stopped writes and has not switched; else 0."""
        context, name = self._context, self._context.settings.name
        with context.state.begin() as connection:
            outcome, now = cutover.lock(connection, name, run), switch.get(connection, name)
        closed = (now.side, now.writes) == (context.side, Writes.CLOSED)
        return now.version if closed and outcome in (Outcome.RUNNING, Outcome.ABORTING) else 0

    def _switch_again(self, run: int) -> None:
        """The state lost the switch of a run that it had committed: applications may follow it by now."""
        context, name = self._context, self._context.settings.name
        context.say(f"run {run} has switched, and the state database lost that: it is noted again")
        with context.state.begin() as connection:
            if cutover.lock(connection, name, run) not in (Outcome.RUNNING, Outcome.ABORTING):
                return
            held = cutover.blocked(connection, name, context.side.other)
            switch.put(connection, name, context.side.other, Writes.CLOSED if held else Writes.OPEN)
            compared.forget(connection, name, Because.STATE)
            cutover.write(connection, name, run, "switch", StepState.DONE, "again: the state had lost it")
            cutover.came_to(connection, name, run, Outcome.SWITCHED)

    def give_back_left(self) -> None:
        """End what stops writes at the side where applications are, although no run is open. Raises ServerError."""
        context = self._context
        try:
            context.blocks.give_back(partial(nobody_came, context.settings.name, context.side))
        except PreflightError as error:
            by_hand = context.blocks.by_hand
            raise ServerError(f"not given back: {error.message}", hint=f"{error.hint}; after it {by_hand}") from error

    def abort(self, error: BaseException, *, switching: bool) -> None:
        """After an error in the freeze. switching: only the state knows whether it has switched.

        Raises CutoverAborted once writes are given back, ServerError where it has switched.
        """
        context = self._context
        why = error.message if isinstance(error, MigrateError) else type(error).__name__
        for server in context.servers:
            server.close()
        if not switching:
            self._lift()
        self._journal.write_failed()
        took = self.give_back(self._report.run, why)
        if took and isinstance(error, MigrateError):
            raise CutoverAborted(f"writes are given back: {why}", hint=error.given) from error
        if not took:
            raise ServerError(
                f"applications are switched, the last steps are not done: {why}",
                hint="run the same command again: it continues from there",
            ) from error

    def _lift(self) -> None:
        """First of all, and without the state, which may be what hangs."""
        if self._context.alone is not None and self._context.alone.unexpired:
            self._context.blocks.lift()
