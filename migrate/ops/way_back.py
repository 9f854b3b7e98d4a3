"""What the way back lacks of what a cutover, or a rollback, needs, and the command to type for it."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from migrate.cutover.reverse import SUFFIX, elsewhere, reversed_settings
from migrate.ops import status
from migrate.ops.mending import mend
from migrate.ops.readiness import standing_in_the_way
from migrate.ops.runtime import stored_plan
from migrate.publish.publisher import lease_name
from migrate.settings import Settings
from migrate.state import halt, leading, lease, phase
from migrate.state import migration as migrations


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
        if migrations.find(connection, name) is None:
            return WayBack([*moved, "the way back is not there"], "migrate --reverse init")
        running = _runs(connection, name)
        leads = leading.leads(connection, name)
        still = [f"{one.process} stands still: {one.reason}" for one in halt.every(connection, name)]
    if not running:
        return WayBack([*moved, *_named(still), "the way back does not run"], "migrate --reverse run")
    if moved:
        return WayBack([*moved, *_named(still)], "migrate --reverse run")
    back = reversed_settings(settings, stored_plan(settings, state))
    now = status.read(back, state, whoever_answers=True)
    problems = standing_in_the_way(back, now)
    next_ = mend(now, problems) if problems else ""
    if leads or not next_.startswith("migrate verify"):  # which is run in the direction that leads, and settles both
        next_ = next_.replace("migrate", "migrate --reverse", 1)
    return WayBack(_named(problems), next_)


def _named(problems: list[str]) -> list[str]:
    return [f"the way back: {one}" for one in problems]


def _runs(connection: sa.Connection, name: str) -> bool:
    """Whether its publishers and consumers all run."""
    leading = lease.holders(connection, name)
    publishing = all(lease_name(source) in leading for source, _, _ in phase.every(connection, name))
    return publishing and all(part.lease in leading for part in migrations.get(connection, name).partitions)
