"""Messages that cannot be applied and that a person has decided to leave out, with their bytes and the reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.mysql import insert

from migrate.model.partition import Partition
from migrate.state import since_verification
from migrate.state.columns import how_many, of_partition
from migrate.state.database import metadata

table = sa.Table(
    "left_out",
    metadata,
    *of_partition(),
    sa.Column("message_offset", sa.BigInteger, primary_key=True),
    sa.Column("value", sa.LargeBinary),
    sa.Column("refusal", sa.Text),
    sa.Column("reason", sa.Text),
    sa.Column("created", sa.DateTime),
    since_verification.column(),
)


@dataclass(frozen=True, slots=True)
class LeftOut:
    partition: Partition
    offset: int
    size: int  # bytes of the message
    refusal: str  # why its partition stood still
    reason: str
    since: datetime


def note(connection: sa.Connection, partition: Partition, offset: int, value: bytes, refusal: str, reason: str) -> None:
    """Leave a message out; said again, the new reason counts."""
    new = {**partition.row, "message_offset": offset, "value": value, "refusal": refusal, "reason": reason}
    new[since_verification.COLUMN] = since_verification.began(connection)
    connection.execute(insert(table).values(new).on_duplicate_key_update(reason=reason))


def reason(connection: sa.Connection, partition: Partition, offset: int) -> str | None:
    """Why a message is left out; None: it is not."""
    found = connection.execute(
        sa.select(table.c.reason).where(
            table.c.topic_id == partition.topic_id,
            table.c.partition_no == partition.number,
            table.c.message_offset == offset,
        )
    ).scalar()
    return None if found is None else str(found)


def every(connection: sa.Connection, migration: str) -> list[LeftOut]:
    """By partition and offset."""
    size = sa.func.length(table.c.value)
    rows = connection.execute(
        sa.select(
            table.c.topic_id,
            table.c.partition_no,
            table.c.message_offset,
            size,
            table.c.refusal,
            table.c.reason,
            table.c.created,
        )
        .where(table.c.migration == migration)
        .order_by(table.c.topic_id, table.c.partition_no, table.c.message_offset)
    )
    return [LeftOut(Partition(migration, row[0], int(row[1])), int(row[2]), int(row[3]), *row[4:]) for row in rows]


def count(connection: sa.Connection, migration: str, verification: int | None = None) -> int:
    """verification: those that were left out once this one had begun."""
    return how_many(
        connection, table, [table.c.migration == migration, *since_verification.unsettled(table, verification)]
    )


class Reasons:
    """What the consumer and the merger ask when a message cannot be applied."""

    def __init__(self, run: Callable[[Callable[[sa.Connection], Any]], Any]) -> None:
        """run: runs an action in a transaction of the state database."""
        self._run = run

    def reason(self, partition: Partition, offset: int) -> str | None:
        found: str | None = self._run(lambda connection: reason(connection, partition, offset))
        return found
