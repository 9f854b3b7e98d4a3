"""Rows of the target, found by their values or looked at as they are, in all databases of their table side by side."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TypeVar

from migrate.merge.marker_effect import Images
from migrate.merge.target_sessions import TargetSessions
from migrate.model.change import Key
from migrate.mysql.connection import Connection
from migrate.mysql.keys import among
from migrate.mysql.values import from_server
from migrate.target import write_context
from migrate.target.cascades import Values, conditions, key_in, select
from migrate.target.pool import TargetPool
from migrate.target.routing import Plan, PlannedTable, TargetDatabase
from migrate.target.rows import slices

T = TypeVar("T")


class TargetRows:
    def __init__(self, plan: Plan, targets: TargetSessions, migration: str) -> None:
        self._plan = plan
        self._targets = targets
        self._migration = migration
        self._at_once = plan.settings.consume.lookup_keys

    def with_values(
        self, planned: PlannedTable, values: Values, wanted: Callable[[Key], bool] = lambda _key: True
    ) -> tuple[list[Key], bool]:
        """Keys of rows at the target that have one of some values, and whether a copy of the table is open."""

        def ask(connection: Connection, database: TargetDatabase) -> tuple[list[Key], bool]:
            # Before the rows: what a copy that is closed has inserted is seen then.
            closed = write_context.read(connection, self._migration).closed
            is_open = not {one.table.id for one in self._plan.members(planned)} <= closed
            found: list[Key] = []
            for condition in conditions(planned.table, values, self._at_once):
                rows = select(connection, planned.table.key, planned, database, condition)
                found += [key for raw in rows if wanted(key := key_in(planned.table, raw))]
            return found, is_open

        answers = self._ask(planned, ask)
        keys = dict.fromkeys(key for some, _ in answers for key in some)  # each once, also of a broadcast table
        return [*keys], any(is_open for _, is_open in answers)

    def _ask(self, planned: PlannedTable, question: Callable[[Connection, TargetDatabase], T]) -> list[T]:
        """What each database of a table answers, side by side."""

        def ask(database: TargetDatabase, pool: TargetPool) -> T:
            return self._targets.look(pool, database, lambda: question(pool.get(database), database))

        asked = [self._targets.lanes[one.target].submit(partial(ask, one)) for one in planned.databases]
        return [one.result() for one in asked]

    def images(self, planned: PlannedTable, keys: Sequence[Key], wanted: Collection[str]) -> Images:
        """Columns of some rows, as the target has them."""
        table, names = planned.table, tuple(sorted({*wanted} & planned.table.by_name.keys()))
        exact, width = table.key_is_exact, len(table.key)
        readers = [from_server(table.by_name[name]) for name in names]

        def ask(connection: Connection, database: TargetDatabase) -> Images:
            found = []
            for part in slices(keys, self._at_once if exact else 1):
                for raw in select(connection, (*table.key, *names), planned, database, among(table, part)):
                    values = [read(value) for read, value in zip(readers, raw[width:], strict=True)]
                    key = key_in(table, raw[:width]) if exact else part[0]
                    found.append((key, dict(zip(names, values, strict=True))))
            return found

        found = [one for answer in self._ask(planned, ask) for one in answer]
        return [*{(key, repr(row)): (key, row) for key, row in found}.values()] if planned.broadcast else found
