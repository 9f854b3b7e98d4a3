"""Servers that were restarted, or whose log leaves changes out: what was compared counts no more (docs/decisions/0034).

In a log that goes on nothing shows that its server ran without it in between, or that it lost its end in a crash.
"""

from __future__ import annotations

import sqlalchemy as sa
import structlog

from migrate.state import compared
from migrate.state.compared import Because
from migrate.state.position import table

log = structlog.get_logger("migrate.state")


def differs(connection: sa.Connection, migration: str, source: str, started: int) -> bool:
    """Whether a source's server was started at another time (seconds since 1970) than is known, or that is not known
    yet; no, before its publisher's first position."""
    return _known(connection, migration, source, lock=False) not in (None, started)


def note(connection: sa.Connection, migration: str, source: str, started: int) -> bool:
    """Forget what was compared where `differs`, which is noted; whether it did."""
    before = _known(connection, migration, source, lock=True)
    if before in (None, started):
        return False
    compared.forget(connection, migration, Because.RESTARTED, source)
    put(connection, migration, source, started)
    if before:
        log.warning("verify before a switch: " + Because.RESTARTED, source=source, started=started, before=before)
    return True


def put(connection: sa.Connection, migration: str, source: str, started: int) -> None:
    """Of a server whose log is read from a place that was taken just now: what was compared counts no more already."""
    here = table.c.migration == migration, table.c.source == source
    connection.execute(sa.update(table).where(*here).values(started=started))


def note_left_out(connection: sa.Connection, migration: str, source: str, told: str) -> None:
    """What a server's log leaves out, no message names."""
    compared.forget(connection, migration, Because.LEFT_OUT, source)
    log.error("verify before a switch: " + Because.LEFT_OUT, source=source, reason=told)


def _known(connection: sa.Connection, migration: str, source: str, *, lock: bool) -> int | None:
    wanted = sa.select(table.c.started).where(table.c.migration == migration, table.c.source == source)
    found = connection.scalar(wanted.with_for_update() if lock else wanted)
    return None if found is None else int(found)
