"""What came before a verification and what behind it, by the verifications' numbers: a clock may be set back."""

from __future__ import annotations

import sqlalchemy as sa

_NOTED = {
    "foreign_write": "seen",
    "oversized": "at",
    "check_difference": "last_seen",
    "left_out": "created",
    "lost_writes": "found",
}
"""Tables with that column, and when each row was noted."""
COLUMN = "began"
"""Of what a verification settles that begins later: the number of the newest one that had begun."""


def column() -> sa.Column[int]:
    return sa.Column(COLUMN, sa.BigInteger)


def began(connection: sa.Connection) -> int:
    """The number of the newest verification that has begun; 0 before the first one."""
    newest = connection.execute(sa.select(sa.func.max(sa.column("id"))).select_from(sa.table("verification"))).scalar()
    return int(newest or 0)


def fill(connection: sa.Connection) -> None:
    """Give a number to what a process of an earlier version noted since the column is there, by the server's clock."""
    for table, at in _NOTED.items():
        connection.exec_driver_sql(
            f"UPDATE {table} noted SET noted.{COLUMN} = (SELECT COALESCE(MAX(run.id), 0) FROM verification run"
            f" WHERE run.started <= noted.{at}) WHERE noted.{COLUMN} = 0"
        )


def unsettled(table: sa.Table, verification: int | None) -> list[sa.ColumnElement[bool]]:
    """What was noted once a verification had begun; all, where there is none."""
    return [] if verification is None else [table.c[COLUMN] >= verification]
