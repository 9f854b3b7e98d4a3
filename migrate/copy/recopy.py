"""Copying a table, or a part of it, once more while the stream runs (invariant tombstone-under-open-chunk).

Its chunk fence opens again in every target database, so that deletes leave ledger rows from then on. Changes that the
stream applied before, and left no ledger row of, must be seen by every read that follows: they are in the source's log,
but a commit can be there before it can be read (invariant capture-before-copy). So the source is waited for once.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

import pymysql
import sqlalchemy as sa
import structlog

from migrate.chunks.keyrange import added
from migrate.model.errors import ConfigError, PreflightError
from migrate.model.stopping import stop_on_signals
from migrate.model.table import Table
from migrate.mysql import errors
from migrate.mysql.connection import Connection, connect
from migrate.mysql.quoting import table as full_name
from migrate.mysql.readable import readable_end
from migrate.settings import Settings
from migrate.state import chunks, phase, position
from migrate.state import part as parts
from migrate.state.part import Part
from migrate.state.phase import Phase
from migrate.target.routing import PlannedTable

log = structlog.get_logger("migrate.copy")


@dataclass(frozen=True, slots=True)
class Recopy:
    """What is copied once more of a table. restart: all; where: the rows that meet a condition of the source's SQL."""

    restart: bool = False
    where: str | None = None

    def __bool__(self) -> bool:
        return self.restart or self.where is not None


def check_where(connection: Connection, table: Table, text: str) -> None:
    """Raise ConfigError when the source does not take this for a condition of rows of the table."""
    name, given = full_name(table.database, table.name), text.replace("%", "%%")
    try:
        for where in (f"{given}\n", added("1 = 1", text)):  # by itself too: no bracket of it closes one of ours
            connection.query(f"EXPLAIN SELECT 1 FROM {name} WHERE {where}")
    except pymysql.MySQLError as error:
        if errors.passes(error):
            raise errors.explain(error, connection.name) from error
        told = " ".join(errors.text(error).split())
        raise ConfigError(
            f"--where: {connection.name} refuses the condition for {table.full_name}: {told}",
            hint="""give it as SQL over the table's own columns: --where "id BETWEEN 1000 AND 2000" """.rstrip(),
        ) from error


def check_again(
    settings: Settings, chosen: Sequence[PlannedTable], names: Sequence[str] | None, again: Recopy | None
) -> None:
    """Raise ConfigError when what is asked for cannot be. names: of tables, as they were given."""
    if not again:
        return
    asked = "--restart" if again.restart else "--where"
    if not names:
        raise ConfigError(f"{asked} needs --table", hint=f"as in `migrate copy --table shop.orders {asked}`")
    if again.where is None:
        return
    if again.restart:
        raise ConfigError("--restart copies the whole table again, --where a part", hint="use one of them")
    if not again.where.strip():
        raise ConfigError("--where is empty", hint="""for example: --where "id BETWEEN 1000 AND 2000" """.rstrip())
    for planned in chosen:
        source = planned.table.source
        with closing(connect(settings.source(source), f"source '{source}'")) as connection:
            check_where(connection, planned.table, again.where)


def choose(
    connection: sa.Connection, migration: str, table: Table, before: Phase, again: Recopy
) -> tuple[bool, Part | None]:
    """Whether anything of a table is to be copied, and which part, in the transaction that has its phase locked.

    A part that was begun and not ended is gone on with. Raises: ConfigError when another one is asked for;
    PreflightError for a part of a table that was not copied.
    """
    running = parts.current(connection, migration, table)
    if again.restart:
        chunks.void(connection, migration, table)
        running = None
    elif again.where is not None and running is not None and running.condition != again.where:
        raise ConfigError(
            f"copy of {table.full_name}: the rows with {running.condition} are being copied again",
            hint=f"`migrate copy --table {table.full_name}` continues that; it has to finish first",
        )
    elif again.where is not None and running is None:
        if before is not Phase.COPIED:
            raise PreflightError(
                f"copy of {table.full_name}: it is not copied yet, so no part of it can be copied again",
                hint="`migrate copy` continues it, and brings every row",
            )
        running = parts.begin(connection, migration, table, again.where)
    if before is Phase.COPIED and running is None and not again.restart:
        return False, None
    if before is Phase.COPIED:
        phase.note_reopened(connection, migration, table, True)
    return True, running


def wait_until_readable(state: sa.Engine, settings: Settings, table: Table) -> None:
    """Until a SELECT at the table's source sees whatever is in its log now.

    Raises ServerError when asked to stop, and where another server answers than the publisher reads.
    """
    name, now = f"source '{table.source}'", position.where_read(state, settings)
    with closing(connect(now.source(table.source), name)) as server, stop_on_signals() as stop:
        readable_end(server, [(table.database, table.name)], stop)
