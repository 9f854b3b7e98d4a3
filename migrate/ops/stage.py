"""Where a migration stands as a whole, what holds it back, and the command to type next (DESIGN §9)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import sqlalchemy as sa

from migrate.cutover import holding
from migrate.cutover.reverse import SUFFIX
from migrate.model.words import counted
from migrate.ops.readiness import standing_in_the_way
from migrate.ops.status import Status
from migrate.publish.publisher import lease_name
from migrate.settings import Settings
from migrate.state import compared, cutover, halt, lease, phase, switch, verification
from migrate.state import migration as migrations
from migrate.state.cutover import Direction, Outcome, Run
from migrate.state.phase import Phase
from migrate.state.switch import Side


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


@dataclass(frozen=True, slots=True)
class Whole:
    """stage: where it stands; holds_back: why it does not go on by itself, each in a line; next: what to type."""

    stage: Stage
    holds_back: list[str]
    next: str


def whole(settings: Settings, state: sa.Engine, now: Status) -> Whole:
    """Of the migration itself; of a way back alone there is no stage."""
    with state.connect() as connection:
        side = switch.get(connection, settings.name).side
        last = cutover.latest(connection, settings.name)
        done = cutover.latest(connection, settings.name, outcome=Outcome.DONE)
        verified = bool(compared.load(connection, settings.name))
        back = _way_back(connection, settings)
        followed = done is not None and _followed(connection, settings, done)
    problems = standing_in_the_way(settings, now)
    if last is not None and last.open:
        command = "cutover" if last.direction is Direction.THERE else "rollback"
        if last.outcome is Outcome.SWITCHED:
            told = f"run {last.number}, a {command}, has switched; the rest is to be done"
            return Whole(Stage.SWITCHING, [told], f"migrate {command}")
        told = f"run {last.number}, a {command}, is under way, or was killed: writes may be stopped"
        return Whole(Stage.SWITCHING, [told], f"migrate {command} --abort")
    if side is Side.TARGET:
        problems += holding.ended(settings, state, Side.SOURCE)
        if back:
            return Whole(Stage.SWITCHED, [*problems, *back], back_hint(back))
        if not followed:
            told = "not yet compared since the switch: whether the sources follow, as a rollback needs"
            return Whole(Stage.SWITCHED, [*problems, told], "migrate --reverse verify")
        return Whole(Stage.SWITCHED, problems, "migrate finish")
    before = _before_verified(now, problems)
    if before is not None:
        return before
    was_back = done is not None and done.direction is Direction.BACK
    if not verified:
        return Whole(
            Stage.CATCHING_UP,
            ["no verification of all tables was clean since rows came by another way than the stream"],
            "migrate verify",
        )
    if was_back:
        open_again = holding.ended(settings, state, Side.TARGET)
        return Whole(Stage.REVERSED, [*open_again, *back], "migrate cutover" if not back else back_hint(back))
    if back:
        return Whole(Stage.VERIFIED, back, back_hint(back))
    return Whole(Stage.READY, [], "migrate cutover --rehearse")


def _before_verified(now: Status, problems: list[str]) -> Whole | None:
    stages = list(now.tables.values())
    read = all(lease_name(source.name) in now.leading for source in now.sources)
    start = "migrate preflight" if now.ended else "migrate run"  # which starts again what ended, by itself
    if any(not source.published for source in now.sources):
        waiting = ", ".join(f"'{source.name}'" for source in now.sources if not source.published)
        return Whole(Stage.CREATED, [f"no publisher has begun with source {waiting}", *problems], start)
    if all(stage == Phase.CREATED.value for stage in stages):
        return Whole(Stage.CAPTURING, problems, "migrate copy" if read else start)
    left = [name for name, stage in now.tables.items() if stage in (Phase.CREATED.value, Phase.COPYING.value)]
    if left:
        told = f"{counted(len(left), 'table')} not copied yet: {', '.join(left[:3])}{' …' if len(left) > 3 else ''}"
        return Whole(Stage.COPYING, [told, *problems], "migrate copy" if read else start)
    if problems:
        doubt = any(source.doubt for source in now.sources)
        aside = now.parked or now.skips or now.left_out or any(halt.is_partition(one["process"]) for one in now.halted)
        mend = "migrate verify" if doubt and len(problems) == 1 else "migrate drain"
        mend = "migrate parked list" if aside else mend
        return Whole(Stage.CATCHING_UP, problems, mend if read else start)
    return None


def _way_back(connection: sa.Connection, settings: Settings) -> list[str]:
    """What the way back lacks, as far as the state tells."""
    name = settings.name + SUFFIX
    if migrations.find(connection, name) is None:
        return ["the way back is not there"]
    found = [f"the way back: {one.process} stands still: {one.reason}" for one in halt.every(connection, name)]
    leading = lease.holders(connection, name)
    known = migrations.get(connection, name)
    publishing = all(lease_name(source) in leading for source, _, _ in phase.every(connection, name))
    if not publishing or not all(part.lease in leading for part in known.partitions):
        found.append("the way back does not run")
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
    if missing == ["the way back is not there"]:
        return "migrate --reverse init"
    return "migrate --reverse run" if "the way back does not run" in missing else "migrate --reverse status"
