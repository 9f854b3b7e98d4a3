"""Triggers that were made at a side after `init` looked there: they change rows in the transactions of a stream, which
nobody reads as an application's, and no message names those rows (docs/decisions/0009)."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing

import sqlalchemy as sa

from migrate.model.errors import PreflightError
from migrate.mysql.errors import explained
from migrate.ops.runtime import stored_plan
from migrate.preflight import existing, triggers
from migrate.preflight.result import Verdict
from migrate.settings import Settings
from migrate.state import compared
from migrate.state import migration as migrations
from migrate.target.plan import TargetPool


def refuse_triggers(state: sa.Engine, streams: Iterable[Settings]) -> None:
    """Raise PreflightError where a trigger fires for what one of these streams writes: what was compared counts no
    more, as it may have done so already. ServerError."""
    for stream in streams:
        with state.connect() as connection:
            is_reverse = bool(migrations.reverse_of(connection, stream.name))
        plan = stored_plan(stream, state)
        with closing(TargetPool(stream)) as pool:
            for target in dict.fromkeys(database.target for database in plan.used_databases):
                server = pool.server(target)
                with explained(server.name):
                    for there in existing.find(server, plan, target):
                        for one in triggers.of_tables(server, there, way_back=is_reverse):
                            if one.verdict is Verdict.PROBLEM:
                                with state.begin() as connection:
                                    compared.forget(connection, *migrations.both_ways(connection, stream.name))
                                raise PreflightError(
                                    f"not ready: {one.message}", hint=f"{one.mend}; then `migrate verify`, all tables"
                                )
