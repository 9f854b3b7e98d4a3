"""Why `migrate foreign carry` does not write a row at the active side, or not at every node."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pymysql

from migrate.model.errors import Code, MigrateError, PreflightError, ServerError, StopError
from migrate.mysql.connection import Connection
from migrate.mysql.errors import explained, number
from migrate.target.routing import PlannedTable


class Child(NamedTuple):
    """Rows that a foreign key changes along with the row that is written."""

    table: str
    key: str  # the foreign key's name
    referenced: str  # columns of the parent, quoted
    values: tuple[Any, ...] | None  # of the parent's row in these columns


@contextmanager
def refused(connection: Connection, planned: PlannedTable) -> Iterator[None]:
    """Raises StopError where the server refuses the row."""
    with explained(connection.name):
        try:
            yield
        except pymysql.err.IntegrityError as error:
            raise StopError(
                f"the active side refuses a row of {planned.table.full_name} (error {number(error)}): another"
                " row has its unique value, or a foreign key is violated",
                hint="carry or change that other row first, or `migrate foreign discard`",
                code=Code.KEY,
            ) from error


class TakenAlong(StopError):  # noqa: N818 - it says what would be
    """By a foreign key, which would change rows that nobody asked for."""

    code = Code.KEY


def taken_along(planned: PlannedTable, child: Child, what: str) -> StopError:
    return TakenAlong(
        f"foreign key {child.key} would delete or change rows of {child.table} with a row of {planned.table.full_name}"
        f" that {what}",
        hint="where `migrate foreign list` has those rows, carry them first, or all at once (`migrate foreign carry"
        " --all`); else move or delete them there, then try again",
    )


def changed(planned: PlannedTable, side: str) -> PreflightError:
    return PreflightError(
        f"a row of {planned.table.full_name} was changed at the {side} side meanwhile",
        hint="it was not written; run `migrate foreign compare`, then try again",
    )


def partly_committed(
    error: MigrateError, planned: PlannedTable, committed: Collection[int], every: Collection[int]
) -> ServerError:
    """Where a commit failed behind others. committed, every: places, by their indexes."""
    done, others = (
        ", ".join(str(planned.places[index]) for index in every if (index in committed) is is_done)
        for is_done in (True, False)
    )
    return ServerError(
        f"{error.message}; the row of {planned.table.full_name} is carried to {done} already, and may not be to"
        f" {others}",
        hint="run `migrate foreign compare`, then `migrate foreign carry` once more",
    )
