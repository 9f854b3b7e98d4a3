"""One look at a migration: all that its metrics and its alarms are made of, read at one time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from migrate.model.command import Command
from migrate.settings import Settings
from migrate.state import finished
from migrate.state import migration as migrations
from migrate.status import blockers, measures, snapshot_reading
from migrate.status.blocker import Blocker
from migrate.status.facts import standing
from migrate.status.margins import NOTHING_KNOWN, Margins
from migrate.status.measures import Measures
from migrate.status.snapshot import Snapshot
from migrate.status.stage import Stage
from migrate.status.unlike_tables import Named


@dataclass(frozen=True, slots=True)
class Look:
    """stage: None of a reverse stream, which has none. seconds: that it took. next: the command to type, None where
    nothing is. reverse: the stream back, where it runs; its switch is this migration's."""

    now: Snapshot
    stage: Stage | None
    held: Sequence[Blocker]
    measures: Measures
    seconds: float = 0.0
    margins: Margins = NOTHING_KNOWN  # of who asks for them too
    next: Command | None = None
    reverse: Snapshot | None = None


def look(settings: Settings, state: sa.Engine, unlike: Named) -> Look:
    """Now. unlike: as of `standing`; who looks again and again has one that is `kept`. Raises PreflightError before
    init, ServerError where the state database does not answer; other servers that do not are blockers."""
    began = time.monotonic()
    with state.connect() as connection:
        if finished.find(connection, settings.name) is not None:
            return Look(Snapshot(settings.name, []), Stage.FINISHED, [], Measures())
        is_reverse = bool(migrations.reverse_of(connection, settings.name))
        more = measures.read(connection, settings)
    now = snapshot_reading.read(settings, state, whoever_answers=True)
    if is_reverse:
        return Look(now, None, blockers.of_stream(settings, now), more, time.monotonic() - began)
    stands = standing(settings, state, now, unlike)
    return Look(
        now, stands.stage, stands.held, more, time.monotonic() - began, next=stands.next, reverse=stands.reverse
    )
