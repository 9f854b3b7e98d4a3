"""When the copy of a table may begin, and where in its source's log it ended."""

from __future__ import annotations

from contextlib import closing

import sqlalchemy as sa

from migrate.model.coordinate import Coordinate, file_number
from migrate.model.errors import PreflightError
from migrate.model.table import Table
from migrate.mysql.connection import connect
from migrate.mysql.readable import log_end
from migrate.settings import Settings
from migrate.state import membership, position


def refuse_before_incremental(connection: sa.Connection, migration: str, table: Table) -> None:
    """Raises PreflightError while nobody keeps the changes made during a copy (invariant capture-before-copy)."""
    if position.load(connection, migration, table.source) is None:
        raise PreflightError(
            f"copy of {table.full_name}: the publisher of source '{table.source}' has not begun",
            hint="start `migrate run` first, and copy once `migrate status` shows a position",
        )


def refuse_before_its_place(connection: sa.Connection, migration: str, table: Table) -> None:
    """An added table is read once the publisher is where its changes begin (invariant capture-before-copy).
    Raises PreflightError."""
    member = membership.get(connection, migration, table.id)
    if member is not None and not member.begun:
        where = f"has not reached {member.file}:{member.pos}, where it" if member.file else "has not begun with it: it"
        raise PreflightError(
            f"copy of {table.full_name}: the publisher of source '{table.source}' {where} was added",
            hint="copy it once `migrate status` shows it as created; `migrate run` must be running",
        )


def log_ends_at(state: sa.Engine, settings: Settings, source: str) -> Coordinate:
    """Where the log of a source ends now, at the server that its publisher reads: what begins before was committed.

    Raises the driver's error; PreflightError where the publisher never began, ServerError where another server answers
    than it reads.
    """
    with state.connect() as connection:
        # First: a server from after it has another incarnation.
        known = position.load(connection, settings.name, source)
        now = position.now_read(connection, settings)
    if known is None:
        raise PreflightError(f"the publisher of source '{source}' never ran")
    with closing(connect(now.source(source), f"source '{source}'")) as server:
        end = log_end(server)
    return Coordinate(known.incarnation, file_number(end.file), end.pos, 0)
