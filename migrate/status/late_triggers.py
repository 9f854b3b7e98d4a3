"""Triggers that were made at a side after `init` looked there: they change rows in the transactions of a stream, which
nobody reads as an application's, and no message names those rows (docs/decisions/0009)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing

import sqlalchemy as sa

from migrate.model.errors import MigrateError, PreflightError, ServerError
from migrate.mysql.errors import explained, unreachable
from migrate.preflight.result import Result, Verdict
from migrate.preflight.schema import existing, triggers
from migrate.preflight.server import grants
from migrate.settings import Settings
from migrate.state import compared, leading
from migrate.state import migration as migrations
from migrate.state.compared import Because
from migrate.target.pool import TargetPool
from migrate.target.routing import Plan
from migrate.target.stored_plan import stored_plan


def refuse_triggers(state: sa.Engine, streams: Iterable[Settings]) -> None:
    """Raise PreflightError where a trigger fires for what one of these streams writes: what was compared counts no
    more, as it may have done so already; and where an account cannot see whether there is one. A server that does not
    answer is passed over. ServerError."""
    for stream in streams:
        with state.connect() as connection:
            is_reverse = bool(migrations.reverse_of(connection, stream.name))
        unseen, firing = _looked(stream, stored_plan(stream, state), is_reverse=is_reverse)
        if firing:
            with state.begin() as connection:
                if leading.leads(connection, stream.name):  # the other one has written nothing since it was compared
                    compared.forget(connection, stream.name, Because.TRIGGER)
            raise _refusal(firing, "; then `migrate verify`, all tables")
        if unseen:
            raise _refusal(unseen, " (docs/grants.md): triggers may fire for what a stream writes there")


def named(state: sa.Engine, stream: Settings) -> list[str]:
    """The triggers that would fire for what a stream to targets writes; none where a server does not say."""
    try:
        return [one.message for one in _looked(stream, stored_plan(stream, state), is_reverse=False)[1]]
    except MigrateError:
        return []


def _refusal(found: Sequence[Result], hint: str) -> PreflightError:
    told, mends = ("\n  - ".join(one.message for one in found), "; ".join(one.mend for one in found))
    return PreflightError(f"not ready: {told}", hint=f"{mends}{hint}")


def _looked(stream: Settings, plan: Plan, *, is_reverse: bool) -> tuple[list[Result], list[Result]]:
    """The databases whose triggers this account cannot see, and the triggers that would fire."""
    unseen, firing = [], []
    with closing(TargetPool(stream)) as pool:
        for target in dict.fromkeys(database.target for database in plan.used_databases):
            try:
                server = pool.server(target)
            except ServerError as error:
                if not unreachable(error.__cause__):
                    raise
                continue  # what is not ready is named by itself
            with explained(server.name):
                for there in existing.find(server, plan, target):
                    held = grants.check(server, grants.of_triggers([there.database]), "")
                    unseen += [one for one in held if one.verdict is not Verdict.PASS]  # seen, not supposed
                    firing += triggers.of_tables(server, there, way_back=is_reverse)
    return unseen, [one for one in firing if one.verdict is Verdict.PROBLEM]
