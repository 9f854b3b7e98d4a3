"""The transaction that is being read: made with its first event, dropped with its last one."""

from __future__ import annotations

from migrate.publish.emit import Transaction
from migrate.publish.savepoints import Rows


class OpenTransaction:
    """What its events said so far."""

    def __init__(self, start: int, gtid: str = "", *, in_block: bool = False, is_xa: bool = False) -> None:
        """start: the position of its first event in its file. gtid: "" for an anonymous one."""
        self.start = start
        self.gtid = gtid
        self.in_block = in_block  # between BEGIN and its commit, where a statement ends nothing
        self.is_xa = is_xa
        self.row_events = 0
        self.is_ours = False  # a stream of this migration wrote it, and nothing of it is published
        self.has_rows = False  # of a selected table
        self.rows_at: Transaction | None = None  # where its rows stand, as the last row event had it
        self._before_rows: set[str] | None = None  # savepoints that stand before the first row of a selected table

    def savepoint(self, word: str, name: str, rows: Rows) -> bool:
        """Take in SAVEPOINT name, ROLLBACK TO name, or ROLLBACK, whose name is ""; False where that cannot be done.

        rows: what holds the rows that came so far.
        """
        before = self._before_rows
        if before is None:
            before = self._before_rows = set()
        if not self.has_rows:
            before.add(name)
        elif word == "SAVEPOINT":
            before.discard(name)
            rows.savepoint(name)
        else:
            return rows.rolled_back("" if name in before else name)
        return True
