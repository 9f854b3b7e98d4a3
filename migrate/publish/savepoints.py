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
