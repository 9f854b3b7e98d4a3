"""TLS to real servers of both flavours: each fault of a certificate, through each channel of the service.

The server's certificate is exchanged while it runs; the matrix itself is connections only.
"""

from __future__ import annotations

import pickle
import shutil
import ssl
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cryptography import x509

from migrate.chunks import sessions
from migrate.chunks.task_settings import for_tasks
from migrate.copy.load_sampler import LoadSampler
from migrate.copy.throttle import Limits
from migrate.model.errors import MigrateError, ServerError
from migrate.mysql.connection import connect
from migrate.publish.log.binlog import BinlogReader
from migrate.settings import Settings
from migrate.state import database
from migrate.target.pool import TargetPool
from sandbox.database import DatabaseServer
from sandbox.settings import Flavour
from tests.channels.certificates import DAY, Authority, Signed
from tests.forked import Migration
from tests.helpers import address, log_end, make_settings

PASSWORD = "Channel-secret-1"


class World(NamedTuple):
    server: DatabaseServer
    directory: Path  # of the files that the server has its certificate from
    mine: Authority
    other: Authority

    def show(self, signed: Signed) -> None:
        """Have new sessions shown this certificate."""
        shutil.copyfile(signed.certificate, self.directory / "server.pem")
        shutil.copyfile(signed.key, self.directory / "server.key")
        self.server.execute("FLUSH SSL" if self.server.flavour is Flavour.MARIADB else "ALTER INSTANCE RELOAD TLS")


@pytest.fixture(scope="module")
def world(flavour: Flavour, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("tls")
    mine, other = Authority(directory, "mine"), Authority(directory, "other")
    first = mine.sign("server", "127.0.0.1")
    options = {"ssl_ca": str(mine.ca), "ssl_cert": str(first.certificate), "ssl_key": str(first.key)}
    server = DatabaseServer(flavour, directory / "db", options=options)
    server.start()
    server.execute(
        f"CREATE USER certified@'%' IDENTIFIED BY '{PASSWORD}' REQUIRE X509",
        f"CREATE USER plain@'%' IDENTIFIED BY '{PASSWORD}'",
        "GRANT ALL ON *.* TO certified@'%'",
        "GRANT ALL ON *.* TO plain@'%'",
        "CREATE DATABASE d0",
        "CREATE DATABASE migrate_state",
    )
    yield World(server, directory, mine, other)
    server.kill()


def settings_of(world: World, user: str, tls: dict[str, Any]) -> Settings:
    where = {**address(world.server), "user": user, "password": PASSWORD, "tls": tls}
    return make_settings(
        state=where,
        sources=[{"name": "s", **where}],
        targets=[{"name": "t0", **where}],
        databases={name: {"target": "t0", "database": f"d{name[-1]}"} for name in ("ds_0", "ds_1")},
        copy={"throttle": {"replicas": [where]}},
    )


CIPHER = "SHOW SESSION STATUS LIKE 'Ssl_cipher'"


def queries(_world: World, settings: Settings) -> str:
    with closing(connect(settings.source("s"), "source 's'")) as connection:
        return str(connection.query(CIPHER)[0][1])


def stream(world: World, settings: Settings) -> str:
    reader = BinlogReader(settings.source("s"), 4711, 1.0, *log_end(world.server))
    try:
        reader.open()
        sock = reader._stream._stream_connection._sock
        return str(sock.cipher()) if isinstance(sock, ssl.SSLSocket) else ""
    finally:
        reader.close()


def target(_world: World, settings: Settings) -> str:
    pool = TargetPool(settings)
    try:
        return str(pool.server("t0").query(CIPHER)[0][1])
    finally:
        pool.close()


def state(_world: World, settings: Settings) -> str:
    with database.opened(settings.state) as engine, engine.connect() as connection:
        return str(connection.exec_driver_sql(CIPHER).fetchall()[0][1])


def task(_world: World, settings: Settings) -> str:
    """As in a task of Spark's, on a machine that has none of the files."""
    there = pickle.loads(pickle.dumps(for_tasks(settings)))  # noqa: S301 - our own
    files = [path for path in there.sources[0].tls.files.values() if path.exists()]
    away = {path: path.with_name(f"{path.name}.away") for path in files}
    for path in files:
        path.rename(away[path])
    try:
        return str(sessions.kept(there).source("s").query(CIPHER)[0][1].decode())
    finally:
        sessions.forget()
        for path in files:
            away[path].rename(path)


def replica(_world: World, settings: Settings) -> str:
    with closing(LoadSampler(settings, ())) as sampler:
        (reading,) = sampler.measure(Limits(1, max_replica_lag_seconds=1))
        session = sampler._measured[0].session
        if session is None:
            raise ServerError(reading.note)
        return str(session.query(CIPHER)[0][1])


class Case(NamedTuple):
    """What the server shows, and what our config has; expected: of the error, "" where there is a session."""

    name: str
    certificate: Callable[[World], Signed]
    tls: Callable[[World], dict[str, Any]]
    expected: str = ""
    user: str = "plain"


def trusting(world: World) -> dict[str, Any]:
    return {"ca": str(world.mine.ca)}


def with_client(signed: Callable[[World], Signed]) -> Callable[[World], dict[str, Any]]:
    def made(world: World) -> dict[str, Any]:
        certificate, key = signed(world)
        return {**trusting(world), "certificate": str(certificate), "key": str(key)}

    return made


def right(world: World) -> Signed:
    return world.mine.sign("right", "127.0.0.1")


def expiring(world: World) -> Signed:
    """MySQL loads none that has expired already."""
    left = timedelta(seconds=2) if world.server.flavour is Flavour.MYSQL else -DAY
    return world.mine.sign("old", "127.0.0.1", until=left)


def has_ended(signed: Signed) -> bool:
    return x509.load_pem_x509_certificate(signed.certificate.read_bytes()).not_valid_after_utc < datetime.now(UTC)


CASES = (
    Case("right", right, trusting),
    Case("wrong_authority", right, lambda world: {"ca": str(world.other.ca)}, "certificate is not accepted: "),
    Case("the_systems_authorities", right, lambda _: {"mode": "verify"}, "certificate is not accepted: "),
    Case("expired", expiring, trusting, "certificate has expired"),
    Case("other_host", lambda world: world.mine.sign("elsewhere", "db.internal"), trusting, "IP address mismatch"),
    Case(
        "named_host",
        lambda world: world.mine.sign("elsewhere", "db.internal"),
        lambda world: {**trusting(world), "server_name": "db.internal"},
    ),
    Case("client", right, with_client(lambda world: world.mine.sign("client")), user="certified"),
    Case("no_client", right, trusting, "wrong user or password", user="certified"),
    Case(
        "wrong_client",
        right,
        with_client(lambda world: world.other.sign("stranger")),
        "the server refused the TLS session: ",
        user="certified",
    ),
)
CHANNELS = (queries, stream, target, state, task, replica)


@pytest.mark.parametrize("case", CASES, ids=lambda one: one.name)
def test_a_certificate_decides_in_every_channel(world: World, case: Case) -> None:
    """Lost to who stands in the middle: passwords and rows."""
    world.show(shown := case.certificate(world))
    if case.name == "expired":
        Migration.wait(lambda: has_ended(shown), 10, "the certificate to expire")
    settings = settings_of(world, case.user, case.tls(world))
    for channel in CHANNELS:
        if not case.expected:
            assert channel(world, settings), f"{channel.__name__} is not encrypted"
            continue
        with pytest.raises(MigrateError) as caught:
            channel(world, settings)
        assert case.expected in caught.value.message, channel.__name__
        assert PASSWORD not in str(caught.value)


@pytest.fixture(scope="module")
def plain(world: World) -> World:
    """Its TLS switched off, for good."""
    if world.server.flavour is Flavour.MYSQL:
        (world.directory / "server.pem").write_text("no certificate")
        world.server.execute("ALTER INSTANCE RELOAD TLS NO ROLLBACK ON ERROR")
    else:
        world.server.kill()
        world.server.options.update(ssl_ca=None, ssl_cert=None, ssl_key=None)
        world.server.start()
    return world


@pytest.mark.parametrize("channel", CHANNELS, ids=lambda one: one.__name__)
def test_a_server_whose_tls_is_switched_off_gets_nothing(
    plain: World, channel: Callable[[World, Settings], str]
) -> None:
    """Last in this file."""
    with pytest.raises(MigrateError, match=r"but the server doesn't support it.* nothing was sent"):
        channel(plain, settings_of(plain, "plain", trusting(plain)))
    assert channel(plain, settings_of(plain, "plain", {"mode": "off"})) == "", "asked for, it is plain"
