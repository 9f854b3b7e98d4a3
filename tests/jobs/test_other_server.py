"""A copy reads the server that the publisher reads, whatever the source's address leads to."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from jobs import full_copy
from migrate.copy import recopy
from migrate.model.errors import ServerError
from migrate.mysql.catalog import server_facts
from migrate.mysql.connection import connect
from migrate.settings import Settings
from migrate.state import position
from sandbox.stack import Sandbox
from tests.copy.setup import Laid, lay, spread
from tests.failover.support import Forwarder
from tests.helpers import server_of, unique
from tests.waiting import until

ROWS = 1000
CREATE = "CREATE TABLE {t} (id INT PRIMARY KEY, v VARCHAR(9))"


def filled(first: int, value: str) -> list[str]:
    """Every second number."""
    rows = [f"({number}, '{value}')" for number in range(first, ROWS, 2)]
    return [f"INSERT INTO {{t}} VALUES {', '.join(rows)}"]


class Behind:
    """A migration whose source's address can lead to a server that is behind: it has rows that were deleted since, and
    older values."""

    def __init__(self, box: Sandbox, run_dir: Path, forwarder: Forwarder) -> None:
        self.address, self.old = forwarder, box.targets[0]
        account = {"user": unique("its"), "password": unique("password")}
        for server in (box.source, self.old):
            server.execute(
                f"CREATE USER '{account['user']}'@'%' IDENTIFIED BY '{account['password']}'",
                f"GRANT ALL ON *.* TO '{account['user']}'@'%'",
            )
        source = {"name": "main", "host": forwarder.host, "port": forwarder.port, **account}
        extra = {"sources": [source], "copy": {"chunk_rows": 50, "chunks_at_once": 2, "master": "local[2]"}}
        self.laid: Laid = lay(box, run_dir, CREATE, spread("id", "t"), fill=filled(2, "new"), extra=extra)
        name = self.laid.source
        self.old.execute(f"DROP DATABASE IF EXISTS {name}", f"CREATE DATABASE {name}")
        every = [*filled(1, "deleted"), *filled(2, "old")]
        self.old.execute(*(one.replace("{t}", "t") for one in (CREATE, *every)), database=name)

    def sessions(self) -> int:
        """That were begun with the server that is behind."""
        return self.address.served[self.old.port]

    def read_by_publisher(self, settings: Settings) -> None:
        """As after its failover to the server that is behind."""
        with closing(connect(server_of(self.old), "source 'main'")) as session:
            facts = server_facts(session)
        with self.laid.state().begin() as connection:
            found = position.load(connection, settings.name, "main")
            assert found is not None
            moved = replace(found, server_id=facts.server_id, server_uuid=facts.uuid, incarnation=2)
            position.save(connection, settings.name, moved)


@pytest.fixture
def behind(box: Sandbox, tmp_path: Path) -> Iterator[Behind]:
    with closing(Forwarder(box.source)) as forwarder:
        yield Behind(box, tmp_path, forwarder)


@pytest.mark.usefixtures("spark")
def test_rows_of_a_server_that_the_publisher_does_not_read_are_not_copied(behind: Behind) -> None:
    """Lost: rows that were deleted came back, and older values were taken for the present ones, where the address led
    to a replica that was behind what was published before the table's first chunk."""
    laid, left = behind.laid, threading.Event()

    def leave(*_: object) -> None:
        if left.is_set():
            return
        left.set()
        behind.address.switch(behind.old)
        threading.Thread(target=come_back).start()

    def come_back() -> None:
        until(lambda: behind.sessions() >= 3, "the copy asks the server that is behind")
        behind.address.switch(laid.box.source)

    result = full_copy.run(laid.settings, progress=leave)
    assert behind.sessions() >= 3
    assert sorted(row for rows in laid.target_rows().values() for row in rows) == sorted(laid.source_rows())
    assert result.rows_inserted == ROWS // 2 - 1


def test_a_copy_that_is_begun_again_waits_at_no_other_server(behind: Behind) -> None:
    """Lost: as above, where a table was opened again: what was waited for was the end of another server's log."""
    laid = behind.laid
    behind.address.switch(behind.old)
    with pytest.raises(ServerError, match="this is not the server that the publisher reads") as refused:
        recopy.wait_until_readable(laid.state(), laid.settings, laid.table.table)
    assert "migrate publish" in refused.value.hint
    behind.read_by_publisher(laid.settings)
    recopy.wait_until_readable(laid.state(), laid.settings, laid.table.table)
