"""Tables that somebody altered alone, so that they cannot hold their rows as the other side has them: a verification
names them, and a cutover refuses them."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing

import sqlalchemy as sa

from migrate.cutover.reverse_settings import SUFFIX, reversed_settings
from migrate.model.command import Command, Direction
from migrate.model.errors import MigrateError
from migrate.settings import Settings
from migrate.state import migration as migrations
from migrate.state import position
from migrate.status.blocker import PREFLIGHT, Blocker, Kind
from migrate.target.pool import TargetPool
from migrate.target.routing import Plan
from migrate.target.stored_plan import stored_plan
from migrate.target.unlike_places import unlike_places

Named = Callable[[sa.Engine, Settings], list[Blocker]]
"""As `named`."""
_KEPT = 60.0


def kept(seconds: float = _KEPT) -> Named:
    """As `named`, of who looks again and again: its answer is given again for so long, as every table of every database
    is asked about."""
    found: list[Blocker] = []
    until = 0.0

    def look(state: sa.Engine, settings: Settings) -> list[Blocker]:
        nonlocal found, until
        if time.monotonic() >= until:
            found = named(state, settings)
            until = time.monotonic() + seconds
        return found

    return look


def named(state: sa.Engine, settings: Settings) -> list[Blocker]:
    """Of a migration and its reverse stream, where that is there; nothing of a stream whose servers do not all say."""
    try:
        plan = stored_plan(settings, state)
    except MigrateError:
        return []
    found = _of_stream(state, settings, plan, PREFLIGHT)
    with state.connect() as connection:
        if migrations.find(connection, settings.name + SUFFIX) is None:
            return found
    try:
        back = reversed_settings(settings, plan)
        other = stored_plan(back, state)
    except MigrateError:  # what is wrong with it is named by itself
        return found
    behind = _of_stream(state, back, other, PREFLIGHT.towards(Direction.REVERSE))
    return [*found, *(one.towards(Direction.REVERSE) for one in behind)]


def _of_stream(state: sa.Engine, stream: Settings, plan: Plan, remedy: Command) -> list[Blocker]:
    try:
        with closing(TargetPool(stream)) as pool:
            places = unlike_places(position.where_read(state, stream), pool, list(plan.tables.values()))
    except MigrateError:  # a server that does not answer is named already
        return []
    return [
        Blocker(Kind.UNLIKE, ".".join(id_[1:]), {"reason": reason}, remedy)
        for id_, some in places.items()
        for reason in some
    ]
