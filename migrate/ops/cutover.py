"""`migrate cutover` and `migrate rollback`: numbered, journalled steps, each re-runnable after a kill (DESIGN §9).

Before the switch everything can be undone, and any error does: writes are given back. The switch is one transaction of
the state; after it there is only the way on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import sqlalchemy as sa
import structlog
from sqlalchemy.exc import DBAPIError

from migrate.cutover.blocking import Blocks
from migrate.cutover.changed import ChangedKeys, Keys, consumed
from migrate.cutover.reverse import reversed_settings
from migrate.cutover.server import Server, Session, settled
from migrate.model.errors import CutoverAborted, MigrateError, PreflightError, ServerError
from migrate.model.partition import Partition
from migrate.model.words import counted
from migrate.ops import readiness
from migrate.ops.runtime import stored_plan
from migrate.settings import Settings
from migrate.state import compared, cutover, position, switch
from migrate.state import migration as migrations
from migrate.state.cutover import Direction, Outcome, Stage
from migrate.state.switch import Side, Writes
from migrate.target.plan import Plan
from migrate.verify.passing import Passing

log = structlog.get_logger("migrate.cutover")
LEASE = "cutover"
STEPS = ("check", "catch up", "stop writes", "lock", "drain", "compare", "switch", "release")
_ROUNDS = 10
_NOTICED = 1.5  # seconds until every process has noticed that somebody is in a hurry
_POLL = 0.02
Say = Callable[[str], None]


@dataclass(slots=True)
class Report:
    """What a cutover, or its rehearsal, came to."""

    direction: Direction
    run: int = 0
    rehearsed: bool = False
    freeze_seconds: float = 0.0  # measured; of a rehearsal predicted
    parts: dict[str, float] = field(default_factory=dict)  # seconds of each step
    keys: int = 0  # compared inside the freeze
    ends: dict[str, str] = field(default_factory=dict)  # by server, where its log ended in the freeze


class Cutover:
    """One run in one direction. `settings` are of the way there. For one thread, with the lease held."""

    def __init__(self, settings: Settings, state: sa.Engine, direction: Direction, say: Say) -> None:
        with state.connect() as connection:
            migrations.get(connection, settings.name)
        there = stored_plan(settings, state)
        back = reversed_settings(settings, there)
        self._settings, self._state, self._say = settings, state, say
        self._direction = direction
        ways = [position.where_read(state, one) for one in (settings, back)]
        self._stream, self._other = ways if direction is Direction.THERE else reversed(ways)
        with state.connect() as connection:
            if migrations.find(connection, back.name) is None:
                raise PreflightError(
                    "the way back is not there yet",
                    hint="`migrate --reverse preflight`, `migrate --reverse init`, and `migrate --reverse run`",
                )
        self._plan = there if direction is Direction.THERE else stored_plan(back, state)
        self._side = Side.SOURCE if direction is Direction.THERE else Side.TARGET
        self._servers = [Server(source, self._side.value) for source in self._stream.sources]
        self._others = [Server(source, self._side.other.value) for source in self._other.sources]
        other = stored_plan(back, state) if direction is Direction.THERE else there
        self._blocks = Blocks(settings, state, self._side, self._servers, _databases(self._plan), say)
        self._other_blocks = Blocks(settings, state, self._side.other, self._others, _databases(other), say)
        self._report = Report(direction)
        self._stops_at = 0.0

    def close(self) -> None:
        for server in (*self._servers, *self._others):
            server.close()

    # -- the whole

    def rehearse(self) -> Report:
        """All that stops nobody, and how long the freeze would be."""
        self._report.rehearsed = True
        with self._part("check"):
            self._check()
        with ExitStack() as until:
            changed = until.enter_context(self._changed())
            with self._part("catch up"):
                offsets, moving = self._catch_up(changed)
            self._hurry()
            with self._part("drain"):
                self._drain(self._settings.check.wait_seconds)
            with self._part("compare"):
                keys = self._since(changed, offsets, moving)
                changed.look(keys)
            with self._part("settle"):  # as rows change meanwhile
                changed.settle(keys, self._say)
        self._report.keys = len(keys)
        self._report.freeze_seconds = sum(self._report.parts[name] for name in ("drain", "compare"))
        return self._report

    def run(self) -> Report:
        """Switch. Raises: PreflightError before anything was done, CutoverAborted when writes were given back."""
        with self._part("check"):
            self._check()
        with ExitStack() as until:
            changed = until.enter_context(self._changed())
            with self._part("catch up"):
                offsets, moving = self._catch_up(changed)
            with self._state.begin() as connection:
                self._report.run = cutover.begin(connection, self._settings.name, self._direction)
            self._hurry()
            began = time.monotonic()
            self._stops_at = began + self._settings.cutover.freeze_seconds
            try:
                self._freeze(changed, offsets, moving)
            except BaseException as error:
                self._abort(error)
                raise
            self.finish(self._report.run, began)
        return self._report

    def finish(self, run: int, began: float | None = None) -> None:
        """What is left after the switch: the other side is opened for good. Raises ServerError; then again."""
        self._report.run = run
        with self._step("release"):
            self._other_blocks.give_back()
            with self._state.begin() as connection:
                switch.put(connection, self._settings.name, self._side.other, Writes.OPEN)
        if began is not None:
            self._report.freeze_seconds = time.monotonic() - began
        for server in self._servers:
            server.unlock()
        with self._state.begin() as connection:
            cutover.came_to(connection, self._settings.name, run, Outcome.DONE, self._report.freeze_seconds or None)

    def give_back(self, run: int, why: str) -> bool:
        """End a run that has not switched: applications go on where they were. False: it has switched.

        Raises ServerError; then it is to be called again.
        """
        name = self._settings.name
        with self._state.begin() as connection:
            if cutover.lock(connection, name, run) is not Outcome.RUNNING:
                return cutover.lock(connection, name, run) is Outcome.ABORTED
        self._blocks.give_back()
        with self._state.begin() as connection:
            if cutover.lock(connection, name, run) is Outcome.RUNNING:
                switch.put(connection, name, self._side, Writes.OPEN)
                cutover.write(connection, name, run, "give back", Stage.DONE, why)
                cutover.came_to(connection, name, run, Outcome.ABORTED)
        return True

    def _freeze(self, changed: ChangedKeys, offsets: dict[Partition, int], moving: Keys) -> None:
        with self._step("stop writes"):
            self._blocks.stop()
        with self._step("lock"):
            self._lock()
        with self._step("drain"):
            self._drain(self._left())
        with self._step("compare"):
            keys = self._since(changed, offsets, moving)
            self._report.keys = len(keys)
            changed.compare(keys)
        with self._step("switch"):
            self._left()
            for server in self._servers:
                server.still_locked()
            self._switch()

    # -- steps

    def _check(self) -> None:
        with self._state.connect() as connection:
            now = switch.get(connection, self._settings.name)
        if now.side is not self._side:
            other = "rollback" if self._direction is Direction.THERE else "cutover"
            raise PreflightError(
                f"applications are at the {now.side} already (version {now.version} of the switch)",
                hint=f"the way back is `migrate {other}`",
            )
        problems = readiness.problems(self._stream, self._state, self._plan, self._settings.cutover.max_lag_seconds)
        problems += [
            f"{'the way back' if self._direction is Direction.THERE else 'the way there'}: {one}"
            for one in readiness.problems(self._other, self._state, None, self._settings.cutover.max_lag_seconds)
        ]
        with self._state.connect() as connection:
            if not compared.load(connection, self._stream.name):
                problems.append("no clean verification of all tables since rows came by another way than the stream")
        if problems:
            more = "".join(f"\n  - {one}" for one in problems[1:])
            raise PreflightError(
                f"not ready: {problems[0]}{more}", hint="`migrate status` says more; mend it, and again"
            )
        self._blocks.probe()

    @contextmanager
    def _changed(self) -> Iterator[ChangedKeys]:
        changed = ChangedKeys(self._stream, self._state, self._plan, self._settings.cutover.max_keys)
        try:
            yield changed
        finally:
            changed.close()

    def _catch_up(self, changed: ChangedKeys) -> tuple[dict[Partition, int], Keys]:
        """Compare what changed since it was compared last, until little is left; returns up to where, and the keys that
        kept changing."""
        with self._state.connect() as connection:
            offsets = compared.load(connection, self._stream.name)
        moving = Keys()
        for _ in range(_ROUNDS):
            with self._state.connect() as connection:
                ends = consumed(connection, self._stream.name)
            keys = changed.read(offsets, ends)
            keys.merge(moving)
            self._say(f"{counted(len(keys), 'key')} changed since they were compared last")
            moving = changed.settle(keys, self._say) if len(keys) else Keys()
            offsets = ends
            if not len(moving):
                with self._state.begin() as connection:
                    compared.note(connection, self._stream.name, offsets)
            if len(keys) <= self._settings.cutover.max_keys_frozen:
                return offsets, moving
        raise PreflightError(
            f"between two looks more than {self._settings.cutover.max_keys_frozen:,} keys change",
            hint="at a quieter time; or raise cutover.max_keys_frozen and cutover.freeze_seconds",
        )

    def _hurry(self) -> None:
        seconds = self._settings.cutover.freeze_seconds + 2 * _NOTICED
        with self._state.begin() as connection:
            migrations.hurry(connection, self._stream.name, seconds)
        time.sleep(_NOTICED)

    def _lock(self) -> None:
        """Every transaction that changed the tables is over; where the logs end then."""
        for server in self._servers:
            tables = [(id_[1], id_[2]) for id_ in self._plan.tables if id_[0] == server.name]

            def ended(sessions: list[Session], server: Server = server) -> None:
                for session in sessions:
                    self._say(f"{self._side} '{server.name}': ended {session}, which had an open transaction")

            wait = min(self._settings.cutover.wait_seconds, self._left())
            end = server.lock(tables, wait, ended)
            self._report.ends[server.name] = f"{end.at.file}:{end.at.pos}"

    def _drain(self, seconds: float) -> None:
        sources = [source.name for source in self._stream.sources]
        passing = Passing(self._stream, self._state, sources)
        if not settled(passing.passed, seconds, _POLL):
            raise ServerError(
                f"the stream did not come to the end of the log within {seconds:.1f} s",
                hint="`migrate status` says what holds it back",
            )
        if passing.gone:
            raise next(iter(passing.gone.values()))
        if left := readiness.left_behind(self._stream, self._plan):
            raise ServerError(left, hint="`migrate status` says more")

    def _since(self, changed: ChangedKeys, offsets: dict[Partition, int], moving: Keys) -> Keys:
        with self._state.connect() as connection:
            ends = consumed(connection, self._stream.name)
        keys = changed.read(offsets, ends)
        keys.merge(moving)
        return keys

    def _switch(self) -> None:
        name = self._settings.name
        with self._state.begin() as connection:
            if cutover.lock(connection, name, self._report.run) is not Outcome.RUNNING:
                raise ServerError("this run was ended meanwhile by another `migrate cutover`")
            held = cutover.blocked(connection, name, self._side.other)
            switch.put(connection, name, self._side.other, Writes.CLOSED if held else Writes.OPEN)
            cutover.came_to(connection, name, self._report.run, Outcome.SWITCHED)
            for settings in (self._stream, self._other):
                compared.note(connection, settings.name, consumed(connection, settings.name))

    def _abort(self, error: BaseException) -> None:
        why = error.message if isinstance(error, MigrateError) else type(error).__name__
        for server in self._servers:
            server.close()
        took = self.give_back(self._report.run, why)
        if took and isinstance(error, MigrateError):
            raise CutoverAborted(f"writes are given back: {why}", hint=error.hint) from error
        if not took:
            raise ServerError(
                f"it has switched, and the rest is to be done: {why}", hint="say the same again: it goes on from there"
            ) from error

    # -- the journal

    def _left(self) -> float:
        """Seconds that the freeze may still take. Raises ServerError when it is over."""
        left = self._stops_at - time.monotonic()
        if left <= 0:
            raise ServerError(
                f"the freeze took longer than {self._settings.cutover.freeze_seconds:g} s (cutover.freeze_seconds)",
                hint="`--rehearse` predicts it",
            )
        return left

    @contextmanager
    def _part(self, name: str) -> Iterator[None]:
        self._say(f"{STEPS.index(name) + 1 if name in STEPS else '-'}. {name}")
        began = time.monotonic()
        yield
        self._report.parts[name] = time.monotonic() - began

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        self._journal(name, Stage.BEGUN)
        try:
            with self._part(name):
                yield
        except BaseException as error:
            self._journal(name, Stage.FAILED, str(error) or type(error).__name__)
            raise
        self._journal(name, Stage.DONE)

    def _journal(self, step: str, stage: Stage, detail: str = "") -> None:
        try:
            with self._state.begin() as connection:
                cutover.write(connection, self._settings.name, self._report.run, step, stage, detail)
        except DBAPIError as error:
            if stage is not Stage.FAILED:
                raise
            log.warning("not noted in the journal", step=step, error=str(error.orig))


def _databases(plan: Plan) -> dict[str, set[str]]:
    """Of each source the databases with tables of a plan."""
    found: dict[str, set[str]] = {}
    for source, database, _ in plan.tables:
        found.setdefault(source, set()).add(database)
    return found
