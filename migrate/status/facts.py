"""Asks for everything that the stage of a migration follows from: the state, and the servers where they matter."""

from __future__ import annotations

from dataclasses import replace

import sqlalchemy as sa

from migrate.cutover import write_access
from migrate.cutover.reverse_settings import SUFFIX
from migrate.model import process_names
from migrate.settings import Settings
from migrate.state import compared, cutover, lease, switch, verification
from migrate.state.cutover import CutoverRun, Outcome, SwitchDirection
from migrate.state.switch import Side
from migrate.status import late_triggers, reverse_stream, unlike_tables
from migrate.status.blocker import REPAIR, VERIFY
from migrate.status.readiness import too_old
from migrate.status.snapshot import Snapshot
from migrate.status.stage import Stage, StageFacts, StageStatus, standing_of
from migrate.status.unlike_tables import Named

_COMPARED = frozenset({Stage.CATCHING_UP, Stage.VERIFIED, Stage.READY, Stage.REVERSED})
"""Where tables are, or are about to be, verified: what they are is asked at every server."""


def standing(settings: Settings, state: sa.Engine, now: Snapshot, unlike: Named = unlike_tables.named) -> StageStatus:
    """Where a migration stands. now: of its forward stream; unlike: looks for tables that were altered alone. Raises
    ServerError of the state server."""
    known = read(settings, state, now)
    found = standing_of(known)
    if found.next in (VERIFY, REPAIR):  # a trigger would make differences again; only then the targets are asked
        known = replace(known, triggers=late_triggers.named(state, settings))
        found = standing_of(known)
    if found.stage in _COMPARED:
        found = standing_of(replace(known, unlike=unlike(state, settings)))
    return replace(found, reverse=known.back.now, back_leads=known.side is Side.TARGET)


def read(settings: Settings, state: sa.Engine, now: Snapshot) -> StageFacts:
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
        known = StageFacts(
            settings,
            now,
            reverse_stream.ReverseReadiness([], None),
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
    was_left = at_target or (done is not None and done.direction is SwitchDirection.TO_SOURCES)
    left = Side.SOURCE if at_target else Side.TARGET
    writable = write_access.ended(settings, state, left) if was_left else []
    ended = at_target and followed and not there and not back
    return replace(known, writable=writable, back=known.back if ended else reverse_stream.look(settings, state))


def _running(connection: sa.Connection, name: str) -> bool:
    """Whether a process of a way runs."""
    return bool(lease.holders(connection, name).keys() - {process_names.CUTOVER, process_names.ALARMS})


def _followed(connection: sa.Connection, settings: Settings, switched: CutoverRun) -> bool:
    """Whether the reverse stream was found without a difference since a switch, all tables of it, and no row came by
    another way since."""
    if not compared.load(connection, settings.name + SUFFIX):
        return False
    found = verification.latest(connection, settings.name + SUFFIX)
    since = switched.finished
    if found is None or since is None or found.started < since or found.differences or found.in_motion:
        return False
    return bool((verification.certificate(connection, found.id) or {}).get("all_tables"))
