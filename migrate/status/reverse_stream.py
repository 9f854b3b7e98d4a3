"""What the reverse stream lacks of what a cutover, or a rollback, needs, and the command to type for it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

import sqlalchemy as sa

from migrate.cutover.reverse_settings import SUFFIX, MovedSource, moved, reversed_settings
from migrate.model import process_names
from migrate.model.command import Command, Direction
from migrate.model.errors import ConfigError, PreflightError
from migrate.settings import Settings
from migrate.state import leading, lease, stop_reason
from migrate.state import migration as migrations
from migrate.status import blockers, snapshot_reading
from migrate.status.blocker import COPY, INIT, PREFLIGHT, RUN, WATCH, Blocker, Kind
from migrate.status.next_step import mend, missing, typed
from migrate.status.snapshot import Snapshot
from migrate.status.table_state import TableState
from migrate.target.stored_plan import stored_plan

_INIT, _RUN = INIT.towards(Direction.REVERSE), RUN.towards(Direction.REVERSE)
_BEGIN = (_INIT, _RUN)
"""What makes the reverse stream begin to read."""


@dataclass(frozen=True, slots=True)
class ReverseFacts:
    """What is known of the reverse stream, as far as it was asked.

    refused: why the config has none; outdated: why the stored one is not that of the config. there: `init` made it.
    now: None where nothing of it runs.
    """

    moved: Sequence[MovedSource] = ()
    stopped: Sequence[stop_reason.StopReason] = ()
    refused: ConfigError | None = None
    outdated: str = ""
    there: bool = False
    leads: bool = False
    running: bool = False
    now: Snapshot | None = None
    settings: Settings | None = None


@dataclass(frozen=True, slots=True)
class ReverseReadiness:
    """held: what it lacks. next: what to type; None when it lacks nothing. now: what that follows from, where its
    servers were asked."""

    held: list[Blocker]
    next: Command | None
    now: Snapshot | None = field(default=None, compare=False)

    @property
    def begins(self) -> bool:
        """Whether its stream has yet to begin to read: what is verified before that does not count."""
        return self.next in _BEGIN or any(one.kind is Kind.NOT_BEGUN for one in self.held)


def look(settings: Settings, state: sa.Engine) -> ReverseReadiness:
    """settings: of the forward stream. Its servers are asked only once it runs. Raises ServerError."""
    known = read(settings, state)
    return replace(judge(known), now=known.now)


def read(settings: Settings, state: sa.Engine) -> ReverseFacts:
    """As `look`: the facts alone."""
    name = settings.name + SUFFIX
    away = moved(settings, state)
    with state.connect() as connection:
        there = migrations.find(connection, name) is not None
        leads = leading.leads(connection, name)
        stopped = stop_reason.every(connection, name)
    try:
        back = reversed_settings(settings, stored_plan(settings, state))
    except ConfigError as error:  # every command of the reverse stream would refuse it too
        return ReverseFacts(away, stopped, refused=error)
    if not there:
        return ReverseFacts(away, stopped)
    try:
        plan = stored_plan(back, state)
    except (ConfigError, PreflightError) as error:  # tables came or went
        return ReverseFacts(away, stopped, outdated=error.message)
    with state.connect() as connection:
        running = _runs(connection, name, {id_[0] for id_ in plan.tables})
    now = snapshot_reading.read(back, state, plan=plan, whoever_answers=True) if running and not away else None
    return ReverseFacts(away, stopped, there=True, leads=leads, running=running, now=now, settings=back)


def judge(known: ReverseFacts) -> ReverseReadiness:
    """What facts mean. Asks nobody."""
    away = of_moved(known.moved)
    still = [Blocker(Kind.STOPPED, one.process, {"reason": one.reason, "code": one.code}) for one in known.stopped]
    if known.refused is not None:
        why = {"reason": known.refused.message, "way_out": known.refused.hint}
        return ReverseReadiness([*away, *_of_it([Blocker(Kind.REFUSED, facts=why)])], PREFLIGHT)
    if known.outdated:
        return ReverseReadiness(
            [*away, *_of_it([Blocker(Kind.REFUSED, facts={"reason": known.outdated, "way_out": ""})])], _INIT
        )
    if not known.there:
        return ReverseReadiness([*away, Blocker(Kind.NOT_THERE)], _INIT)
    if not known.running:  # of a part of it that does not run, that part is named below
        return ReverseReadiness([*away, *_of_it(still), Blocker(Kind.NOT_RUNNING)], _RUN)
    if known.now is None or known.settings is None:
        return ReverseReadiness([*away, *_of_it(still)], _RUN)
    return _of_stream(known.settings, known.now, leads=known.leads)


def of_moved(found: Sequence[MovedSource]) -> list[Blocker]:
    return [Blocker(Kind.SOURCE_MOVED, one.source, {"read": one.read, "written": one.written}) for one in found]


def _of_stream(settings: Settings, now: Snapshot, *, leads: bool) -> ReverseReadiness:
    stages = now.tables.items()
    if waiting := [name for name, stage in stages if stage is TableState.WAITING]:
        told = Blocker(Kind.ADDED_WAITING, facts={"tables": waiting, "reverse": True})
        return ReverseReadiness(_of_it([told]), _RUN)
    if joining := [name for name, stage in stages if stage is TableState.JOINING]:
        next_ = typed(WATCH, back=True, back_leads=leads)
        return ReverseReadiness(_of_it([Blocker(Kind.ADDED_JOINING, facts={"tables": joining})]), next_)
    if left := [name for name, stage in stages if stage.is_to_be_copied]:
        next_ = COPY.towards(Direction.REVERSE) if leads else _INIT
        return ReverseReadiness(_of_it([Blocker(Kind.NOT_COPIED, facts={"tables": left})]), next_)
    held = blockers.of_stream(settings, now)
    if any(one.kind is Kind.NOT_BEGUN for one in held):
        starts = missing(now, behind=False) or WATCH
        return ReverseReadiness(_of_it(held), typed(starts, back=True, back_leads=leads))
    return ReverseReadiness(_of_it(held), typed(mend(now, held), back=True, back_leads=leads) if held else None)


def _of_it(held: Sequence[Blocker]) -> list[Blocker]:
    return [one.towards(Direction.REVERSE) for one in held]


def _runs(connection: sa.Connection, name: str, sources: Collection[str]) -> bool:
    """Whether any of its publishers and consumers runs."""
    holders = lease.holders(connection, name)
    wanted = {
        *map(process_names.publisher, sources),
        *(part.lease for part in migrations.get(connection, name).partitions),
    }
    return not wanted.isdisjoint(holders)
