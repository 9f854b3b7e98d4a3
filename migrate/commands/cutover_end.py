"""How a run of a cutover ends: writes are given back, or the other side is opened for good. Each can be done again."""

from __future__ import annotations

import time
from functools import partial

from migrate.commands.cutover_way import Way
from migrate.cutover import side_roles
from migrate.cutover.journal import Journal, Report
from migrate.cutover.lock import nobody_came, still_at
from migrate.model.errors import CutoverAborted, MigrateError, PreflightError, ServerError
from migrate.state import cutover, switch
from migrate.state.cutover import Outcome, Stage
from migrate.state.switch import Writes


class End:
    def __init__(self, way: Way, journal: Journal, report: Report) -> None:
        self._way = way
        self._journal = journal
        self._report = report

    def finish(self, run: int, began: float | None = None) -> None:
        """What is left after the switch: the other side is opened for good. Raises ServerError; then again.

        began: when the freeze did, by `time.monotonic`.
        """
        way = self._way
        self._report.run = self._journal.run = run
        try:
            with self._journal.step("release"):
                still = partial(still_at, way.settings.name, run, Outcome.SWITCHED)
                way.other_blocks.give_back(still)
                with way.state.begin() as connection:
                    still(connection)
                    switch.put(connection, way.settings.name, way.side.other, Writes.OPEN)
        except BaseException:
            self._journal.write_failed()
            raise
        if began is not None:
            self._report.freeze_seconds = time.monotonic() - began
        for server in way.servers:
            server.unlock()
        with way.state.begin() as connection:
            cutover.came_to(connection, way.settings.name, run, Outcome.DONE, self._report.freeze_seconds or None)
        side_roles.set_right(way.written, way.state, way.say)

    def rehearsal(self, began: float) -> None:
        """Writes were stopped for a rehearsal. Raises ServerError; then the guardian does it."""
        for server in self._way.servers:
            server.unlock()
        self.give_back(self._report.run, "it was a rehearsal")
        self._report.measured = True
        self._report.freeze_seconds = time.monotonic() - began

    def give_back(self, run: int, why: str) -> bool:
        """End a run that has not switched: applications go on where they were. False: it has switched.

        Raises ServerError; then it is to be called again.
        """
        way, name = self._way, self._way.settings.name
        with way.state.begin() as connection:
            outcome = cutover.lock(connection, name, run)
            if ours := outcome in (Outcome.RUNNING, Outcome.ABORTING):
                cutover.came_to(connection, name, run, Outcome.ABORTING)  # it cannot switch any more
        if not ours:
            if outcome is Outcome.ABORTED:  # by another process; this one may have gone on meanwhile
                self.give_back_left()
            return outcome is Outcome.ABORTED
        way.blocks.give_back(partial(still_at, name, run, Outcome.ABORTING))
        with way.state.begin() as connection:
            if cutover.lock(connection, name, run) is Outcome.ABORTING:
                switch.put(connection, name, way.side, Writes.OPEN)
                cutover.write(connection, name, run, "give back", Stage.DONE, why)
                cutover.came_to(connection, name, run, Outcome.ABORTED)
        side_roles.set_right(way.written, way.state, way.say)
        return True

    def give_back_left(self) -> None:
        """End what stops writes at the side where applications are, although no run is open. Raises ServerError."""
        way = self._way
        try:
            way.blocks.give_back(partial(nobody_came, way.settings.name, way.side))
        except PreflightError as error:
            by_hand = way.blocks.by_hand
            raise ServerError(f"not given back: {error.message}", hint=f"{error.hint}; after it {by_hand}") from error

    def abort(self, error: BaseException, *, switching: bool) -> None:
        """After an error in the freeze. switching: only the state knows whether it has switched.

        Raises CutoverAborted once writes are given back, ServerError where it has switched.
        """
        way = self._way
        why = error.message if isinstance(error, MigrateError) else type(error).__name__
        for server in way.servers:
            server.close()
        if not switching and way.alone is not None and way.alone.surely:
            way.blocks.lift()  # first of all, and without the state, which may be what hangs
        self._journal.write_failed()
        took = self.give_back(self._report.run, why)
        if took and isinstance(error, MigrateError):
            raise CutoverAborted(f"writes are given back: {why}", hint=error.hint) from error
        if not took:
            raise ServerError(
                f"applications are switched, the last steps are not done: {why}",
                hint="run the same command again: it continues from there",
            ) from error
