"""The log over TLS, from a server whose certificate is checked, with an event longer than one packet."""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from migrate.publish.log import binlog
from migrate.publish.log.binlog import BinlogReader
from migrate.settings import Source, Tls
from sandbox.database import DatabaseServer
from sandbox.settings import Flavour

LARGE = 17 * 1024 * 1024


def certificate(directory: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, secret = directory / "server.pem", directory / "server.key"
    pem.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.touch(mode=0o600)
    secret.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return pem, secret


@pytest.fixture
def server(flavour: Flavour, tmp_path: Path) -> Iterator[tuple[DatabaseServer, Path]]:
    """A server that speaks TLS, and the certificate that proves it."""
    pem, secret = certificate(tmp_path)
    made = DatabaseServer(flavour, tmp_path / "db", options={"ssl_cert": str(pem), "ssl_key": str(secret)})
    made.start()
    yield made, pem
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
