"""Sessions at the target servers, and trying again in them what does not pass at once."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial

from migrate.merge.retry import T, until_done
from migrate.model.errors import Code, MigrateError, StopError
from migrate.mysql import errors as mysql_errors
from migrate.target.lanes import Lanes
from migrate.target.pool import TargetPool
from migrate.target.routing import Plan, TargetDatabase


class TargetSessions:
    """So many at each server as `connections.per_server` allows; of a database, one at a time."""

    def __init__(self, plan: Plan, stop: threading.Event) -> None:
        self._settings = plan.settings
        self._stop = stop
        databases = Counter(database.target for database in plan.used_databases)
        most = plan.settings.connections.per_server
        self.lanes: Mapping[str, Lanes] = {
            target: Lanes(plan.settings, min(count, most)) for target, count in databases.items()
        }
        """By target server."""

    def close(self) -> None:
        for lanes in self.lanes.values():
            lanes.close()

    def retry(
        self,
        pool: TargetPool,
        database: TargetDatabase,
        action: Callable[[], T],
        refused: Callable[[BaseException], MigrateError | None] | None = None,
    ) -> T:
        """refused: what becomes of an error that does not pass; without it, the server's is raised."""
        where = where_of(database)
        return until_done(
            action,
            where,
            self._settings.consume,
            self._stop,
            again=lambda: pool.drop(database),
            refused=refused or partial(_explained, where),
        )

    def look(self, pool: TargetPool, database: TargetDatabase, action: Callable[[], T]) -> T:
        """As `retry`, of what only reads: what the target refuses is a StopError that names it."""

        def refused(error: BaseException) -> MigrateError:
            if isinstance(error, StopError):
                return error
            return StopError(
                f"{where_of(database)}: rows that a foreign key changed cannot be looked for:"
                f" {mysql_errors.text(error)}",
                hint="ALTER the target tables as the source's were altered: the search is then tried again by itself",
                code=Code.TARGET,
            )

        return self.retry(pool, database, action, refused)


def where_of(database: TargetDatabase) -> str:
    """For messages: target and database."""
    return f"{database.target}/{database.database}"


def _explained(where: str, error: BaseException) -> MigrateError:
    return error if isinstance(error, StopError) else mysql_errors.explain(error, where)
