"""The lock on the tables of a side that is left: who keeps it, who is in its way, and for how long it holds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from migrate.cutover.server import Server, Session
from migrate.model.errors import ServerError
from migrate.settings import Source
from sandbox.stack import Sandbox
from tests.helpers import address, scratch


@pytest.fixture
def database(box: Sandbox) -> Iterator[str]:
    """With a table `t`."""
    with scratch(box.source, "locking") as name:
        box.source.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY)")
        yield name


@pytest.fixture
def server(box: Sandbox, database: str) -> Iterator[Server]:
    with closing(Server(Source.model_validate({"name": "main", **address(box.source)}), "source")) as made:
        yield made


def nobody(sessions: list[Session]) -> None:
    assert sessions == []


def test_locks_of_a_machine_that_says_nothing_more_are_ended_by_the_server(
    box: Sandbox, server: Server, database: str
) -> None:
    server.lock([(database, "t")], 1, 3, nobody)
    with closing(box.source.connect(database)) as writer, writer.cursor() as cursor:
        cursor.execute("SET SESSION lock_wait_timeout = 1")
        with pytest.raises(Exception, match="Lock wait timeout"):
            cursor.execute("INSERT INTO t VALUES (1)")
        cursor.execute("SET SESSION lock_wait_timeout = 60")
        cursor.execute("INSERT INTO t VALUES (1)")
    with pytest.raises(ServerError):
        server.still_locked()
