"""Where a migration stands as a whole, what holds it back, and the command to type next (DESIGN §9)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import sqlalchemy as sa

from migrate.copy.throttle import Pace
from migrate.cutover import write_access
from migrate.cutover.lock import LEASE
from migrate.cutover.reverse_settings import SUFFIX
from migrate.model.words import counted
from migrate.settings import Settings
from migrate.state import compared, cutover, lease, switch, verification
from migrate.state.cutover import Direction, Outcome, Run
from migrate.state.phase import Phase
from migrate.state.switch import Side
from migrate.status import late_triggers, snapshot, way_back
from migrate.status.next_step import FOREIGN, WATCH, mend, missing, tables, typed
from migrate.status.readiness import foreign_listed, standing_in_the_way, too_old
from migrate.status.snapshot import Status
from migrate.status.way_back import BEGIN, WayBack


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


_UNVERIFIED = f"no verification of all tables was clean since {compared.FORGOTTEN}"
_VERIFIES = ("migrate verify", "migrate verify --repair")
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
    """Of the migration itself; of a way back alone there is no stage. Raises ServerError of the state server."""
    name = settings.name
    with state.connect() as connection:
        side = switch.get(connection, name).side
        last = cutover.latest(connection, name)
        stopped = cutover.blocked(connection, name, side)
    if last is not None and last.open:
        command = "cutover" if last.direction is Direction.THERE else "rollback"
        if last.outcome is Outcome.SWITCHED:
            told = f"run {last.number}, a {command}, has switched; the rest is to be done"
            return Whole(Stage.SWITCHING, [told], f"migrate {command}")
        told = f"run {last.number}, a {command}, is under way, or was killed: writes may be stopped"
        return Whole(Stage.SWITCHING, [told], f"migrate {command} --abort")
    found = (_at_target if side is Side.TARGET else _at_source)(settings, state, now)
    left = [
        f"an earlier cutover may have left writes stopped at {side} '{block.server}': `migrate cutover --abort`"
        " gives them back"
        for block in stopped
    ]
    next_ = "migrate cutover --abort" if left else found.next  # applications may be kept from writing where they are
    return Whole(found.stage, [*found.holds_back, *left], next_)


def _at_target(settings: Settings, state: sa.Engine, now: Status) -> Whole:
    """While applications are there."""
    with state.connect() as connection:
        done = cutover.latest(connection, settings.name, outcome=Outcome.DONE)
        followed = done is not None and _followed(connection, settings, done)
        running = [_running(connection, name) for name in (settings.name, settings.name + SUFFIX)]
    opened = write_access.ended(settings, state, Side.SOURCE)
    if followed and not any(running):
        return _ending(now, opened)
    back, problems = way_back.look(settings, state), standing_in_the_way(settings, now)
    held = [*problems, *opened, *back.held]
    stopped = followed and not running[1]  # as whoever ends it does first
    if back.next and not stopped:
        return Whole(Stage.SWITCHED, held, back.next)
    if not followed and now.foreign:
        return Whole(Stage.SWITCHED, held, FOREIGN)
    if not followed:
        told = "not known to be equal since the switch: whether the sources follow, as a rollback needs"
        return Whole(Stage.SWITCHED, [*held, told], "migrate --reverse verify")
    next_ = typed(mend(now, problems), back=False, back_leads=True) if running[0] and problems else ""
    return Whole(Stage.SWITCHED, [*held, _ON], next_ or "migrate finish")


def _at_source(settings: Settings, state: sa.Engine, now: Status) -> Whole:
    """Before the switch, and after a rollback."""
    with state.connect() as connection:
        done = cutover.latest(connection, settings.name, outcome=Outcome.DONE)
        verified = bool(compared.load(connection, settings.name))
        old = too_old(connection, settings) if verified else ""
    unverified = old if verified else _UNVERIFIED
    back = way_back.look(settings, state)
    stands = _before_ready(now, standing_in_the_way(settings, now), unverified, back)
    if stands is not None and stands.next in _VERIFIES and (fires := late_triggers.named(state, settings)):
        stands = Whole(stands.stage, [*fires, *stands.holds_back], "migrate preflight")  # or it would differ again
    if done is not None and done.direction is Direction.BACK:
        opened = write_access.ended(settings, state, Side.TARGET)
        if stands is not None:
            return Whole(Stage.REVERSED, [*stands.holds_back, *opened, *back.held], stands.next)
        return Whole(Stage.REVERSED, [*opened, *back.held], back.next or "migrate cutover")
    if stands is not None:
        return stands
    if back.next:
        return Whole(Stage.VERIFIED, back.held, back.next)
    return Whole(Stage.READY, [], "migrate cutover --rehearse")


def _ending(now: Status, opened: list[str]) -> Whole:
    """Both ways are stopped, and the sources followed: what `migrate finish` would refuse."""
    held, next_ = [*opened, *now.unanswered], "migrate finish"
    if now.parked:
        held.append(f"{now.parked} × change is parked")
        next_ = "migrate parked list"
    if now.foreign:
        held.append(foreign_listed(now.foreign))
        next_ = FOREIGN
    if now.waiting_messages:
        held.append(f"{counted(now.waiting_messages, 'message')} of changes at the sources never came to the targets")
        next_ = "migrate run"
    return Whole(Stage.SWITCHED, held, next_)


def _before_ready(now: Status, problems: list[str], unverified: str, back: WayBack) -> Whole | None:
    """What is to be done until everything is known to be equal; None when it is. unverified: why it is not, or ""."""
    if any(not source.published for source in now.sources):
        return Whole(Stage.CREATED, problems, missing(now, behind=False) or WATCH)
    stages = now.tables
    waiting = [name for name, stage in stages.items() if stage == snapshot.WAITING]
    joining = [name for name, stage in stages.items() if stage == snapshot.JOINING]
    left = [name for name, stage in stages.items() if stage in (Phase.CREATED.value, Phase.COPYING.value)]
    start, held = missing(now, behind=False), []
    if waiting:
        anew = "" if start else "; one that began before it is to be started again"
        held.append(f"{tables(waiting)} added: a publisher that starts after `migrate init` takes it up{anew}")
    if joining:
        held.append(f"{tables(joining)} added: the publisher is to come to its place in the log")
    if waiting or joining or left:
        begun = any(stage not in (Phase.CREATED.value, snapshot.WAITING, snapshot.JOINING) for stage in stages.values())
        if left and begun:
            held.append(f"{tables(left)} not copied yet")
        next_ = start or ("migrate run" if waiting else WATCH if joining else "migrate copy")
        if paces := [now.copies[name]["pace"] for name in left if now.copies.get(name, {}).get("running")]:
            held.append("a copy runs: it is to be waited for; a second one would take its place")
            going = "migrate throttle --resume" if Pace.PAUSED in paces else WATCH
            next_ = start or going
        return Whole(Stage.COPYING if begun else Stage.CAPTURING, [*held, *problems], next_)
    if problems:
        return Whole(Stage.CATCHING_UP, problems, mend(now, problems))
    if unverified and back.next in BEGIN:  # a verification from before that stream reads would not count
        return Whole(Stage.CATCHING_UP, [unverified, *back.held], back.next)
    if unverified:
        return Whole(Stage.CATCHING_UP, [unverified], "migrate verify")
    return None


def _running(connection: sa.Connection, name: str) -> bool:
    """Whether a process of a way runs."""
    return bool(lease.holders(connection, name).keys() - {LEASE})


def _followed(connection: sa.Connection, settings: Settings, switched: Run) -> bool:
    """Whether the way back was found without a difference since a switch, all tables of it, and no row came by another
    way since."""
    if not compared.load(connection, settings.name + SUFFIX):
        return False
    found = verification.latest(connection, settings.name + SUFFIX)
    since = switched.finished
    if found is None or since is None or found.started < since or found.differences or found.in_motion:
        return False
    return bool((verification.certificate(connection, found.id) or {}).get("all_tables"))
