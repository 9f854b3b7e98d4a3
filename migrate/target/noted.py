"""How many notes the state had of a partition before this database was written (invariant fence-compares).

What a consumer notes in the state (`migrate.state.notes`) no message says again once the rows that followed are here. A
state that lost its last commits together with the consumer that made them is known by this: it has fewer.
"""

from __future__ import annotations

from migrate.model.partition import Partition
from migrate.mysql.connection import Connection

_TABLE = "_migrate_noted"


def read(connection: Connection, partition: Partition) -> int:
    """0 where nothing was ever noted. Raises the driver's error."""
    row = connection.one(
        f"SELECT notes FROM {_TABLE} WHERE migration = %s AND topic_id = %s AND partition_no = %s",
        (partition.migration, partition.topic_id, partition.number),
    )
    return 0 if row is None else int(row[0])


def put(connection: Connection, partition: Partition, notes: int) -> None:
    """In the transaction that writes the rows behind so many notes. Raises the driver's error."""
    connection.execute(
        f"INSERT INTO {_TABLE} (migration, topic_id, partition_no, notes) VALUES (%s, %s, %s, %s)"
        " ON DUPLICATE KEY UPDATE notes = GREATEST(notes, %s)",
        (partition.migration, partition.topic_id, partition.number, notes, notes),
    )
