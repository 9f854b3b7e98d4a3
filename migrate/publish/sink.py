"""What a reader of a log gives its transactions to."""

from __future__ import annotations

from typing import Protocol

from migrate.model.coordinate import Coordinate
from migrate.model.table import Table
from migrate.publish import savepoints
from migrate.publish.decode.rows import RowEvent
from migrate.publish.emit import Transaction


class Sink(savepoints.Rows, Protocol):
    """What happens with what is read."""

    def begin(self, *, whole: bool) -> None:
        """whole: an XA transaction, of which its end alone says whether it is committed."""
        ...

    def rows(self, table: Table, transaction: Transaction, event: int, rows: RowEvent) -> None: ...
    def role(self, role: str, since: Coordinate, gtid: str, at: int) -> None:
        """The side has this role from a coordinate on. gtid, at (seconds since 1970): of the transaction."""
        ...

    def boundary(self, file: str, pos: int, event_time: int, gtid: str | None) -> bool:
        """A place between transactions; returns whether reading goes on from there. `gtid` is that of the transaction
        that ends here: "" for an anonymous one, None where none ends."""
        ...
