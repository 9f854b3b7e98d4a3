"""Asks for everything that the stage of a migration follows from: the state, and the servers where they matter."""

from __future__ import annotations

from dataclasses import replace

import sqlalchemy as sa

from migrate.cutover import write_access
from migrate.cutover.reverse_settings import SUFFIX
from migrate.model import process_names
from migrate.settings import Settings
from migrate.state import compared, cutover, lease, switch, verification
from migrate.state.cutover import Direction, Outcome, Run
from migrate.state.switch import Side
from migrate.status import late_triggers, unlike_tables, way_back
from migrate.status.blocker import REPAIR, VERIFY
from migrate.status.readiness import too_old
from migrate.status.snapshot import Snapshot
from migrate.status.stage import Facts, Stage, Standing, standing_of

_COMPARED = frozenset({Stage.CATCHING_UP, Stage.VERIFIED, Stage.READY, Stage.REVERSED})
"""Where tables are, or are about to be, verified: what they are is asked at every server."""


def standing(settings: Settings, state: sa.Engine, now: Snapshot) -> Standing:
    """Where a migration stands. now: of its stream there. Raises ServerError of the state server."""
    known = read(settings, state, now)
    found = standing_of(known)
    if found.next in (VERIFY, REPAIR):  # a trigger would make differences again; only then the targets are asked
        known = replace(known, triggers=late_triggers.named(state, settings))
        found = standing_of(known)
    if found.stage in _COMPARED:
        found = standing_of(replace(known, unlike=unlike_tables.named(state, settings)))
    return found


def read(settings: Settings, state: sa.Engine, now: Snapshot) -> Facts:
    """Without the triggers at the targets."""
    name = settings.name
    with state.connect() as connection:
        side = switch.get(connection, name).side
        last = cutover.latest(connection, name)
        done = cutover.latest(connection, name, outcome=Outcome.DONE)
        stopped = [block.server for block in cutover.blocked(connection, name, side)]
        verified = bool(compared.load(connection, name))
        there, back = (_running(connection, one) for one in (name, name + SUFFIX))
        followed = done is not None and _followed(connection, settings, done)
        known = Facts(
            settings,
            now,
            way_back.WayBack([], None),
            side,
            last,
            done,
            stopped,
            followed=followed,
            running=(there, back),
            verified=verified,
            too_old=too_old(connection, settings) if verified else None,
        )
    if last is not None and last.open:  # nothing else counts
        return known
    at_target = side is Side.TARGET
    was_left = at_target or (done is not None and done.direction is Direction.BACK)
    left = Side.SOURCE if at_target else Side.TARGET
    writable = write_access.ended(settings, state, left) if was_left else []
    ended = at_target and followed and not there and not back
    return replace(known, writable=writable, back=known.back if ended else way_back.look(settings, state))


def _running(connection: sa.Connection, name: str) -> bool:
    """Whether a process of a way runs."""
    return bool(lease.holders(connection, name).keys() - {process_names.CUTOVER})


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
