"""The schema history as a consumer reads it: every definition of each table, and which messages of it count."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any

import sqlalchemy as sa

from migrate.model.coordinate import Coordinate
from migrate.model.table import Table, TableId
from migrate.mysql.foreign_keys import ForeignKey, foreign_keys
from migrate.state import membership, phase, position
from migrate.state.schema_history import since_of, table, version_of, versions_of


class HistoryReader:
    """Every known definition of the tables, for who needs those of other places in the log too."""

    def __init__(self, run: Callable[[Callable[[sa.Connection], Any]], Any], migration: str) -> None:
        """run: runs an action in a transaction of the state database."""
        self._run = run
        self._migration = migration

    def look(self) -> tuple[object, dict[TableId, Coordinate | None]]:
        """A mark that is another once anything was noted, or rules are others; and, of tables that were added or
        removed, where the messages begin that count (None: none of them does)."""
        rules, noted = phase.rules_mark(self._migration), sa.func.sum(sa.func.crc32(table.c.definition))
        sums = sa.select(sa.func.count(), noted, rules).where(table.c.migration == self._migration)

        def both(connection: sa.Connection) -> tuple[object, dict[TableId, Coordinate | None]]:
            members = membership.every(connection, self._migration)
            return tuple(connection.execute(sums).one()), {id_: member.since for id_, member in members.items()}

        found: tuple[object, dict[TableId, Coordinate | None]] = self._run(both)
        return found

    def rules(self) -> dict[TableId, str]:
        """The members and their rules as the last `migrate init` noted them."""
        found: dict[TableId, str] = self._run(lambda connection: phase.rule_hashes(connection, self._migration))
        return found

    def begun(self, ids: Collection[TableId]) -> set[TableId]:
        """Those of these tables that their source's publisher has begun with, for good."""
        sources = set(self._run(lambda connection: position.sources(connection, self._migration)))
        added = self._run(lambda connection: membership.every(connection, self._migration))
        return {id_ for id_ in ids if id_[0] in sources and (id_ not in added or added[id_].begun)}

    def reach(self, source: str) -> tuple[int, int] | None:
        """Incarnation and newest file that its publisher may have published; None before it began."""
        found: tuple[int, int] | None = self._run(
            lambda connection: position.reach(connection, self._migration, source)
        )
        return found

    def versions(self) -> dict[TableId, list[tuple[Coordinate | None, Table]]]:
        """By (source, database, table), each from a coordinate on (None: from the beginning on), oldest first."""
        rows = self._run(lambda connection: list(connection.execute(versions_of(self._migration))))
        found: dict[TableId, list[tuple[Coordinate | None, Table]]] = {}
        for row in rows:
            name = (row.table_schema, row.table_name)
            version = version_of(row.source, name, json.loads(row.definition), since_of(row))
            if version.table is not None and not version.gone and not version.unsure:
                found.setdefault((row.source, *name), []).append((version.since, version.table))
        return found

    def foreign_keys(self) -> dict[TableId, list[ForeignKey]]:
        """Those by which a server changes rows by itself, of any version of each table that is known."""
        wanted = versions_of(self._migration).where(table.c.definition.contains("FOREIGN KEY"))
        rows = self._run(lambda connection: list(connection.execute(wanted)))
        found: dict[TableId, list[ForeignKey]] = {}
        for row in rows:
            create = json.loads(row.definition).get("create", "")
            known = found.setdefault((row.source, row.table_schema, row.table_name), [])
            known += [one for one in foreign_keys(create, row.table_schema) if one.cascades and one not in known]
        return found
