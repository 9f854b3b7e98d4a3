"""Tables that were added to a migration whose publisher had begun, and tables that were removed from it.

An added table's changes count from a place in its source's log at which every earlier row can be read: what is before
it, rows and statements, is the copy's.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum

import sqlalchemy as sa
from sqlalchemy.dialects.mysql import insert

from migrate.model.coordinate import Coordinate, file_number
from migrate.model.table import TableId
from migrate.state import columns
from migrate.state.database import metadata


class MemberStage(StrEnum):
    WAITING = "waiting"  # added; no publisher has begun with it
    JOINING = "joining"  # its place is known, and still ahead of the publisher
    JOINED = "joined"  # the publisher was there
    REMOVED = "removed"


table = sa.Table(
    "membership",
    metadata,
    *columns.of_table(key=True),
    sa.Column("stage", sa.String(16)),
    sa.Column("incarnation", sa.Integer),
    sa.Column("file", sa.String(255)),
    sa.Column("pos", sa.BigInteger),
    sa.Column("gtid_set", sa.Text),
    sa.Column("server_id", sa.BigInteger),
    sa.Column("server_uuid", sa.String(64)),
)


@dataclass(frozen=True, slots=True)
class Member:
    """Where a table stands, and the place that its changes count from; file: empty while there is none."""

    stage: MemberStage
    incarnation: int = 0
    file: str = ""
    pos: int = 0
    gtid_set: str = ""
    server_id: int = 0
    server_uuid: str = ""

    @property
    def begun(self) -> bool:
        """Whether the publisher was at its place, so that the copy may read."""
        return self.stage is MemberStage.JOINED

    @property
    def since(self) -> Coordinate | None:
        """No message from before this coordinate counts; None: none counts."""
        if self.stage not in (MemberStage.JOINING, MemberStage.JOINED):
            return None
        return Coordinate(self.incarnation, file_number(self.file), self.pos, 0)


def every(connection: sa.Connection, migration: str) -> dict[TableId, Member]:
    """Every table that was not there from the beginning on, or is not there now."""
    wanted = [table.c[name] for name in Member.__slots__]
    rows = connection.execute(
        sa.select(table.c.source, table.c.table_schema, table.c.table_name, *wanted).where(
            table.c.migration == migration
        )
    )
    return {(row[0], row[1], row[2]): Member(MemberStage(row[3]), *row[4:]) for row in rows}


def get(connection: sa.Connection, migration: str, id_: TableId) -> Member | None:
    wanted = [table.c[name] for name in Member.__slots__]
    row = connection.execute(sa.select(*wanted).where(*columns.is_table(table, migration, id_))).one_or_none()
    return Member(MemberStage(row[0]), *row[1:]) if row else None


def put(connection: sa.Connection, migration: str, id_: TableId, member: Member) -> None:
    values = {**asdict(member), "stage": member.stage.value}
    row = {**columns.table_row(migration, id_), **values}
    connection.execute(insert(table).values(row).on_duplicate_key_update(values))


def forget(connection: sa.Connection, migration: str, id_: TableId) -> None:
    """As a table that is there from the beginning on."""
    connection.execute(sa.delete(table).where(*columns.is_table(table, migration, id_)))
