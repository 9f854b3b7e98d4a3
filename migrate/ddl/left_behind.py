"""Runs of a TRUNCATE that came too late: rows have come to the tables since, and would go."""

from __future__ import annotations

import sqlalchemy as sa

from migrate.ddl.servers import Servers
from migrate.ddl.statement import read
from migrate.model.coordinate import Coordinate
from migrate.model.errors import Code, StopError
from migrate.mysql.errors import explained
from migrate.publish.schema.ddl import Verb
from migrate.state import ddl as journal
from migrate.state import position, switch
from migrate.state.ddl import DdlRun
from migrate.state.switch import Side
from migrate.target import fence, filled, roles
from migrate.target.roles import NotStandby, Role
from migrate.target.routing import PlannedTable


def is_left_behind(connection: sa.Connection, migration: str, run: DdlRun) -> bool:
    """Whether the publisher that began a run stands in front of its TRUNCATE no more: it was rewound, or its source is
    another server. Nobody has to end such a run."""
    place = journal.brought_from(run.statement)
    if place is None or read(run.statement).verb is not Verb.TRUNCATE:
        return False
    source, since = place
    at = position.load(connection, migration, source)
    return at is not None and (at.incarnation != since.incarnation or at.coordinate > since)


def unended(connection: sa.Connection, migration: str, last: DdlRun | None) -> DdlRun | None:
    """The last run, where it is to be ended before another one begins."""
    if last is None or last.finished is not None or is_left_behind(connection, migration, last):
        return None
    return last


def refuse_late(connection: sa.Connection, migration: str, run: DdlRun) -> None:
    """Raises StopError at a run that would take rows from behind its TRUNCATE."""
    if is_left_behind(connection, migration, run):
        raise StopError(
            f"run {run.number} is not continued: the publisher is no longer in front of its statement, and rows that"
            " came to the targets since would go",
            hint="leave it, a further run can begin; `migrate verify --repair` deletes rows that were to go",
            code=Code.STATEMENT,
        )
    if read(run.statement).verb is not Verb.TRUNCATE:
        return
    sides = {row.side for row in journal.of_run(connection, migration, run.number)}
    if Side.SOURCE in sides and switch.get(connection, migration).side is not Side.SOURCE:
        raise StopError(
            f"run {run.number} is not continued: applications are at the targets by now, and the sources are to have"
            " their rows",
            hint="`migrate ddl undo` ends it where no table is empty yet",
            code=Code.STATEMENT,
        )


def refuse_at_targets(servers: Servers, planned: PlannedTable, since: Coordinate) -> None:
    """Of a TRUNCATE that stands at a place in a source's log. Raises NotStandby where applications are at the targets
    (invariant standby-only), StopError where these have rows of another migration, or rows from behind it: the state
    lost that they were emptied, and what came since would be taken for repeats when it comes again; ServerError."""
    for used in planned.databases:
        with servers.session(Side.TARGET, used.target, used.database) as session, explained(session.name):
            held = roles.look(session, servers.name)
            if held is None:
                raise roles.missing(session.name, servers.name)
            if held.role is Role.ACTIVE:
                raise NotStandby(held, f"{used.target}/{used.database}")
            for shared in filled.shared(session, servers.name, used, [planned]):
                raise StopError(shared.told, hint=shared.mend, code=Code.STATEMENT)
            if fence.is_beyond(session, servers.name, planned.table.source, since):
                raise StopError(
                    f"{used.target}/{used.database} has changes from behind it: was the state database put back?",
                    hint="`migrate publish --from` a place up to the statement publishes all of it again",
                    code=Code.STATEMENT,
                )
