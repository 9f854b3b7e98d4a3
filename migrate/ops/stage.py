"""Where a migration stands as a whole, what holds it back, and the command to type next (DESIGN §9)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import sqlalchemy as sa

from migrate.cutover import holding
from migrate.cutover.alone import LEASE
from migrate.cutover.reverse import SUFFIX, elsewhere
from migrate.delay.requeue import LEASE as REQUEUE
from migrate.model.words import counted
from migrate.ops import status
from migrate.ops.readiness import standing_in_the_way, to_be_verified
from migrate.ops.status import Status
from migrate.publish.publisher import lease_name
from migrate.scroll.throttle import Pace
from migrate.settings import Settings
from migrate.state import compared, cutover, halt, lease, phase, switch, verification
from migrate.state import migration as migrations
from migrate.state.cutover import Direction, Outcome, Run
from migrate.state.phase import Phase
from migrate.state.switch import Side
from migrate.verify.scheduled import PROCESS as CHECK


class Stage(StrEnum):
    CREATED = "created"  # nothing reads the sources yet
    CAPTURING = "capturing"  # changes are kept, and no table is copied
    COPYING = "copying"
    CATCHING_UP = "catching up"  # everything is copied, and not yet known to be equal
    VERIFIED = "verified"
    READY = "ready"  # and the way back runs
    SWITCHING = "switching"  # a cutover or rollback is under way, or was killed
    SWITCHED = "switched"  # applications are at the targets
    REVERSED = "reversed"  # they were, and are at the sources again
    FINISHED = "finished"


WATCH = "migrate status --watch"
"""Where nothing is to be done but to wait."""
_NOT_THERE = "the way back is not there"
_NOT_RUNNING = "the way back does not run"
_ON = (
    "it still runs, for as long as a rollback may be wanted; to end the migration, stop `migrate run` and"
    " `migrate --reverse run` first"
)


@dataclass(frozen=True, slots=True)
class Whole:
    """stage: where it stands; holds_back: why it does not go on by itself, each in a line; next: what to type."""

    stage: Stage
    holds_back: list[str]
    next: str


def whole(settings: Settings, state: sa.Engine, now: Status) -> Whole:
    """Of the migration itself; of a way back alone there is no stage."""
    found = _standing(settings, state, now)
    if found.stage is Stage.SWITCHING:
        return found
    with state.connect() as connection:
        side = switch.get(connection, settings.name).side
        left = [
            f"an earlier cutover may have left writes stopped at {side} '{block.server}': `migrate cutover --abort`"
            " gives them back"
            for block in cutover.blocked(connection, settings.name, side)
        ]
    next_ = "migrate cutover --abort" if left and found.stage is Stage.READY else found.next
    return Whole(found.stage, [*found.holds_back, *left], next_)


def _standing(settings: Settings, state: sa.Engine, now: Status) -> Whole:
    with state.connect() as connection:
        side = switch.get(connection, settings.name).side
        last = cutover.latest(connection, settings.name)
        done = cutover.latest(connection, settings.name, outcome=Outcome.DONE)
        verified = bool(compared.load(connection, settings.name))
        back = _way_back(connection, settings)
        followed = done is not None and _followed(connection, settings, done)
        running = [_running(connection, name) for name in (settings.name, settings.name + SUFFIX)]
    if last is not None and last.open:
        command = "cutover" if last.direction is Direction.THERE else "rollback"
        if last.outcome is Outcome.SWITCHED:
            told = f"run {last.number}, a {command}, has switched; the rest is to be done"
            return Whole(Stage.SWITCHING, [told], f"migrate {command}")
        told = f"run {last.number}, a {command}, is under way, or was killed: writes may be stopped"
        return Whole(Stage.SWITCHING, [told], f"migrate {command} --abort")
    problems, moved = standing_in_the_way(settings, now), elsewhere(settings, state)
    if side is Side.TARGET:
        opened = holding.ended(settings, state, Side.SOURCE)
        if followed and not any(running):
            return _ending(now, opened)
        held = [*problems, *opened, *moved, *back]
        stopped = followed and not running[1]  # as whoever ends it does first
        if (back or moved) and not stopped:
            return Whole(Stage.SWITCHED, held, _way_back_next(back, moved))
        if not followed:
            told = "not yet compared since the switch: whether the sources follow, as a rollback needs"
            return Whole(Stage.SWITCHED, [*held, told], "migrate --reverse verify")
        return Whole(Stage.SWITCHED, [*held, _ON], (running[0] and _missing(now)) or "migrate finish")
    stands = _before_ready(now, problems, verified=verified)
    if done is not None and done.direction is Direction.BACK:
        opened = holding.ended(settings, state, Side.TARGET)
        if stands is not None:
            return Whole(Stage.REVERSED, [*stands.holds_back, *opened, *moved, *back], stands.next)
        return Whole(Stage.REVERSED, [*opened, *moved, *back], _way_back_next(back, moved) or "migrate cutover")
    if stands is not None:
        return stands
    if back or moved:
        return Whole(Stage.VERIFIED, [*moved, *back], _way_back_next(back, moved))
    return Whole(Stage.READY, [], "migrate cutover --rehearse")


def _ending(now: Status, opened: list[str]) -> Whole:
    """Both ways are stopped, and the sources followed: what `migrate finish` would refuse."""
    held, next_ = [*opened, *now.unanswered], "migrate finish"
    if now.parked:
        held.append(f"{now.parked} × change is parked")
        next_ = "migrate parked list"
    if now.waiting_messages:
        held.append(f"{counted(now.waiting_messages, 'message')} of changes at the sources never came to the targets")
        next_ = "migrate run"
    return Whole(Stage.SWITCHED, held, next_)


def _before_ready(now: Status, problems: list[str], *, verified: bool) -> Whole | None:
    """What is to be done until everything is known to be equal; None when it is."""
    if unread := [f"'{source.name}'" for source in now.sources if not source.published]:
        told = f"no publisher has begun with source {', '.join(unread)}"
        return Whole(Stage.CREATED, [told, *problems], _missing(now, behind=False) or WATCH)
    stages = now.tables
    waiting = [name for name, stage in stages.items() if stage == status.WAITING]
    left = [name for name, stage in stages.items() if stage in (Phase.CREATED.value, Phase.COPYING.value)]
    held = [f"{_listed(waiting)} added: a publisher that starts after `migrate init` takes it up"] if waiting else []
    if waiting or left:
        begun = any(stage not in (Phase.CREATED.value, status.WAITING) for stage in stages.values())
        if left and begun:
            held.append(f"{_listed(left)} not copied yet")
        next_ = _missing(now, behind=False) or (WATCH if waiting else "migrate copy")
        if paces := [now.copies[name]["pace"] for name in left if now.copies.get(name, {}).get("running")]:
            held.append("a copy runs: it is to be waited for; a second one would take its place")
            going = "migrate throttle --resume" if Pace.PAUSED in paces else WATCH
            next_ = _missing(now, behind=False) or going
        return Whole(Stage.COPYING if begun else Stage.CAPTURING, [*held, *problems], next_)
    if problems:
        return Whole(Stage.CATCHING_UP, problems, _mend(now, problems))
    if not verified:
        told = "no verification of all tables was clean since rows came by another way than the stream"
        return Whole(Stage.CATCHING_UP, [told], "migrate verify")
    return None


def _mend(now: Status, problems: list[str]) -> str:
    """The command that mends what keeps copied tables from being at their target."""
    if missing := _missing(now):
        return missing
    if now.parked or now.skips or any(halt.is_partition(one["process"]) for one in now.halted):
        return "migrate parked list"
    rest = set(problems) - set(to_be_verified(now))
    if rest and all(line.startswith(f"{CHECK} stands still") for line in rest):
        return WATCH  # it tries again by itself
    if rest:
        return "migrate drain"
    # of a server in doubt it is for a person to judge what differs
    return "migrate verify" if any(source.doubt for source in now.sources) else "migrate verify --repair"


def _missing(now: Status, *, behind: bool = True) -> str:
    """The command that starts what does not run; "" when nothing is missing. behind: also what is behind the topic."""
    lacking = [f"publish --source {one.name}" for one in now.sources if lease_name(one.name) not in now.leading]
    owners = [part.owner for part in now.partitions]
    if behind:
        working = {*now.leading, *(("consume",) if all(owners) else ())}
        needed = ["consume", *([REQUEUE] if now.empty_deletes else ()), *(one["process"] for one in now.halted)]
        lacking += [name for name in needed if ":" not in name and name not in working]
    if not lacking:
        return ""
    if now.ended:  # `migrate run` starts it again, by itself
        return "migrate preflight"
    return f"migrate {lacking[0]}" if now.leading or any(owners) else "migrate run"


def _listed(names: list[str]) -> str:
    return f"{counted(len(names), 'table')} ({', '.join(names[:3])}{' …' if len(names) > 3 else ''})"


def _running(connection: sa.Connection, name: str) -> bool:
    """Whether a process of a way runs."""
    return bool(lease.holders(connection, name).keys() - {LEASE})


def _way_back_next(back: list[str], moved: list[str]) -> str:
    """The command that brings the way back to where a cutover needs it; "" when it is there."""
    return back_hint(back) if back else "migrate --reverse run" if moved else ""


def _way_back(connection: sa.Connection, settings: Settings) -> list[str]:
    """What the way back lacks, as far as the state tells."""
    name = settings.name + SUFFIX
    if migrations.find(connection, name) is None:
        return [_NOT_THERE]
    found = [f"the way back: {one.process} stands still: {one.reason}" for one in halt.every(connection, name)]
    leading = lease.holders(connection, name)
    known = migrations.get(connection, name)
    publishing = all(lease_name(source) in leading for source, _, _ in phase.every(connection, name))
    if not publishing or not all(part.lease in leading for part in known.partitions):
        found.append(_NOT_RUNNING)
    return found


def _followed(connection: sa.Connection, settings: Settings, switched: Run) -> bool:
    """Whether the way back was found without a difference since a switch, all tables of it."""
    found = verification.latest(connection, settings.name + SUFFIX)
    since = switched.finished
    if found is None or since is None or found.started < since or found.differences or found.in_motion:
        return False
    return bool((verification.certificate(connection, found.id) or {}).get("all_tables"))


def back_hint(missing: list[str]) -> str:
    """The command that brings the way back."""
    if missing == [_NOT_THERE]:
        return "migrate --reverse init"
    return "migrate --reverse run" if _NOT_RUNNING in missing else "migrate --reverse status"
