"""A server's data directory put back to what it was: what a restored backup, or a crash without a flush, leaves."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sandbox.database import DatabaseServer


class Kept:
    """A server's data directory as it was at one moment; making it restarts the server."""

    def __init__(self, server: DatabaseServer, directory: Path) -> None:
        self._server, self._copy = server, directory
        server.kill()
        shutil.copytree(server.data, directory, ignore=shutil.ignore_patterns("*.sock*"))
        server.start()

    def put_back(self) -> None:
        """As often as wanted."""
        self._server.kill()
        shutil.rmtree(self._server.data)
        shutil.copytree(self._copy, self._server.data)
        self._server.start()


@contextmanager
def kept(server: DatabaseServer, directory: Path) -> Iterator[Kept]:
    """directory: where it is kept for the time of the block; it must not be there."""
    try:
        yield Kept(server, directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
