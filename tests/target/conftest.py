"""A target database with the service's own tables, on both servers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from migrate.mysql.connection import Connection
from migrate.state.record import Partition
from migrate.target import roles
from migrate.target.roles import Role
from sandbox.stack import Sandbox
from tests.helpers import scratch, service_tables, session, unique


@dataclass(frozen=True)
class TargetSide:
    """One target database; `one` and `two` are sessions of two processes."""

    box: Sandbox
    database: str
    one: Connection
    two: Connection

    def rows(self, table: str, order: str = "1") -> list[tuple[object, ...]]:
        return self.one.query(f"SELECT * FROM {table} ORDER BY {order}")


@pytest.fixture(scope="module")
def side(box: Sandbox) -> Iterator[TargetSide]:
    with scratch(box.targets[0], "target") as database:
        box.targets[0].execute(*service_tables(), database=database)
        impatient = {"innodb_lock_wait_timeout": 1}
        with session(box.targets[0], database) as one, session(box.targets[0], database, session=impatient) as two:
            yield TargetSide(box, database, one, two)


def standby(connection: Connection) -> str:
    """The name of a stream that writes here."""
    name = unique("m")
    roles.make(connection, name, Role.STANDBY, 1)
    return name


@pytest.fixture
def migration(side: TargetSide) -> str:
    return standby(side.one)


@pytest.fixture
def partition(migration: str) -> Partition:
    return Partition(migration, unique("topic"), 2)
