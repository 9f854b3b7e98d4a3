"""What a write transaction has to know of its database besides the rows: one question for all of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from migrate.model.table import TableId
from migrate.mysql.connection import Connection
from migrate.target.chunk_fence import WHOLE_TABLE
from migrate.target.fence import CHUNK_FENCE
from migrate.target.ledger import LEDGER
from migrate.target.parked import PARKED

_ASK = (
    f"SELECT 'closed', source, table_schema, table_name FROM {CHUNK_FENCE}"
    " WHERE migration = %s AND chunk = %s AND closed = 1"
    f" UNION ALL SELECT DISTINCT 'noted', source, place, '' FROM {LEDGER} WHERE migration = %s"
    f" UNION ALL SELECT DISTINCT 'parked', source, place, '' FROM {PARKED} WHERE migration = %s"
)


@dataclass(slots=True)
class Standing:
    closed: set[TableId] = field(default_factory=set)  # (source, database, table) that no copy fills
    noted: set[tuple[str, str]] = field(default_factory=set)  # (source, place) that the delete ledger names a key of
    parked: set[tuple[str, str]] = field(default_factory=set)  # (source, place) that anything is parked of


def read(connection: Connection, migration: str) -> Standing:
    """As the database has it now.

    To be asked inside the transaction that deletes, after its first statement: an answer from before could miss a copy
    begun since (rule 11). While chunks of a table are being planned every one of them counts as open.
    """
    found = Standing()
    for kind, source, first, second in connection.query(_ASK, (migration, WHOLE_TABLE, migration, migration)):
        match str(kind):
            case "closed":
                found.closed.add((str(source), str(first), str(second)))
            case "noted":
                found.noted.add((str(source), str(first)))
            case _:
                found.parked.add((str(source), str(first)))
    return found
