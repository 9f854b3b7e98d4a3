"""Where a publisher keeps its position: the state database, a file beside it, or its memory.

The state database has the position with every store, as `status`, `drain` and a rewind read it there. With `file` the
file counts at a start: it was written first. Only a rewind or a failover in the state has a higher incarnation, and
only a state that was put back has counted fewer of the publisher's transactions than when the file was written.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import asdict, fields
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from migrate import private
from migrate.model.errors import Code, StopError
from migrate.settings import Settings
from migrate.state.position import Position

_FORMAT = "migrate position 1"


class PositionStore(Protocol):
    def load(self, in_state: Position | None) -> Position | None:
        """The stored position, given the one in the state database; None for a publisher that never ran.

        Raises StopError when what is there cannot be believed.
        """
        ...

    def is_behind(self, writes: int | None) -> bool:
        """Whether the state, with that count of the publisher's transactions, lacks some from before the last save."""
        ...

    def save(self, position: Position, writes: int = 0) -> None:
        """writes: the count in the state before. Raises OSError; the position before stays whole then."""
        ...


def store_of(settings: Settings, source: str) -> PositionStore:
    publish = settings.publish
    if publish.position_store == "file":
        directory = publish.position_directory or settings.run_dir / "positions"
        return FileStore(directory / f"{settings.name}.{source}.position")
    return MemoryStore() if publish.position_store == "memory" else StateStore()


class StateStore:
    """The state database itself, which the publisher writes in any case."""

    def load(self, in_state: Position | None) -> Position | None:
        return in_state

    def is_behind(self, writes: int | None) -> bool:
        return False

    def save(self, position: Position, writes: int = 0) -> None:
        pass


class MemoryStore:
    """For tests: a second run does not know how far the first one came, and must not guess."""

    def load(self, in_state: Position | None) -> Position | None:
        if in_state is not None:
            raise StopError(
                f"the position of source '{in_state.source}' was in the memory of a publisher that is gone",
                hint="publish.position_store: memory is for tests; start a new migration, or choose another store",
                code=Code.POSITION,
            )
        return None

    def is_behind(self, writes: int | None) -> bool:
        return False

    def save(self, position: Position, writes: int = 0) -> None:
        pass


class FileStore:
    """Three lines: the format, the position as JSON, the SHA-256 of both. Replaced as a whole, never changed."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self, in_state: Position | None) -> Position | None:
        try:
            raw = self._path.read_bytes()
        except FileNotFoundError:
            if in_state is None:
                return None
            raise StopError(
                f"position file {self._path} is missing; the state database has {in_state.file}:{in_state.pos}",
                hint="bring it back, or set publish.position_store: database to continue from there",
                code=Code.POSITION,
            ) from None
        except OSError as error:
            raise StopError(
                f"position file {self._path} cannot be read: {error.strerror}", code=Code.POSITION
            ) from None
        found, writes = self._parse(raw)
        if in_state is None and writes:
            raise StopError(
                f"position file {self._path} has {found.file}:{found.pos}, and the state database none: the state"
                " database was put back",
                hint="bring the state database back as it was, or start a new migration and copy again",
                code=Code.POSITION,
            )
        if in_state is None or in_state.incarnation == found.incarnation:
            # the state has what was acknowledged behind its own position, and nothing of what follows
            return found if in_state is None else min(found, in_state, key=lambda one: one.coordinate)
        return in_state if in_state.incarnation > found.incarnation else found

    def is_behind(self, writes: int | None) -> bool:
        try:
            return self._parse(self._path.read_bytes())[1] > (writes or 0)
        except OSError:
            return False  # `load` says why

    def _parse(self, raw: bytes) -> tuple[Position, int]:
        """With the count of transactions that the state had then; 0 in files of an earlier version."""
        head, _, rest = raw.partition(b"\n")
        body, _, digest = rest.partition(b"\n")
        if head.decode("utf-8", "replace") != _FORMAT or digest.strip().decode("ascii", "replace") != _digest(body):
            raise StopError(
                f"position file {self._path} is torn or changed: its checksum does not fit ({len(raw)} bytes)",
                hint="set publish.position_store: database to continue from what the state database has",
                code=Code.POSITION,
            )
        values: dict[str, Any] = json.loads(body)
        if values["event_time"] is not None:
            values["event_time"] = datetime.fromisoformat(values["event_time"])
        writes = int(values.pop("writes", 0))
        if set(values) != {field.name for field in fields(Position)}:
            raise StopError(f"position file {self._path} is of another version of this program", code=Code.POSITION)
        return Position(**values), writes

    def save(self, position: Position, writes: int = 0) -> None:
        """Written beside, brought to the disk, put in place, and the directory brought to the disk."""
        private.directory(self._path.parent)
        values = {**asdict(position), "event_time": position.event_time and position.event_time.isoformat()}
        body = json.dumps({**values, "writes": writes}, sort_keys=True).encode()
        beside = self._path.with_name(self._path.name + ".new")
        try:
            with os.fdopen(private.opened(beside), "wb") as file:
                file.truncate()
                file.write(b"\n".join([_FORMAT.encode(), body, _digest(body).encode(), b""]))
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, self._path)
        except OSError:
            with suppress(OSError):
                beside.unlink()
            raise
        directory = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def _digest(body: bytes) -> str:
    return hashlib.sha256(_FORMAT.encode() + b"\n" + body).hexdigest()
