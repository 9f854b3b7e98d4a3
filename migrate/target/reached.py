"""Up to which message a target database has each partition (invariant fence-compares).

Each transaction of a consumer names the offset, the epoch and the holder that it expects, and raises the offset. What
is found instead tells what was lost: a lower offset or epoch, that this database came back without committed
transactions (a crash without a flush, a failover to a lagging replica, a restored backup); a holder of the same or a
later epoch whom the state does not know, that the state database did. Nothing is written then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import pymysql

from migrate.model.coordinate import Coordinate
from migrate.model.errors import OwnershipLost, ReadAgain, ServerError
from migrate.model.message import CANAL
from migrate.model.partition import Partition
from migrate.mysql.connection import Connection
from migrate.mysql.errors import NO_SUCH_TABLE, number
from migrate.state.reached import DatabaseName
from migrate.target import fence, noted
from migrate.target.roles import missing

REACHED = "_migrate_reached"
NOTHING = -1
"""Instead of an offset: of a database that was never written."""
_ROW = "migration = %s AND topic_id = %s AND partition_no = %s"


class Claim(NamedTuple):
    """A partition as the holder of its lease writes it."""

    partition: Partition
    epoch: int
    holder: str

    @property
    def key(self) -> tuple[str, str, int]:
        """Of its row."""
        return self.partition.migration, self.partition.topic_id, self.partition.number


class Remaining(NamedTuple):
    """What a database has of a partition that it had more of."""

    offset: int  # what it gets of the messages before, it has
    active: bool  # whether applications write there


class ReachedBefore(NamedTuple):
    """What the target databases have of a partition that is taken."""

    behind: Mapping[DatabaseName, Remaining]  # those that have less than they had
    most: int  # the offset that the foremost has come to; NOTHING where none was ever written
    notes: int = 0  # how many notes the state had of it before the last of their transactions that followed any


class DatabaseBehind(ReadAgain):
    """A database lost transactions that it had committed; nothing was written. What Kafka has is applied again."""

    def __init__(self, claim: Claim, where: str, has: int, expected: int) -> None:
        had = f"had it up to {expected}" if has < expected else "had written more of what is behind"
        super().__init__(
            f"{where} lost committed transactions: it has partition {claim.partition.number} up to offset {has},"
            f" and {had}",
            hint="what the broker still has is applied again by itself; `migrate status` names the rest",
        )


class StateBehind(ServerError):  # noqa: N818 - it says what is so
    """A database knows a later holder of the partition than the state: the state lost committed transactions."""

    def __init__(self, claim: Claim, where: str, epoch: int) -> None:
        super().__init__(
            f"{where} knows epoch {epoch} of partition {claim.partition.number}, and the state {claim.epoch}: the state"
            " database was put back",
            hint="the lease gets a later epoch by itself",
        )
        self.epoch = epoch


class TakenPartition(NamedTuple):
    """What a database has of a partition."""

    offset: int  # that it had come to: what it gets of the messages before, it has; NOTHING where never written
    applied: dict[str, Coordinate | None]  # the highest coordinate by source; None: nothing yet
    notes: int  # that the state had before (`migrate.target.noted`)


def take(connection: Connection, claim: Claim, sources: Iterable[str], at_most: int | None = None) -> TakenPartition:
    """Become the writer here (invariant fenced-writer).

    at_most: the offset from which on the broker has other messages by now, if it has.

    Waits for a transaction of the former writer in flight. Raises: StateBehind where another holder has this epoch or
    a later one; NoRole where `migrate init` did not make the table; OwnershipLost; the driver's error.
    """
    offset = _take(connection, claim, at_most)
    if at_most is not None:
        fence.forget(connection, claim.partition, CANAL)  # whose messages are ordered by offsets, which come again
    applied = fence.take(connection, claim.partition, sources, claim.epoch)
    try:
        return TakenPartition(offset, applied, noted.read(connection, claim.partition))
    except pymysql.MySQLError as error:
        if number(error) == NO_SUCH_TABLE:
            raise missing(connection.name, claim.partition.migration) from error
        raise


def _take(connection: Connection, claim: Claim, at_most: int | None) -> int:
    try:
        with connection.transaction():
            row = connection.one(f"SELECT epoch, holder, next_offset FROM {REACHED} WHERE {_ROW} FOR UPDATE", claim.key)
            if row is None:
                connection.execute(
                    f"INSERT INTO {REACHED} (migration, topic_id, partition_no, epoch, holder, next_offset)"
                    " VALUES (%s, %s, %s, %s, %s, %s)",
                    (*claim.key, claim.epoch, claim.holder, NOTHING),
                )
                return NOTHING
            if int(row[0]) >= claim.epoch and (int(row[0]), str(row[1])) != claim[1:]:
                raise StateBehind(claim, connection.name, int(row[0]))
            has = int(row[2])
            connection.execute(
                f"UPDATE {REACHED} SET epoch = %s, holder = %s, next_offset = %s, writes = writes + 1 WHERE {_ROW}",
                (claim.epoch, claim.holder, has if at_most is None else min(has, at_most), *claim.key),
            )
            return has
    except pymysql.MySQLError as error:
        if number(error) == NO_SUCH_TABLE:
            raise missing(connection.name, claim.partition.migration) from error
        raise


def every(connection: Connection, migration: str) -> dict[Partition, int]:
    """How far this database has each partition. Raises NoRole where the table is not there; the driver's error."""
    try:
        rows = connection.query(
            f"SELECT topic_id, partition_no, next_offset FROM {REACHED} WHERE migration = %s", (migration,)
        )
    except pymysql.MySQLError as error:
        if number(error) == NO_SUCH_TABLE:
            raise missing(connection.name, migration) from error
        raise
    return {Partition(migration, str(row[0]), int(row[1])): int(row[2]) for row in rows}


def raise_to(connection: Connection, claim: Claim, expected: int, end: int, writes: int = 0) -> int:
    """First in each transaction that writes rows: this database has the partition up to `expected` at least, and
    will have it up to `end`.

    Args: writes: how many transactions it counted when the owner wrote it last; of a batch of several, the first ones
    do not raise the offset. Returns how many it counts with this one. Raises: Behind when it has not; OwnershipLost
    when another one took the partition; the driver's error.
    """
    found = connection.execute(
        f"UPDATE {REACHED} SET next_offset = GREATEST(next_offset, %s), writes = LAST_INSERT_ID(writes + 1)"
        f" WHERE {_ROW} AND epoch = %s AND holder = %s AND next_offset >= %s AND writes >= %s",
        (end, *claim.key, claim.epoch, claim.holder, expected, writes),
    )
    if found == 1:
        return int(connection.raw.insert_id())  # type: ignore[no-untyped-call]
    row = connection.one(f"SELECT epoch, holder, next_offset FROM {REACHED} WHERE {_ROW}", claim.key)
    epoch, holder, has = (0, "", NOTHING) if row is None else (int(row[0]), str(row[1]), int(row[2]))
    if epoch > claim.epoch or (epoch == claim.epoch and holder != claim.holder):
        raise OwnershipLost(
            f"partition {claim.partition.number} has another owner (epoch {epoch})",
            hint="this process ends; nothing was written",
        )
    raise DatabaseBehind(claim, connection.name, has, expected)
