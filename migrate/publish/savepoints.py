"""Rolled-back rows in the log: servers log them, and what took them back, where tables without transactions, or
temporary ones, changed in the transaction too (MariaDB knowledge base, "Binary Log Formats")."""

from __future__ import annotations

from typing import Protocol

HINT_SIZE = "raise publish.transaction_rows and publish.outstanding_bytes above it"
HINT = f"{HINT_SIZE} and start again; once drained, `migrate verify --repair` repairs what was written of it"


class Rows(Protocol):
    """The rows of the transaction that is being read. rolled_back: False where some went on already."""

    def savepoint(self, name: str) -> None: ...
    def rolled_back(self, name: str) -> bool: ...


class Savepoints:
    """Of one transaction after the other."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._before: set[str] = set()  # that stand before the first selected row

    def clear(self) -> None:
        self._before.clear()

    def met(self, word: str, name: str, *, selected: bool) -> bool:
        """Take in SAVEPOINT name, ROLLBACK TO name, or ROLLBACK, whose name is ""; False where that cannot be done.

        selected: whether rows of selected tables came before it in its transaction.
        """
        if not selected:
            self._before.add(name)
        elif word == "SAVEPOINT":
            self._before.discard(name)
            self._rows.savepoint(name)
        else:
            return self._rows.rolled_back("" if name in self._before else name)
        return True
