"""How the rows of groups spread over their places: those of all source tables of a group together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from migrate.model.words import counted
from migrate.preflight.check import PLANNED, At, Group, Visit, declare
from migrate.preflight.result import Result
from migrate.preflight.schema.shards import judged
from migrate.target.routing import PlannedTable


def _groups(visit: Visit) -> Iterable[Result]:
    """A source table that is a shard itself fills few of the places, so it says nothing by itself."""
    spread, groups = visit.known.sources.spread, dict[str, list[PlannedTable]]()
    for id_ in spread:
        planned = visit.plan.tables[id_]
        groups.setdefault(planned.group, []).append(planned)
    for group, members in groups.items():
        found = Counter(dict.fromkeys(members[0].places, 0))
        for planned in members:
            found.update(spread[planned.table.id])
        yield judged(f"group '{group}'", f" of {counted(len(members), 'source table')}", found)


GROUPS = declare("sharding", Group.SCHEMA, At.HERE, _groups, PLANNED)
