"""`migrate cutover` and `migrate rollback`: numbered, journalled steps, each re-runnable after a kill.

Before the switch everything can be undone, and any error does: writes are given back. The switch is one transaction of
the state; after it there is only the way on.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, closing

from migrate.commands import cutover_check
from migrate.commands.cutover_end import CutoverEnd
from migrate.commands.cutover_freeze import Freeze
from migrate.commands.cutover_way import CutoverContext
from migrate.cutover import freeze_deadline, lost_server
from migrate.cutover.catch_up import StreamComparison, refuse_copied_since
from migrate.cutover.freeze_deadline import GuardianLine
from migrate.cutover.journal import CutoverReport, Journal
from migrate.cutover.lock import nobody_came
from migrate.state import cutover


class Cutover:
    """One run in one direction. For one thread, with the lease held."""

    def __init__(self, way: CutoverContext) -> None:
        self._way = way
        self._journal = Journal(way.settings.name, way.state, way.say)
        self._report = CutoverReport(way.direction, parts=self._journal.parts)
        self._end = CutoverEnd(self._way, self._journal, self._report)

    def close(self) -> None:
        self._way.close()

    def rehearse(self) -> CutoverReport:
        """Every step that does not block writes, and how long the freeze would be."""
        way, report = self._way, self._report
        report.rehearsed = True
        with self._journal.part("check"):
            cutover_check.check(way)
        with ExitStack() as until:
            comparing = until.enter_context(closing(self._comparing()))
            with self._journal.part("catch up"):
                comparing.catch_up()
            cutover_check.hurry(way, way.stream, way.other)
            with self._journal.part("drain"):
                cutover_check.drain(way, way.settings.check.wait_seconds)
            with self._journal.part("compare"):
                keys = comparing.look()
            with self._journal.part("roles"):
                cutover_check.read_other_side(way, way.settings.check.wait_seconds)
            with self._journal.part("settle"):  # as rows change meanwhile
                comparing.settle(keys)
        report.keys = len(keys)
        report.freeze_seconds = sum(report.parts[name] for name in ("drain", "compare", "roles"))
        return report

    def run(self, watch: GuardianLine, *, rehearse: bool = False) -> CutoverReport:
        """Switch. Raises: PreflightError before anything was done, CutoverAborted when writes were given back.

        watch: of the guardian, which ends the freeze should this process not be able to. rehearse: writes are stopped
        all the same, and given back instead of the switch.
        """
        way, report, limits = self._way, self._report, self._way.settings.cutover
        report.rehearsed = rehearse
        with self._journal.part("check"):
            cutover_check.check(way)
        with ExitStack() as until:
            comparing = None if way.without else until.enter_context(closing(self._comparing()))
            if comparing is not None:
                with self._journal.part("catch up"):
                    comparing.catch_up()
            self._begin(comparing)
            watch.run(report.run)
            cutover_check.hurry(way, way.stream, way.other)
            began = time.monotonic()
            freeze = Freeze(way, self._journal, report, comparing, began)
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
            watch.settled()
        return report

    def delivered(self) -> dict[str, str]:
        """Of the servers that are gone, up to where their writes were published."""
        way = self._way
        lost_server.refuse_answering(way.stream.sources, way.without)
        with way.state.connect() as connection:
            return lost_server.delivered(connection, way.stream, way.without)

    def finish(self, run: int, began: float | None = None) -> None:
        """As `CutoverEnd.finish`."""
        self._end.finish(run, began)

    def give_back(self, run: int, why: str) -> bool:
        """As `CutoverEnd.give_back`."""
        return self._end.give_back(run, why)

    def give_back_left(self) -> None:
        """As `CutoverEnd.give_back_left`."""
        self._end.give_back_left()

    def _comparing(self) -> StreamComparison:
        way = self._way
        return StreamComparison(way.stream, way.state, way.plan, way.settings.cutover, way.say)

    def _begin(self, comparing: StreamComparison | None) -> None:
        """The run, if everything is still as it was checked; that may have been long ago."""
        way, name = self._way, self._way.settings.name
        with way.state.begin() as connection:
            way.still_ours(connection)
            nobody_came(name, way.side, connection)
            refuse_copied_since(connection, way.stream.name, way.plan, comparing)
            self._report.run = self._journal.run = cutover.begin(connection, name, way.direction)
