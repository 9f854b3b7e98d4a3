"""The log over TLS, from a server whose certificate is checked, with an event longer than one packet."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from migrate.publish.log import binlog
from migrate.publish.log.binlog import BinlogReader
from migrate.settings import Source, Tls
from sandbox.database import DatabaseServer
from sandbox.settings import Flavour
from tests.channels.certificates import Authority

LARGE = 17 * 1024 * 1024


@pytest.fixture
def server(flavour: Flavour, tmp_path: Path) -> Iterator[tuple[DatabaseServer, Path]]:
    """A server that speaks TLS, and the certificate of who signed its own."""
    authority = Authority(tmp_path)
    pem, secret = authority.sign("server", "127.0.0.1")
    made = DatabaseServer(flavour, tmp_path / "db", options={"ssl_cert": str(pem), "ssl_key": str(secret)})
    made.start()
    yield made, authority.ca
    made.kill()


def test_the_log_is_read_over_tls_whatever_the_length_of_an_event(server: tuple[DatabaseServer, Path]) -> None:
    source, ca = server
    source.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v LONGBLOB)", "FLUSH BINARY LOGS")
    sql = "SHOW MASTER STATUS" if source.flavour is Flavour.MARIADB else "SHOW BINARY LOG STATUS"
    file, position = source.query(sql)[0][:2]
    source.execute(
        "INSERT INTO d.t VALUES (1, 'small')",
        f"INSERT INTO d.t VALUES (2, REPEAT('x', {LARGE}))",
        "INSERT INTO d.t VALUES (3, 'last')",
    )
    settings = Source(
        name="main", host="127.0.0.1", port=source.port, user=source.user, password=source.password,
        tls=Tls(mode="verify", ca=ca),
    )  # fmt: skip
    reader = BinlogReader(settings, 4711, 1.0, str(file), int(position))
    reader.open()
    try:
        assert isinstance(reader._stream._stream_connection._sock, ssl.SSLSocket)
        rows = (event for event in reader.events() if event.type in binlog.ROWS)
        small, large, last = (next(rows) for _ in range(3))
    finally:
        reader.close()

    assert (b"small" in small.body, b"last" in last.body) == (True, True)
    assert large.body.endswith(b"x" * LARGE)
