"""A target database with the service's own tables, on both servers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from migrate.mysql.connection import Connection
from migrate.state.database import sql_steps
from migrate.state.record import Partition
from sandbox.stack import Sandbox
from tests.helpers import scratch, session, unique


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
        box.targets[0].execute(*(part for _, parts in sql_steps("target") for part in parts), database=database)
        impatient = {"innodb_lock_wait_timeout": 1}
        with session(box.targets[0], database) as one, session(box.targets[0], database, session=impatient) as two:
            yield TargetSide(box, database, one, two)


@pytest.fixture
def partition() -> Partition:
    return Partition(unique("m"), unique("topic"), 2)
