"""What keeps a cutover, or a rollback, from beginning: all of it at once."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import closing

import sqlalchemy as sa

from migrate.cutover import unfollowed_cascades
from migrate.cutover.left_server import LeftServer
from migrate.cutover.reverse_settings import moved
from migrate.model.command import Direction
from migrate.model.errors import PreflightError
from migrate.settings import Settings
from migrate.state import compared, cutover, switch
from migrate.state.switch import Side
from migrate.status import readiness, reverse_stream, snapshot_reading, told
from migrate.status.blocker import VERIFY, Blocker, Kind
from migrate.target.pool import TargetPool
from migrate.target.routing import Plan
from migrate.target.stored_plan import stored_plan
from migrate.target.unlike_places import unlike_places

PATIENCE = 5.0  # seconds that a stream may be behind, once it hurries


def refuse_elsewhere(state: sa.Engine, migration: str, side: Side) -> None:
    """Raise PreflightError when applications are not at the side that is to be left."""
    with state.connect() as connection:
        now = switch.get(connection, migration)
    if now.side is not side:
        raise PreflightError(
            f"applications are at the {now.side} already (version {now.version} of the switch)",
            hint=f"`migrate {'rollback' if side is Side.SOURCE else 'cutover'}` moves them back",
        )


def refuse_unready(
    settings: Settings,
    state: sa.Engine,
    direction: cutover.SwitchDirection,
    streams: tuple[Settings, Settings],
    plan: Plan,
    servers: Sequence[LeftServer],
    without: Collection[str],
) -> None:
    """Raise PreflightError for everything that is not ready; ServerError.

    settings: of the forward stream. streams: to the side that is entered, and from it; plan: of the first. servers: of
    the side that is left, without those that are gone (`without`).
    """
    stream, other = streams
    there = cutover.SwitchDirection.TO_TARGETS
    lag = settings.cutover.max_lag_seconds
    held = readiness.problems(stream, state, plan, lag, without, PATIENCE)
    held += reverse_stream.of_moved(moved(settings, state))
    held += [
        Blocker(Kind.CASCADES, facts={"reason": reason})
        for reason in unfollowed_cascades.left_out(servers, plan, settings.cutover)
    ]
    if _all_answer(held):
        held += _unlike(stream, plan, without)
    if not without:
        way = Direction.REVERSE if direction is there else Direction.FORWARD
        others = readiness.problems(other, state, None, lag, patience_seconds=PATIENCE)
        if _all_answer(others):
            others += _unlike(other, stored_plan(other, state))
        held += [one.towards(way) for one in others]
        with state.connect() as connection:
            if not compared.load(connection, stream.name):
                why = snapshot_reading.why_nothing_counts(connection, stream.name)
                held.append(Blocker(Kind.UNVERIFIED, facts=why, remedy=VERIFY))
            elif direction is there and (old := readiness.too_old(connection, settings)):
                held.append(old)
    if held:
        lines = "\n  - ".join(map(told.told, held))
        raise PreflightError(
            f"not ready: {lines}",
            hint=f"`migrate {'' if direction is there else '--reverse '}status` says more; fix it, then try again",
        )


def _all_answer(held: Sequence[Blocker]) -> bool:
    """Servers that do not are named, and nothing more is asked of them."""
    return not any(one.kind in (Kind.SOURCE_UNREACHABLE, Kind.NO_ANSWER) for one in held)


def _unlike(stream: Settings, plan: Plan, without: Collection[str] = ()) -> list[Blocker]:
    """Places of a stream that cannot hold their rows as they are. Raises ServerError."""
    with closing(TargetPool(stream)) as pool:
        found = unlike_places(stream, pool, list(plan.tables.values()), without)
    return [Blocker(Kind.UNLIKE, facts={"reason": reason}) for some in found.values() for reason in some]
