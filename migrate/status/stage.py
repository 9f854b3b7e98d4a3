"""Where a migration stands as a whole, what holds it back, and the command to type next.

`standing_of` decides by facts alone; `migrate.status.facts` asks for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from migrate.copy.throttle import Pace
from migrate.model.command import Command
from migrate.settings import Settings
from migrate.state.cutover import CutoverRun, Outcome, SwitchDirection
from migrate.state.switch import Side
from migrate.status import blockers
from migrate.status.blocker import (
    COPY,
    DRAIN,
    FOREIGN,
    PARKED,
    PREFLIGHT,
    REPAIR,
    RUN,
    VERIFY,
    WATCH,
    Blocker,
    Kind,
)
from migrate.status.next_step import mend, missing, typed
from migrate.status.reverse_stream import ReverseReadiness
from migrate.status.snapshot import Snapshot
from migrate.status.table_state import TableState

_VERIFY_BACK, _ABORT = Command.of("--reverse verify"), Command.of("cutover --abort")
_FINISH, _CUTOVER, _REHEARSE = Command.of("finish"), Command.of("cutover"), Command.of("cutover --rehearse")
_RESUME = Command.of("throttle --resume")
_IDLE = (Kind.NOT_THERE, Kind.NOT_RUNNING)


class Stage(StrEnum):
    CREATED = "created"  # nothing reads the sources yet
    CAPTURING = "capturing"  # changes are kept, and no table is copied
    COPYING = "copying"
    CATCHING_UP = "catching up"  # everything is copied, and not yet known to be equal
    VERIFIED = "verified"
    READY = "ready"  # and the reverse stream runs
    SWITCHING = "switching"  # a cutover or rollback is under way, or was killed
    SWITCHED = "switched"  # applications are at the targets
    REVERSED = "reversed"  # they were, and are at the sources again
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class StageFacts:
    """All that the stage follows from, at one time.

    now: of the stream there. side: where applications are. last: the last cutover or rollback; done: the last one that
    was done. stopped: servers of `side` whose writes an earlier cutover may have left stopped. writable: servers of the
    other side that are writable again. followed: the reverse stream was found equal since the switch. running: whether
    processes of the forward stream, and of the reverse stream, run. verified: all tables were found equal; too_old: why
    that is no ground for a cutover any more. triggers: that would fire for what the stream writes. unlike: tables of
    either side that cannot hold the rows of the other one.
    """

    settings: Settings
    now: Snapshot
    back: ReverseReadiness
    side: Side = Side.SOURCE
    last: CutoverRun | None = None
    done: CutoverRun | None = None
    stopped: Sequence[str] = ()
    writable: Sequence[str] = ()
    followed: bool = False
    running: tuple[bool, bool] = (True, True)
    verified: bool = False
    too_old: Blocker | None = None
    triggers: Sequence[str] = ()
    unlike: Sequence[Blocker] = ()


@dataclass(frozen=True, slots=True)
class StageStatus:
    """stage: where it stands; held: why it does not go on by itself; next: what to type, None where nothing is.
    reverse: the reverse stream's snapshot, where it was asked for. back_leads: whether applications are at the targets.
    """

    stage: Stage
    held: list[Blocker]
    next: Command | None
    reverse: Snapshot | None = field(default=None, compare=False)
    back_leads: bool = field(default=False, compare=False)


def standing_of(known: StageFacts) -> StageStatus:
    """Of the migration itself; of a reverse stream alone there is no stage. Asks nobody."""
    if known.last is not None and known.last.open:
        return _switching(known.last)
    found = (_at_target if known.side is Side.TARGET else _at_source)(known)
    left = [Blocker(Kind.WRITES_STOPPED, server, {"side": known.side.value}, _ABORT) for server in known.stopped]
    next_ = _ABORT if left else found.next  # applications may be kept from writing where they are
    return StageStatus(found.stage, [*found.held, *left], next_)


def _switching(run: CutoverRun) -> StageStatus:
    command = "cutover" if run.direction is SwitchDirection.TO_TARGETS else "rollback"
    switched = run.outcome is Outcome.SWITCHED
    next_ = Command.of(command if switched else f"{command} --abort")
    kind = Kind.RUN_SWITCHED if switched else Kind.RUN_OPEN
    return StageStatus(
        Stage.SWITCHING, [Blocker(kind, facts={"run": run.number, "command": command}, remedy=next_)], next_
    )


def _at_target(known: StageFacts) -> StageStatus:
    """While applications are there."""
    now, back, opened = known.now, known.back, _opened(known)
    there_runs, back_runs = known.running
    if known.followed and not there_runs and not back_runs:
        return _ending(now, opened)
    problems = blockers.of_stream(known.settings, now)
    behind = [replace(one, kind=Kind.NOT_CARRYING) if one.kind in _IDLE else one for one in back.held]
    held = [*problems, *opened, *behind]
    if back.next is not None:
        return StageStatus(Stage.SWITCHED, held, back.next)
    if not known.followed and now.foreign:
        return StageStatus(Stage.SWITCHED, held, FOREIGN)
    if not known.followed:
        return StageStatus(Stage.SWITCHED, [*held, Blocker(Kind.NOT_FOLLOWED, remedy=_VERIFY_BACK)], _VERIFY_BACK)
    mends = typed(mend(now, problems), back=False, back_leads=True) if there_runs and problems else None
    return StageStatus(Stage.SWITCHED, [*held, Blocker(Kind.STILL_RUNS, remedy=_FINISH)], mends or _FINISH)


def _at_source(known: StageFacts) -> StageStatus:
    """Before the switch, and after a rollback."""
    back, stands = known.back, _before_ready(known)
    if stands is not None and stands.next in (VERIFY, REPAIR) and known.triggers:
        fires = [Blocker(Kind.TRIGGER, facts={"reason": reason}, remedy=PREFLIGHT) for reason in known.triggers]
        stands = StageStatus(stands.stage, [*fires, *stands.held], PREFLIGHT)  # or it would differ again
    if known.unlike:  # a verification would name them, and a cutover refuse them
        held, next_ = ([], None) if stands is None else (stands.held, stands.next)
        first = next_ if next_ not in (None, DRAIN, WATCH, VERIFY, REPAIR) else known.unlike[0].remedy
        stands = StageStatus(Stage.CATCHING_UP if stands is None else stands.stage, [*known.unlike, *held], first)
    if known.done is not None and known.done.direction is SwitchDirection.TO_SOURCES:
        opened = _opened(known)
        if stands is not None:
            return StageStatus(Stage.REVERSED, [*stands.held, *opened, *back.held], stands.next)
        return StageStatus(Stage.REVERSED, [*opened, *back.held], back.next or _CUTOVER)
    if stands is not None:
        return stands
    if back.next is not None:
        return StageStatus(Stage.VERIFIED, back.held, back.next)
    return StageStatus(Stage.READY, [], _REHEARSE)


def _opened(known: StageFacts) -> list[Blocker]:
    """Servers of the side that applications have left, and that are writable again."""
    left = Side.SOURCE if known.side is Side.TARGET else Side.TARGET
    return [Blocker(Kind.WRITABLE_AGAIN, server, {"side": left.value}) for server in known.writable]


def _ending(now: Snapshot, opened: list[Blocker]) -> StageStatus:
    """Both ways are stopped, and the sources followed: what `migrate finish` would refuse."""
    held, next_ = [*opened, *blockers.no_answer(now)], _FINISH
    if now.parked:
        held.append(Blocker(Kind.PARKED, facts={"count": now.parked}, remedy=PARKED))
        next_ = PARKED
    if now.foreign:
        held += blockers.of_foreign(now)
        next_ = FOREIGN
    if now.waiting_messages:
        held.append(Blocker(Kind.NEVER_APPLIED, facts={"count": now.waiting_messages}, remedy=RUN))
        next_ = RUN
    return StageStatus(Stage.SWITCHED, held, next_)


def _before_ready(known: StageFacts) -> StageStatus | None:
    """What is to be done until everything is known to be equal; None when it is."""
    now, back = known.now, known.back
    problems = blockers.of_stream(known.settings, now)
    if any(not source.published for source in now.sources):
        return StageStatus(Stage.CREATED, problems, missing(now, behind=False) or WATCH)
    if any(state.is_added or state.is_to_be_copied for state in now.tables.values()):
        return _copying(now, problems)
    if problems:
        return StageStatus(Stage.CATCHING_UP, problems, mend(now, problems))
    unverified = known.too_old if known.verified else Blocker(Kind.UNVERIFIED, facts={**now.forgotten})
    if unverified is None:
        return None
    unverified = replace(unverified, remedy=VERIFY)
    if back.begins:  # a verification from before that stream reads would not count
        return StageStatus(Stage.CATCHING_UP, [unverified, *back.held], back.next)
    return StageStatus(Stage.CATCHING_UP, [unverified], VERIFY)


def _copying(now: Snapshot, problems: list[Blocker]) -> StageStatus:
    """While tables are to be taken up by a publisher, or to be copied."""
    waiting, joining = _in(now, TableState.WAITING), _in(now, TableState.JOINING)
    left = _in(now, TableState.CREATED, TableState.COPYING)
    start, held = missing(now, behind=False), []
    if waiting:
        facts = {"tables": waiting, "starts": start is not None, "reverse": False}
        held.append(Blocker(Kind.ADDED_WAITING, facts=facts, remedy=RUN))
    if joining:
        held.append(Blocker(Kind.ADDED_JOINING, facts={"tables": joining}, remedy=WATCH))
    begun = any(state is not TableState.CREATED and not state.is_added for state in now.tables.values())
    if left and begun:
        held.append(Blocker(Kind.NOT_COPIED, facts={"tables": left}, remedy=COPY))
    next_ = start or (RUN if waiting else WATCH if joining else COPY)
    if paces := [now.copies[name]["pace"] for name in left if now.copies.get(name, {}).get("running")]:
        going = _RESUME if Pace.PAUSED in paces else WATCH
        held.append(Blocker(Kind.COPY_RUNS, remedy=going))
        next_ = start or going
    return StageStatus(Stage.COPYING if begun else Stage.CAPTURING, [*held, *problems], next_)


def _in(now: Snapshot, *states: TableState) -> list[str]:
    """The names of tables that are in one of these states."""
    return [name for name, state in now.tables.items() if state in states]
