"""What keeps a cutover, or a rollback, from beginning: all of it at once."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import closing

import sqlalchemy as sa

from migrate.cutover import unfollowed_cascades
from migrate.cutover.left_server import Server
from migrate.cutover.reverse_settings import elsewhere
from migrate.model.errors import PreflightError
from migrate.settings import Settings
from migrate.state import compared, switch
from migrate.state.cutover import Direction
from migrate.state.switch import Side
from migrate.status import readiness
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
            hint=f"the way back is `migrate {'rollback' if side is Side.SOURCE else 'cutover'}`",
        )


def refuse_unready(
    settings: Settings,
    state: sa.Engine,
    direction: Direction,
    streams: tuple[Settings, Settings],
    plan: Plan,
    servers: Sequence[Server],
    without: Collection[str],
) -> None:
    """Raise PreflightError for everything that is not ready; ServerError.

    settings: of the way there. streams: to the side that is entered, and from it; plan: of the first. servers: of the
    side that is left, without those that are gone (`without`).
    """
    stream, other = streams
    lag = settings.cutover.max_lag_seconds
    problems = readiness.problems(stream, state, plan, lag, without, PATIENCE)
    problems += elsewhere(settings, state)
    problems += unfollowed_cascades.left_out(servers, plan, settings.cutover)
    problems += _unlike(stream, plan, without)
    if not without:
        way = "the way back" if direction is Direction.THERE else "the way there"
        others = readiness.problems(other, state, None, lag, patience_seconds=PATIENCE)
        others += _unlike(other, stored_plan(other, state))
        problems += [f"{way}: {one}" for one in others]
        with state.connect() as connection:
            if not compared.load(connection, stream.name):
                problems.append(f"no clean verification of all tables since {compared.FORGOTTEN}")
            elif direction is Direction.THERE and (old := readiness.too_old(connection, settings)):
                problems.append(old)
    if problems:
        more = "".join(f"\n  - {one}" for one in problems[1:])
        raise PreflightError(
            f"not ready: {problems[0]}{more}",
            hint=f"`migrate {'' if direction is Direction.THERE else '--reverse '}status` says more; mend it,"
            " and again",
        )


def _unlike(stream: Settings, plan: Plan, without: Collection[str] = ()) -> list[str]:
    """Places of a stream that cannot hold their rows as they are. Raises ServerError."""
    with closing(TargetPool(stream)) as pool:
        found = unlike_places(stream, pool, list(plan.tables.values()), without)
    return [told for some in found.values() for told in some]
