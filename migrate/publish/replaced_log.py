"""A stream whose source is the standby side, and whose log there is not the one it read: it begins at the end.

A target that is put back to an older copy, whose log was reset, or in whose place another server lacks some of what
the stream read, has another log than the reverse stream came to.
While applications are at the other side nothing of it is to be carried: what the other stream writes there is dropped,
and what somebody else wrote in between is not known, so that a verification is due.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import sqlalchemy as sa
import structlog

from migrate.model.errors import ServerError, StopError
from migrate.model.table import Table
from migrate.mysql.connection import Connection
from migrate.publish import configured_start
from migrate.publish.failover import who
from migrate.publish.log.logfiles import OtherLog
from migrate.state import compared, leading, membership, schema_history
from migrate.state import failover as failovers
from migrate.state.compared import Because
from migrate.state.failover import GTID, NotedFailover
from migrate.state.membership import MemberStage
from migrate.state.position import Position
from migrate.target.roles import Role

log = structlog.get_logger("migrate.publish")


def position_at_end(
    connection: Connection, tables: Sequence[Table], before: Position, end: Position, why: OtherLog
) -> Position:
    """The end of the source's log, as a new incarnation.

    Raises: `why` where a table is not as the schema history has it.
    """
    for table in tables:
        try:
            configured_start.check_definition(connection, table)
        except StopError as error:
            raise StopError(f"{why.message}; {error.message}", hint=why.given, code=why.code) from why
    return replace(
        end,
        incarnation=before.incarnation + 1,
        replica_id=before.replica_id,
        batch=before.batch,
        event_time=before.event_time,
    )


def note(connection: sa.Connection, migration: str, before: Position, after: Position, why: OtherLog) -> None:
    """In the transaction that stores the position, in which nobody switches.

    Raises: `why` where applications write at this side; ServerError while a cutover is under way.
    """
    leading.hold(connection, migration)
    if leading.is_switching(connection, migration):
        raise ServerError(f"{why.message}; a cutover is under way", hint="it is tried again")
    if leading.leads(connection, migration):
        raise why
    compared.forget(connection, migration, Because.LOG, after.source)
    place = after.coordinate
    # What was noted stands in a log, under GTIDs, that are no more: all of it holds here.
    for name, version in schema_history.in_force(connection, migration, after.source, place, "").items():
        role = Role.STANDBY.value if name == schema_history.SIDE else version.role
        since = place._replace(transaction=place.transaction - 1)
        here = replace(version, since=since, gtid="", role=role)
        schema_history.put(connection, migration, after.source, name, here, after.server)
    for id_, member in membership.every(connection, migration).items():
        if id_[0] == after.source and member.stage in (
            MemberStage.JOINING,
            MemberStage.JOINED,
        ):  # a place in the old log is none
            membership.put(connection, migration, id_, replace(member, gtid_set="", server_id=0, server_uuid=""))
    doubt = (
        f"its log is another one than was read up to {before.file}:{before.pos}; writes by others there are not known"
    )
    failover = NotedFailover(after.source, after.incarnation, who(before), who(after), GTID, doubt)
    failovers.note(connection, migration, failover)
    log.warning("begins at the end of the log", source=after.source, file=after.file, pos=after.pos, why=why.message)
