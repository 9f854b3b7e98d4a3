"""Step 2 of a merge: the sources are asked for the keys on which no message has the last word."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from migrate.merge.group_conflicts import Asked
from migrate.merge.shares import Answer, Folded, Refreshes, Resolved
from migrate.merge.table_versions import Layouts
from migrate.merge.target_sessions import TargetSessions
from migrate.target import roles
from migrate.target.pool import TargetPool
from migrate.target.refresh import SourceRows
from migrate.target.routing import Plan, PlannedTable, TargetDatabase

log = structlog.get_logger("migrate.merge")


class Resolver:
    """For one thread."""

    def __init__(self, plan: Plan, layouts: Layouts, sources: SourceRows, targets: TargetSessions) -> None:
        self._plan = plan
        self._layouts = layouts
        self._sources = sources
        self._targets = targets
        self._versions: dict[TargetDatabase, int] = {}  # of roles, asked once a merge, before rows are read

    def begin(self) -> None:
        """Another merge begins."""
        self._versions.clear()

    def resolve(self, folded: Folded, waits: Callable[[PlannedTable], bool]) -> Resolved:
        """waits: whether rows of a table are to be read once the share is written. Raises: as `read`."""
        late: Refreshes = {id_: one for id_, one in folded.refreshes.items() if waits(one[0])}
        answers = [self.read(*one) for id_, one in folded.refreshes.items() if id_ not in late]
        return Resolved(folded, answers, late)

    def read(self, table: PlannedTable, asked: Asked) -> Answer:
        """What the sources have of some keys now. Raises: StopError when they do not tell."""
        keys = [*asked]
        for database in table.databases:
            if database not in self._versions:
                self._versions[database] = self._version(database)
        log.info("refreshed", table=table.group or table.table.full_name, keys=len(keys))
        if table.group:
            members = [self._layouts.newest(one) for one in self._plan.members(table)]
            self._layouts.refuse_unread(members)  # before they are read
            found = self._sources.read_group(members, keys)
        else:
            rows = self._sources.read(table, keys)
            found = {key: [] if row is None else [(table, row)] for key, row in rows.items()}
        return Answer(table, asked, found, dict(self._versions))

    def _version(self, database: TargetDatabase) -> int:
        """Of the role of a database: a row that is read now must not be written behind a switch and its rollback."""

        def ask(pool: TargetPool) -> int:
            name = self._plan.settings.name
            return self._targets.look(pool, database, lambda: roles.version(pool.get(database), name))

        return self._targets.lanes[database.target].submit(ask).result()
