"""What the page lists beside the status: read once for each look, however many pages show it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import sqlalchemy as sa

from migrate.commands import foreign as foreign_writes
from migrate.commands import parked
from migrate.commands.parked import ParkedListing
from migrate.cutover.reverse_settings import reversed_settings
from migrate.model.errors import MigrateError
from migrate.settings import Settings
from migrate.state import alarms, cutover, foreign, page_action, switch, verification
from migrate.state import migration as migrations
from migrate.state.alarms import Alarm
from migrate.state.cutover import CutoverRun, JournalEntry
from migrate.state.page_action import PageAction
from migrate.state.switch import Application, Side, Switch, Writes
from migrate.status import ended_migration
from migrate.status.look import Look
from migrate.status.snapshot import Snapshot
from migrate.target.stored_plan import stored_plan

LISTED = 50
"""Rows of a list that are shown; all are counted."""
_CERTIFICATES = 5
AT_SOURCE = Switch(1, Side.SOURCE, Writes.OPEN)


@dataclass(frozen=True, slots=True)
class SetAside:
    """What one stream set aside, or why that cannot be listed now."""

    listing: ParkedListing | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Details:
    """is_reverse: of a reverse stream alone. certificates: newest first, of both streams. run, journal: of the last
    cutover or rollback. aside: by the stream's name. foreign: the first of `foreign_count`. ended: of a finished
    migration."""

    is_reverse: bool = False
    switch: Switch = AT_SOURCE
    applications: Sequence[Application] = ()
    certificates: Sequence[Mapping[str, Any]] = ()
    run: CutoverRun | None = None
    journal: Sequence[JournalEntry] = ()
    aside: Mapping[str, SetAside] = field(default_factory=dict)
    foreign: Sequence[Mapping[str, Any]] = ()
    foreign_count: int = 0
    alarms: Sequence[Alarm] = ()
    actions: Sequence[PageAction] = ()
    ended: Mapping[str, Any] | None = None


def read(settings: Settings, state: sa.Engine, look: Look) -> Details:
    """Raises ServerError of the state server, PreflightError."""
    with state.connect() as connection:
        of = migrations.reverse_of(connection, settings.name)
        name = of or settings.name
        run = cutover.latest(connection, name)
        certificates = [
            one
            for stream in migrations.both_ways(connection, settings.name)
            for one in verification.recent(connection, stream, _CERTIFICATES)
        ]
        count = foreign.count_both(connection, settings.name)
        found = Details(
            is_reverse=of is not None,
            switch=switch.get(connection, name),
            applications=switch.every_application(connection, name),
            certificates=sorted(certificates, key=lambda one: str(one["finished"]), reverse=True),
            run=run,
            journal=cutover.journal(connection, name, run.number) if run is not None else (),
            foreign_count=count,
            alarms=list(alarms.every(connection, settings.name).values()),
            actions=page_action.newest(connection, settings.name, LISTED, outputs=False),
        )
    ended = ended_migration.read(settings, state) if of is None else None
    if ended is not None:
        return replace(found, ended=ended)
    listed = foreign_writes.listed(settings, state, LISTED) if count and of is None else []
    return replace(found, foreign=listed[:LISTED], aside=_aside(settings, state, look))


def _aside(settings: Settings, state: sa.Engine, look: Look) -> dict[str, SetAside]:
    """Of the streams that set anything aside: only then the targets are asked for it."""
    found = {}
    if _has_any(look.now):
        found[settings.name] = _listing(settings, state)
    if look.reverse is not None and _has_any(look.reverse):
        try:
            back = reversed_settings(settings, stored_plan(settings, state))
            found[back.name] = _listing(back, state)
        except MigrateError as error:
            found[look.reverse.migration] = SetAside(problem=error.message)
    return found


def _has_any(now: Snapshot) -> bool:
    return bool(now.parked or now.skips or now.left_out)


def _listing(settings: Settings, state: sa.Engine) -> SetAside:
    try:
        return SetAside(parked.listed(settings, state))
    except MigrateError as error:
        return SetAside(problem=error.message)
