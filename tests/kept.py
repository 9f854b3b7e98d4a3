"""A server's data directory, or a state database, put back to what it was: what a restored backup, or a crash without a
flush, leaves."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pymysql

from sandbox.database import DatabaseServer
from tests.waiting import SLOW


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


class KeptState:
    """The state database of a migration as it was at one moment. It is dropped with `close()`."""

    def __init__(self, server: DatabaseServer, migration: str) -> None:
        self._server, self._name = server, f"{migration}_state"
        found = server.query(f"SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{self._name}'")
        self._tables = [str(table) for (table,) in found]
        copies = (f"CREATE TABLE {self._name}_kept.{one} AS SELECT * FROM {self._name}.{one}" for one in self._tables)
        server.execute(f"CREATE DATABASE {self._name}_kept", *copies)

    def put_back(self, *but: str, only: Sequence[str] = (), seconds: float = SLOW) -> None:
        """In one transaction, while processes use it. but: tables that stay as they are; only: all but these do."""
        deadline = time.monotonic() + seconds
        while not self._put([one for one in only or self._tables if one not in but]):
            assert time.monotonic() < deadline, "the state is locked"

    def _put(self, tables: list[str]) -> bool:
        with closing(self._server.connect(self._name)) as connection, connection.cursor() as cursor:
            connection.begin()
            try:
                for one in tables:
                    cursor.execute(f"DELETE FROM {one}")
                    cursor.execute(f"INSERT INTO {one} SELECT * FROM {self._name}_kept.{one}")
            except pymysql.err.OperationalError as error:
                if error.args[0] in (1205, 1213):
                    return False
                raise
            connection.commit()
        return True

    def close(self) -> None:
        self._server.execute(f"DROP DATABASE {self._name}_kept")
