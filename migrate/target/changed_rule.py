"""Why a table whose rule is another one than when its migration began is refused, and how to have that rule again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

from migrate.model.errors import ConfigError
from migrate.sharding.rule import BROADCAST, node
from migrate.target.routing import PlannedTable

_MOST_ADDED = 2
"""Nodes that may be too many, of those in any order: each pair of them is tried."""


def changed_rule(planned: PlannedTable, noted: str) -> ConfigError:
    """The refusal. noted: the `rule_hash` of before; planned: with the table as init found it."""
    hint = "restore them, or start a new migration under another name"
    if nodes := next((one for one in _fewer_nodes(planned) if _at(planned, one).rule_hash == noted), None):
        listed = ", ".join(nodes)
        hint = f"it has more nodes than before: name those of before, `sharding: {{broadcast: [{listed}]}}`; or {hint}"
    return ConfigError(
        f"{planned.table.full_name}: columns, key, sharding rule, places or group changed since it began", hint=hint
    )


def _fewer_nodes(planned: PlannedTable) -> Iterator[tuple[str, ...]]:
    """The nodes without those that a data source of a rule file, or a database of the config, may have added."""
    nodes = [node(place.database.name, place.table) for place in planned.places]
    for added in range(1, min(_MOST_ADDED, len(nodes) - 1) + 1 if planned.broadcast else 1):
        yield from combinations(nodes, len(nodes) - added)


def _at(planned: PlannedTable, nodes: tuple[str, ...]) -> PlannedTable:
    """A broadcast table as it is planned with these of its nodes, named by `broadcast`."""
    places = tuple(place for place in planned.places if node(place.database.name, place.table) in nodes)
    return replace(planned, spec={BROADCAST: [*nodes]}, places=places)
