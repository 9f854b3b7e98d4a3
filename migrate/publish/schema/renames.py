"""What each table's name stands for once a statement renamed tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from migrate.model.coordinate import Coordinate
from migrate.model.table import Table
from migrate.publish.schema import ghost
from migrate.publish.schema.alter_effects import leaves_values
from migrate.publish.schema.definitions import COPY_AGAIN, Definitions, Versions, full
from migrate.publish.schema.policy import Policy, Step
from migrate.publish.schema.token_cursor import Name
from migrate.state.schema_history import Version


class Renames:
    def __init__(self, known: Definitions, policy: Policy) -> None:
        self._known = known
        self._policy = policy

    def after(self, step: Step, pairs: list[tuple[Name, Name]], altered: Versions) -> Versions:
        """pairs: of old and new names. altered: what the statement did to tables before. Raises StopError."""
        origin: dict[Name, Name | None] = {}
        for old, new in pairs:
            origin[new], origin[old] = origin.get(old, old), None
        moved: Versions = {}
        for name, came_from in origin.items():
            if came_from == name and name not in altered:
                continue
            if name in self._known.selected:
                moved[name] = self._under_a_selected_name(step, name, came_from, origin, altered)
            elif came_from is None:
                if self._known.there(name) is not None:
                    moved[name] = forgotten(step.since)
            elif (version := altered.get(came_from) or self._known.there(came_from)) is not None:
                moved[name] = self._under_another_name(step, name, came_from, origin, version)
            elif self._known.there(name) is not None:
                moved[name] = forgotten(step.since)
        return moved

    def _under_another_name(
        self, step: Step, name: Name, came_from: Name, origin: Mapping[Name, Name | None], version: Version
    ) -> Version:
        if came_from not in self._known.selected:
            return replace(version, table=_named(version.table, name), since=step.since)
        successor = origin.get(came_from)
        if successor is not None and ghost.is_ghost(successor, came_from):
            return forgotten(step.since)  # the old table of gh-ost or pt-online-schema-change
        return replace(version, table=_named(version.table, name), holds=came_from, since=step.since)

    def _under_a_selected_name(
        self,
        step: Step,
        name: Name,
        came_from: Name | None,
        origin: Mapping[Name, Name | None],
        altered: Versions,
    ) -> Version:
        before = self._known.versions.get(name) or Version(None, unsure="it is not in the schema history")
        if came_from is None:
            self._policy.rename_or_raise(step, name)
            return Version(before.table, gone=True, since=step.since)
        version = altered.get(came_from) or self._known.there(came_from)
        returns = self._known.holds(came_from) == name or came_from == name
        swapped = ghost.is_ghost(came_from, name) and name in origin.values()
        if not returns and not swapped:
            raise step.stop(name, f"{full(came_from)} takes its place, with other rows", COPY_AGAIN)
        if version is None:
            version = Version(None, unsure=f"{full(came_from)} was made before this service looked")
        after = replace(version, table=_named(version.table, name), holds=None, since=step.since)
        after = self._policy.judge(step, name, before, after, not altered or leaves_values(step.does or step.ddl))
        # Nobody says that all rows were copied into it: a purge is done the same way.
        return after if returns else replace(after, unequal=True)


def forgotten(since: Coordinate) -> Version:
    """Of a table that is no longer there."""
    return Version(None, gone=True, since=since)


def _named(table: Table | None, name: Name) -> Table | None:
    return table if table is None else replace(table, database=name[0], name=name[1])
