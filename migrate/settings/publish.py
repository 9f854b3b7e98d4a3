"""How a publisher reads a source's log, and what it sends."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from migrate.settings.base import Positive, Seconds, Section


class Publish(Section):
    flush_seconds: Seconds = 1.0
    heartbeat_seconds: float = Field(default=1.0, gt=0, le=10)
    """How often an idle source is asked to say so. A publisher that waits for events notices a stop no later."""
    linger_seconds: float = Field(default=0.02, ge=0, le=1)
    """How long a change waits for others to share a request to Kafka: small transactions cost less with more."""
    position_store: Literal["database", "file", "memory"] = "database"
    position_directory: Path | None = None
    """With `file`: where the position files are; by default `positions` below `run_dir`."""
    transaction_rows: Positive = 1024
    batch_rows: Positive = 1024
    """Whole transactions go together up to so many rows; a transaction is never cut by it."""
    batch_seconds: float = Field(default=0.0, ge=0)
    """How long a transaction may wait for others to go with it; 0: those that one read brought go at once."""
    outstanding_bytes: Positive = 64 * 1024 * 1024
    oversized: Literal["stop", "park"] = "stop"
    """A row that makes a message above kafka.max_message_bytes: stop, or go on without it and name it in the status."""
    statements: Literal["stop", "verify"] = "stop"
    """A statement that the log has instead of the rows that it changed: stop, or go on, and nothing counts as equal
    until all tables are verified."""
    types: bool = False
    """Whether each message has the types of all columns (`mysqlType`), for readers of Canal's messages."""
    ddl_messages: bool = False
    """Whether statements on selected tables that the publisher lets pass are sent too, as Canal's DDL messages."""
