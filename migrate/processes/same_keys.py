"""Which other keys the servers take for one key."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import closing

from migrate.chunks.sessions import Sessions
from migrate.model.change import Key
from migrate.model.table import TableId
from migrate.mysql.errors import explained
from migrate.settings import Settings
from migrate.target.ledger import Spellings
from migrate.target.routing import Plan, PlannedTable


def alike(settings: Settings, planned: PlannedTable, key: Key, others: Collection[Key]) -> set[Key]:
    """Those of other keys that the servers take for this one. Raises ServerError."""
    if planned.table.key_is_exact or not others:
        return {key}.intersection(others)
    with closing(Sessions(settings)) as sessions, explained("targets"):
        return Spellings(lambda: sessions.targets.get(planned.databases[0]), planned.table, key).same(others)


Alike = Callable[[TableId, Key, Collection[Key]], set[Key]]


def alike_in(plan: Plan) -> Alike:
    """As `alike`, of the tables of a plan."""
    return lambda id_, key, others: alike(plan.settings, plan.tables[id_], key, others)
