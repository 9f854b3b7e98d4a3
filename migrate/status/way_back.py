"""What the way back lacks of what a cutover, or a rollback, needs, and the command to type for it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import sqlalchemy as sa

from migrate.cutover.reverse_settings import SUFFIX, elsewhere, reversed_settings
from migrate.model.errors import ConfigError, PreflightError
from migrate.publish.publisher import lease_name
from migrate.settings import Settings
from migrate.state import leading, lease, stop_reason
from migrate.state import migration as migrations
from migrate.state.phase import Phase
from migrate.status import snapshot
from migrate.status.next_step import WATCH, mend, tables, typed
from migrate.status.readiness import standing_in_the_way
from migrate.target.stored_plan import stored_plan

INIT, RUN = "migrate --reverse init", "migrate --reverse run"
BEGIN = (INIT, RUN)
"""What makes the reverse stream begin to read."""


@dataclass(frozen=True, slots=True)
class WayBack:
    """held: what it lacks, each in a line; next: what to type, "" when it lacks nothing."""

    held: list[str]
    next: str


def look(settings: Settings, state: sa.Engine) -> WayBack:
    """settings: of the way there. Its servers are asked only once it runs. Raises ServerError."""
    moved = elsewhere(settings, state)
    name = settings.name + SUFFIX
    with state.connect() as connection:
        there = migrations.find(connection, name) is not None
        leads = leading.leads(connection, name)
        still = [f"{one.process} stands still: {one.reason}" for one in stop_reason.every(connection, name)]
    try:
        back = reversed_settings(settings, stored_plan(settings, state))
    except ConfigError as error:  # every command of the reverse stream would refuse it too
        return WayBack([*moved, *_named([f"{error.message} ({error.way_out})"])], "migrate preflight")
    try:
        plan = stored_plan(back, state) if there else None
    except (ConfigError, PreflightError) as error:  # tables came or went
        return WayBack([*moved, *_named([error.message])], INIT)
    if plan is None:
        return WayBack([*moved, "the way back is not there"], INIT)
    with state.connect() as connection:
        running = _runs(connection, name, {id_[0] for id_ in plan.tables})
    if not running:  # of a part of it that does not run, that part is named below
        return WayBack([*moved, *_named(still), "the way back does not run"], RUN)
    if moved:
        return WayBack([*moved, *_named(still)], RUN)
    now = snapshot.read(back, state, plan=plan, whoever_answers=True)
    if waiting := [one for one, stage in now.tables.items() if stage == snapshot.WAITING]:
        told = f"{tables(waiting)} added: a `migrate --reverse run` that began before is to be started again"
        return WayBack(_named([told]), RUN)
    if joining := [one for one, stage in now.tables.items() if stage == snapshot.JOINING]:
        told = f"{tables(joining)} added: the publisher is to come to its place in the log"
        return WayBack(_named([told]), typed(WATCH, back=True, back_leads=leads))
    if left := [one for one, stage in now.tables.items() if stage in (Phase.CREATED.value, Phase.COPYING.value)]:
        told = f"{tables(left)} not copied yet"
        return WayBack(_named([told]), "migrate --reverse copy" if leads else INIT)
    problems = standing_in_the_way(back, now)
    next_ = typed(mend(now, problems), back=True, back_leads=leads) if problems else ""
    return WayBack(_named(problems), next_)


def _named(problems: list[str]) -> list[str]:
    return [f"the way back: {one}" for one in problems]


def _runs(connection: sa.Connection, name: str, sources: Collection[str]) -> bool:
    """Whether any of its publishers and consumers runs."""
    leading = lease.holders(connection, name)
    wanted = {*map(lease_name, sources), *(part.lease for part in migrations.get(connection, name).partitions)}
    return not wanted.isdisjoint(leading)
