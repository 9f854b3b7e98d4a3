"""`migrate cutover` and `migrate rollback`: numbered, journalled steps, each re-runnable after a kill.

Before the switch everything can be undone, and any error does: writes are given back. The switch is one transaction of
the state; after it there is only the way on. The freeze has an end (`migrate.cutover.freeze_deadline`), whatever hangs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack, closing
from functools import partial

import sqlalchemy as sa

from migrate.commands import foreign, preconditions
from migrate.cutover import entered_side, freeze_deadline, lost_server, side_roles
from migrate.cutover.catch_up import Comparing, pass_up_to, refuse_copied_since
from migrate.cutover.freeze_deadline import Watch
from migrate.cutover.journal import Journal, Report, unheard
from migrate.cutover.left_server import Server, Session
from migrate.cutover.lock import Alone, nobody_came, still_at
from migrate.cutover.reverse_settings import reversed_settings
from migrate.cutover.side_roles import Written
from migrate.cutover.write_block import Blocks
from migrate.model.errors import CutoverAborted, MigrateError, PreflightError, ServerError
from migrate.publish.start_position import SourceEnd
from migrate.settings import Settings
from migrate.state import compared, cutover, position, record, switch
from migrate.state import migration as migrations
from migrate.state.cutover import Direction, Outcome, Stage
from migrate.state.switch import Side, Writes
from migrate.status import late_triggers, readiness, target_losses
from migrate.target.stored_plan import stored_plan
from migrate.verify.catch_up import Passing
from migrate.verify.recheck import hurrier

_NOTICED = 1.5  # seconds until every process has noticed that somebody is in a hurry
_SOON = 2.0  # seconds in the freeze to see that a server that is gone still does not answer
Say = Callable[[str], None]


class Cutover:
    """One run in one direction. `settings` are of the way there. For one thread, with the lease held."""

    def __init__(
        self,
        settings: Settings,
        state: sa.Engine,
        direction: Direction,
        say: Say,
        without: Collection[str] = (),
        alone: Alone | None = None,
    ) -> None:
        """without: servers of the side that is left that are gone for good (`migrate.cutover.lost_server`). alone: what
        a run needs, and what ends one does not."""
        with state.connect() as connection:
            migrations.get(connection, settings.name)
        there = stored_plan(settings, state)
        back = reversed_settings(settings, there)
        say = unheard(say)
        self._settings, self._state, self._say = settings, state, say
        self._direction = direction
        ways = [position.where_read(state, one) for one in (settings, back)]
        self._stream, self._other = ways if direction is Direction.THERE else reversed(ways)
        with state.connect() as connection:
            known = migrations.find(connection, back.name) is not None
        self._side = Side.SOURCE if direction is Direction.THERE else Side.TARGET
        if not known:
            preconditions.refuse_elsewhere(state, settings.name, self._side)  # a rollback before any cutover
            raise PreflightError(
                "the way back is not there yet",
                hint="`migrate --reverse preflight`, `migrate --reverse init`, and `migrate --reverse run`",
            )
        self._plan = there if direction is Direction.THERE else stored_plan(back, state)
        lost_server.known(without, self._stream)
        self._without = frozenset(without)
        self._alone = alone
        self._servers = [
            Server(source, self._side.value) for source in self._stream.sources if source.name not in self._without
        ]
        self._others = [Server(source, self._side.other.value) for source in self._other.sources]
        other = stored_plan(back, state) if direction is Direction.THERE else there
        gone_at = [one.address.lower() for one in self._stream.sources if one.name in without]
        self._written = [Written(self._stream, self._plan), Written(self._other, other, gone_at)]
        self._blocks = Blocks(settings, state, self._side, self._servers, self._plan, say, self._without)
        self._other_blocks = Blocks(settings, state, self._side.other, self._others, other, say)
        self._ends: dict[str, SourceEnd] = {}  # of the logs, while the tables are locked
        self._stops_at = 0.0
        self._switching = False  # from here on only the state knows whether it has switched
        self._journal = Journal(settings.name, state, say)
        self._report = Report(direction, parts=self._journal.parts)

    def close(self) -> None:
        for server in (*self._servers, *self._others):
            server.close()

    # -- the whole

    def rehearse(self) -> Report:
        """All that stops nobody, and how long the freeze would be."""
        self._report.rehearsed = True
        with self._journal.part("check"):
            self._check()
        with ExitStack() as until:
            comparing = until.enter_context(closing(self._comparing()))
            with self._journal.part("catch up"):
                comparing.catch_up()
            self._hurry(self._stream, self._other)
            with self._journal.part("drain"):
                self._drain(self._settings.check.wait_seconds)
            with self._journal.part("compare"):
                keys = comparing.look()
            with self._journal.part("roles"):
                self._read_other_side(self._settings.check.wait_seconds)
            with self._journal.part("settle"):  # as rows change meanwhile
                comparing.settle(keys)
        self._report.keys = len(keys)
        self._report.freeze_seconds = sum(self._report.parts[name] for name in ("drain", "compare", "roles"))
        return self._report

    def run(self, watch: Watch, *, rehearse: bool = False) -> Report:
        """Switch. Raises: PreflightError before anything was done, CutoverAborted when writes were given back.

        watch: of the guardian, which ends the freeze should this process not be able to. rehearse: writes are stopped
        all the same, and given back instead of the switch.
        """
        self._report.rehearsed = rehearse
        with self._journal.part("check"):
            self._check()
        with ExitStack() as until:
            comparing = None if self._without else until.enter_context(closing(self._comparing()))
            if comparing is not None:
                with self._journal.part("catch up"):
                    comparing.catch_up()
            self._begin(comparing)
            watch.run(self._report.run)
            self._hurry(self._stream, self._other)
            began = time.monotonic()
            self._stops_at = began + self._settings.cutover.freeze_seconds
            try:
                watch.until(self._settings.cutover.freeze_seconds)
                with freeze_deadline.interrupting(self._settings.cutover.freeze_seconds):
                    self._freeze(comparing)
            except BaseException as error:
                watch.until(self._settings.cutover.hooks.seconds)
                self._abort(error)
                raise
            watch.until(self._settings.cutover.hooks.seconds)
            if rehearse:
                self._end_rehearsal(began)
            else:
                self.finish(self._report.run, began)
            watch.settled()
        return self._report

    def _end_rehearsal(self, began: float) -> None:
        """Raises ServerError; then the guardian does it."""
        for server in self._servers:
            server.unlock()
        self.give_back(self._report.run, "it was a rehearsal")
        self._report.measured = True
        self._report.freeze_seconds = time.monotonic() - began

    def _begin(self, comparing: Comparing | None) -> None:
        """The run, if everything is still as it was checked; that may have been long ago."""
        name = self._settings.name
        with self._state.begin() as connection:
            self._still_ours(connection)
            nobody_came(name, self._side, connection)
            refuse_copied_since(connection, self._stream.name, self._plan, comparing)
            self._report.run = self._journal.run = cutover.begin(connection, name, self._direction)

    def _still_running(self, connection: sa.Connection) -> None:
        """Raises OwnershipLost, ServerError when somebody else may have ended this run."""
        self._still_ours(connection)
        still_at(self._settings.name, self._report.run, Outcome.RUNNING, connection)

    def _still_ours(self, connection: sa.Connection) -> None:
        """Raises OwnershipLost when another run may be under way."""
        if self._alone is None:
            raise ServerError("a run needs to be alone")
        self._alone.still_ours(connection)

    def delivered(self) -> dict[str, str]:
        """Of the servers that are gone, up to where their writes were published."""
        lost_server.refuse_answering(self._stream.sources, self._without)
        with self._state.connect() as connection:
            return lost_server.delivered(connection, self._stream, self._without)

    def finish(self, run: int, began: float | None = None) -> None:
        """What is left after the switch: the other side is opened for good. Raises ServerError; then again."""
        self._report.run = self._journal.run = run
        try:
            with self._journal.step("release"):
                still = partial(still_at, self._settings.name, run, Outcome.SWITCHED)
                self._other_blocks.give_back(still)
                with self._state.begin() as connection:
                    still(connection)
                    switch.put(connection, self._settings.name, self._side.other, Writes.OPEN)
        except BaseException:
            self._journal.write_failed()
            raise
        if began is not None:
            self._report.freeze_seconds = time.monotonic() - began
        for server in self._servers:
            server.unlock()
        with self._state.begin() as connection:
            cutover.came_to(connection, self._settings.name, run, Outcome.DONE, self._report.freeze_seconds or None)
        side_roles.set_right(self._written, self._state, self._say)

    def give_back(self, run: int, why: str) -> bool:
        """End a run that has not switched: applications go on where they were. False: it has switched.

        Raises ServerError; then it is to be called again.
        """
        name = self._settings.name
        with self._state.begin() as connection:
            outcome = cutover.lock(connection, name, run)
            if ours := outcome in (Outcome.RUNNING, Outcome.ABORTING):
                cutover.came_to(connection, name, run, Outcome.ABORTING)  # it cannot switch any more
        if not ours:
            if outcome is Outcome.ABORTED:  # by another process; this one may have gone on meanwhile
                self.give_back_left()
            return outcome is Outcome.ABORTED
        self._blocks.give_back(partial(still_at, name, run, Outcome.ABORTING))
        with self._state.begin() as connection:
            if cutover.lock(connection, name, run) is Outcome.ABORTING:
                switch.put(connection, name, self._side, Writes.OPEN)
                cutover.write(connection, name, run, "give back", Stage.DONE, why)
                cutover.came_to(connection, name, run, Outcome.ABORTED)
        side_roles.set_right(self._written, self._state, self._say)
        return True

    def give_back_left(self) -> None:
        """End what stops writes at the side where applications are, although no run is open. Raises ServerError."""
        try:
            self._blocks.give_back(partial(nobody_came, self._settings.name, self._side))
        except PreflightError as error:
            by_hand = self._blocks.by_hand
            raise ServerError(f"not given back: {error.message}", hint=f"{error.hint}; after it {by_hand}") from error

    def _freeze(self, comparing: Comparing | None) -> None:
        """comparing: None when a server is gone with which nothing can be compared."""
        with self._journal.step("stop writes"):
            self._blocks.stop(self._still_running)
        with self._journal.step("lock"):
            self._lock()
        with self._journal.step("drain"):
            passing = self._drain(self._left(), self._ends)
        if comparing is not None:
            with self._journal.step("compare"):
                self._report.keys = comparing.compare()
        if self._report.rehearsed:
            return
        with self._journal.step("roles"):
            pass_up_to(passing.again(), self._left())  # a row may have been asked for meanwhile
            with self._state.connect() as connection:
                version = switch.get(connection, self._settings.name).version
                lacks = [target_losses.Expected.read(connection, one.plan).lost for one in self._written]
            side_roles.freeze(self._written, version, lacks, min(self._settings.cutover.wait_seconds, self._left()))
            with self._state.begin() as connection:
                switch.note_frozen(connection, self._settings.name, version)
            self._read_other_side(self._left())
        with self._journal.step("switch"):
            self._left()
            for server in self._servers:
                server.still_locked()
            for server in self._others:
                server.close()  # which may have ended in the time since the check
            self._refuse_closed()
            self._switch(comparing)

    # -- steps

    def _comparing(self) -> Comparing:
        return Comparing(self._stream, self._state, self._plan, self._settings.cutover, self._say)

    def _check(self) -> None:
        preconditions.refuse_elsewhere(self._state, self._settings.name, self._side)
        self._hurry(self._stream, self._other)
        if self._without:
            self.delivered()  # they do not answer
        streams = self._stream, self._other
        if not self._without:
            foreign.compare(self._settings, self._state)
        if not self._without:  # after a rollback the forward stream writes where applications have triggers by now
            late_triggers.refuse_triggers(self._state, streams if self._direction is Direction.THERE else streams[:1])
        common = self._settings, self._state, self._direction
        preconditions.refuse_unready(*common, streams, self._plan, self._servers, self._without)
        side_roles.refuse_lacking(self._written)
        side_roles.align(self._written, self._state)
        self._refuse_closed()
        self._blocks.probe()
        self._other_blocks.probe_ending()

    def _refuse_closed(self) -> None:
        """Raise PreflightError when applications could not write at the other side."""
        stop = self._settings.cutover.stop
        side = self._side.other
        entered_side.refuse_closed(self._state, self._settings.name, side, self._others, self._servers, stop)

    def _hurry(self, *streams: Settings) -> None:
        """Have streams bring everything at once, so that a long `consume.merge_interval_seconds` is no lag."""
        seconds = self._settings.cutover.freeze_seconds + 2 * preconditions.PATIENCE
        for stream in streams:
            hurrier(stream, self._state)(seconds)
        time.sleep(_NOTICED)

    def _lock(self) -> None:
        """Every transaction that changed the tables is over; where the logs end then."""
        for server in self._servers:
            tables = [(id_[1], id_[2]) for id_ in self._plan.tables if id_[0] == server.name]

            def ended(sessions: list[Session], server: Server = server) -> None:
                for session in sessions:
                    self._say(f"{self._side} '{server.name}': ended {session}, which held on to the tables")

            with self._state.connect() as connection:
                before = position.load(connection, self._stream.name, server.name)
            wait = min(self._settings.cutover.wait_seconds, self._left())
            end = self._ends[server.name] = server.lock(tables, wait, self._left() + freeze_deadline.GRACE, ended)
            end.refuse_earlier(server.name, before)
            self._report.ends[server.name] = f"{end.at.file}:{end.at.pos}"

    def _drain(self, seconds: float, ends: Mapping[str, SourceEnd] | None = None) -> Passing:
        until = time.monotonic() + seconds
        passing = Passing(self._stream, self._state, [server.name for server in self._servers], ends)
        pass_up_to(passing, seconds)
        self._read_other_side(until - time.monotonic())
        if left := readiness.left_behind(self._stream, self._state, self._plan, self._without):
            raise ServerError(left, hint="`migrate status` says more")
        return passing

    def _read_other_side(self, seconds: float) -> None:
        """Until the other stream has read the logs of the side that takes over: what somebody wrote there while it was
        standby would become its own with the switch. Raises ServerError when anything is listed.

        Where a server is gone nothing listed is compared, and nothing waited for.
        """
        if self._without:
            return
        passing = Passing(self._other, self._state, [server.name for server in self._others])
        # Half of the time: a freeze that ends first would not name the stream.
        pass_up_to(passing, seconds / 2, f"the stream from the {self._side.other}s")
        with self._state.connect() as connection:
            if listed := readiness.foreign_left(connection, self._settings.name):
                raise ServerError(listed, hint="`migrate foreign compare`, and again")
            if unread := readiness.not_carried(connection, self._other.name):
                raise ServerError(
                    f"the stream from the {self._side.other}s: {unread}", hint="`migrate status` says more"
                )

    def _switch(self, comparing: Comparing | None) -> None:
        name = self._settings.name
        lost_server.refuse_answering(self._stream.sources, self._without, _SOON)
        with self._state.begin() as connection:
            self._still_ours(connection)
            if cutover.lock(connection, name, self._report.run) is not Outcome.RUNNING:
                raise ServerError("this run was ended meanwhile by another `migrate cutover`")
            held = cutover.blocked(connection, name, self._side.other)
            switch.put(connection, name, self._side.other, Writes.CLOSED if held else Writes.OPEN)
            refuse_copied_since(connection, self._stream.name, self._plan, comparing)
            cutover.came_to(connection, name, self._report.run, Outcome.SWITCHED)
            if self._without:
                compared.forget(connection, name)
            else:
                for one in (self._stream.name, self._other.name):
                    compared.note(connection, one, record.prefixes(connection, one))
            for server, upto in lost_server.delivered(connection, self._stream, self._without).items():
                cutover.write(connection, name, self._report.run, f"without {server}", Stage.DONE, upto)
            self._switching = True

    def _abort(self, error: BaseException) -> None:
        why = error.message if isinstance(error, MigrateError) else type(error).__name__
        for server in self._servers:
            server.close()
        if not self._switching and self._alone is not None and self._alone.surely:
            self._blocks.lift()  # first of all, and without the state, which may be what hangs
        self._journal.write_failed()
        took = self.give_back(self._report.run, why)
        if took and isinstance(error, MigrateError):
            raise CutoverAborted(f"writes are given back: {why}", hint=error.hint) from error
        if not took:
            raise ServerError(
                f"it has switched, and the rest is to be done: {why}", hint="say the same again: it goes on from there"
            ) from error

    def _left(self) -> float:
        """Seconds that the freeze may still take. Raises ServerError when it is over."""
        left = self._stops_at - time.monotonic()
        if left <= 0:
            raise freeze_deadline.over(self._settings.cutover.freeze_seconds)
        return left
