"""The fence: one row per (migration, topic, partition, source) in every target database (invariant fenced-writer).

It holds the owner's epoch and the highest coordinate applied there, and changes as the first statement of every
transaction that writes rows. That keeps a consumer that lost its partition out, keeps a replay from being
applied twice, and marks the transaction as ours in the target's own binlog (invariant own-writes-marked).
"""

from __future__ import annotations

from collections.abc import Iterable

from migrate.model.coordinate import Coordinate
from migrate.model.errors import OwnershipLost
from migrate.mysql.connection import Connection
from migrate.state.record import Partition

FENCE = "_migrate_fence"
CHUNK_FENCE = "_migrate_chunk_fence"
FENCE_TABLES = frozenset({FENCE, CHUNK_FENCE})
_ROW = "migration = %s AND topic_id = %s AND partition_no = %s AND source = %s"


def take(
    connection: Connection, partition: Partition, sources: Iterable[str], epoch: int
) -> dict[str, Coordinate | None]:
    """Raise the epoch for a new owner and return what is applied here, by source (None: nothing yet).

    Waits for a transaction of the previous owner that is in flight. Raises OwnershipLost when a later owner
    was here already.
    """
    applied: dict[str, Coordinate | None] = {}
    for source in sources:
        key = (partition.migration, partition.topic_id, partition.number, source)
        with connection.transaction():
            row = connection.one(f"SELECT epoch FROM {FENCE} WHERE {_ROW} FOR UPDATE", key)
            if row is None:
                connection.execute(
                    f"INSERT INTO {FENCE} (migration, topic_id, partition_no, source, epoch, incarnation, file_no, tx,"
                    " ordinal) VALUES (%s, %s, %s, %s, %s, -1, 0, 0, 0)",
                    (*key, epoch),
                )
            elif int(row[0]) > epoch:
                raise _lost(partition, int(row[0]))
            else:
                connection.execute(f"UPDATE {FENCE} SET epoch = %s, writes = writes + 1 WHERE {_ROW}", (epoch, *key))
        applied[source] = read(connection, partition, source)
    return applied


def read(connection: Connection, partition: Partition, source: str) -> Coordinate | None:
    """The highest coordinate applied in this database, or None."""
    row = connection.one(
        f"SELECT incarnation, file_no, tx, ordinal FROM {FENCE} WHERE {_ROW}",
        (partition.migration, partition.topic_id, partition.number, source),
    )
    if row is None or int(row[0]) < 0:
        return None
    return Coordinate(*(int(part) for part in row))


def is_beyond(connection: Connection, migration: str, source: str, since: Coordinate) -> bool:
    """Whether this database has anything of a source from behind a place, whatever its partition."""
    rows = connection.query(
        f"SELECT incarnation, file_no, tx, ordinal FROM {FENCE} WHERE migration = %s AND source = %s",
        (migration, source),
    )
    return any(Coordinate(*map(int, row)) > since for row in rows)


def forget(connection: Connection, partition: Partition, source: str) -> None:
    """Nothing counts as applied of a source in a partition."""
    connection.execute(
        f"UPDATE {FENCE} SET incarnation = -1, writes = writes + 1 WHERE {_ROW}",
        (partition.migration, partition.topic_id, partition.number, source),
    )


def raise_to(
    connection: Connection, partition: Partition, source: str, epoch: int, coordinate: Coordinate | None
) -> None:
    """First statement of a write transaction: check the epoch and raise the coordinate (None: leave it).

    Raises OwnershipLost when the partition has another owner.
    """
    moved = "" if coordinate is None else "incarnation = %s, file_no = %s, tx = %s, ordinal = %s, "
    found = connection.execute(
        f"UPDATE {FENCE} SET {moved}writes = writes + 1 WHERE {_ROW} AND epoch = %s",
        (*(coordinate or ()), partition.migration, partition.topic_id, partition.number, source, epoch),
    )
    if found != 1:
        raise _lost(partition, None)


def hold(connection: Connection, migration: str) -> None:
    """Until the transaction ends, no stream of the migration writes in this database; waits for one that does."""
    connection.query(f"SELECT 1 FROM {FENCE} WHERE migration = %s FOR UPDATE", (migration,))


def _lost(partition: Partition, epoch: int | None) -> OwnershipLost:
    by = f" (epoch {epoch})" if epoch is not None else ""
    return OwnershipLost(
        f"partition {partition.number} has another owner{by}", hint="this process ends; nothing was written"
    )
