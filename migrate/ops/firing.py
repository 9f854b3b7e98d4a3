"""Triggers that were made at a side after `init` looked there: they change rows in the transactions of a stream, which
nobody reads as an application's, and no message names those rows (docs/decisions/0009)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing

import sqlalchemy as sa

from migrate.model.errors import PreflightError
from migrate.mysql.errors import explained
from migrate.ops.runtime import stored_plan
from migrate.preflight import existing, triggers
from migrate.preflight.result import Result, Verdict
from migrate.settings import Settings
from migrate.state import compared
from migrate.state import migration as migrations
from migrate.target.plan import Plan, TargetPool


def refuse_triggers(state: sa.Engine, streams: Iterable[Settings]) -> None:
    """Raise PreflightError where a trigger fires for what one of these streams writes: what was compared counts no
    more, as it may have done so already. ServerError."""
    for stream in streams:
        with state.connect() as connection:
            is_reverse = bool(migrations.reverse_of(connection, stream.name))
        if (found := next(_firing(stream, stored_plan(stream, state), is_reverse), None)) is None:
            continue
        with state.begin() as connection:
            compared.forget_both_ways(connection, stream.name)
        raise PreflightError(f"not ready: {found.message}", hint=f"{found.mend}; then `migrate verify`, all tables")


def _firing(stream: Settings, plan: Plan, is_reverse: bool) -> Iterator[Result]:
    with closing(TargetPool(stream)) as pool:
        for target in dict.fromkeys(database.target for database in plan.used_databases):
            server = pool.server(target)
            with explained(server.name):
                for there in existing.find(server, plan, target):
                    found = triggers.of_tables(server, there, way_back=is_reverse)
                    yield from (one for one in found if one.verdict is Verdict.PROBLEM)
