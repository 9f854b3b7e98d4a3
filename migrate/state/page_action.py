"""What people did from the page: the newest commands of a migration, with who ran them and how they ended."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from migrate.state.database import metadata, now

table = sa.Table(
    "page_action",
    metadata,
    sa.Column("migration", sa.String(48), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("operator", sa.String(128)),
    sa.Column("command", sa.Text),
    sa.Column("began", sa.DateTime),
    sa.Column("ended", sa.DateTime),
    sa.Column("exit_code", sa.Integer),
    sa.Column("output", sa.Text),
)
KEPT = 200
"""Of each migration, the newest."""


@dataclass(frozen=True, slots=True)
class PageAction:
    """command: as it is typed. ended, exit_code: None while it runs, and where nobody saw its end."""

    number: int
    operator: str
    command: str
    began: datetime
    ended: datetime | None
    exit_code: int | None
    output: str


def begin(connection: sa.Connection, migration: str, operator: str, command: str) -> int:
    """Note one before it is run; returns its number. Those that are older than KEPT go."""
    last = connection.execute(sa.select(sa.func.max(table.c.number)).where(table.c.migration == migration)).scalar()
    number = int(last or 0) + 1
    values = {"migration": migration, "number": number, "operator": operator, "command": command, "began": now}
    connection.execute(sa.insert(table).values(values))
    connection.execute(sa.delete(table).where(table.c.migration == migration, table.c.number <= number - KEPT))
    return number


def end(connection: sa.Connection, migration: str, number: int, exit_code: int, output: str) -> None:
    connection.execute(
        sa.update(table)
        .where(table.c.migration == migration, table.c.number == number)
        .values(ended=now, exit_code=exit_code, output=output)
    )


def newest(connection: sa.Connection, migration: str, most: int, *, outputs: bool = True) -> list[PageAction]:
    """The newest first. outputs: with what they said; else "" stands for it."""
    one = table.c
    rows = connection.execute(
        sa.select(one.number, one.operator, one.command, one.began, one.ended, one.exit_code)
        .add_columns(one.output if outputs else sa.literal(""))
        .where(table.c.migration == migration)
        .order_by(table.c.number.desc())
        .limit(most)
    )
    return [
        PageAction(number, operator, command, began, ended, exit_code, said or "")
        for number, operator, command, began, ended, exit_code, said in rows
    ]
