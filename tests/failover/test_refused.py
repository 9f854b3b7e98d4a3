"""Servers behind the address that a publisher must not go on with: each real one is refused with its reason."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from migrate.model.errors import ServerError, StopError
from migrate.mysql.catalog import server_facts
from migrate.mysql.connection import connect
from migrate.publish.source_selection import ReachedSource, SourceSelection
from migrate.publish.unacknowledged import UnacknowledgedTransactions
from migrate.settings import Failover, Source
from migrate.state.failover import AGAIN, GTID
from migrate.state.position import Position
from sandbox.database import DatabaseServer
from sandbox.ports import free_port
from sandbox.replication import replica_options
from sandbox.settings import Flavour
from sandbox.stack import Sandbox
from tests.helpers import address

SECONDS = 60


@pytest.fixture(scope="module")
def server(flavour: Flavour, run_root: Path) -> Iterator[DatabaseServer]:
    """A server that logs what it replicates."""
    own = DatabaseServer(flavour, run_root / f"refused-{flavour}", server_id=31, options=replica_options(flavour))
    own.start()
    yield own
    own.kill()


def source_of(server: DatabaseServer) -> Source:
    return Source.model_validate({"name": "main", **address(server)})


def stored_on(server: DatabaseServer) -> Position:
    """A position by file of this server."""
    with closing(connect(source_of(server), "source 'main'")) as connection:
        facts = server_facts(connection)
    now = datetime.now(UTC).replace(tzinfo=None)
    return Position("main", "", facts.server_id, facts.uuid, 4711, 3, "binlog.000001", 4, event_time=now)


def reach(
    server: DatabaseServer, stored: Position, published: UnacknowledgedTransactions | None = None
) -> ReachedSource:
    settings, beyond = Failover(down_seconds=0.5, back_seconds=SECONDS), published or UnacknowledgedTransactions()
    reached = SourceSelection(source_of(server), stored, settings, lambda _: beyond, threading.Event()).open()
    reached.connection.close()
    return reached


def refused(server: DatabaseServer, stored: Position) -> StopError:
    with pytest.raises(StopError) as caught:
        reach(server, stored)
    return caught.value


def test_the_same_server_is_no_other(server: DatabaseServer) -> None:
    assert reach(server, stored_on(server)).note is None


def test_another_uuid_under_the_same_server_id_is_another_server(server: DatabaseServer, flavour: Flavour) -> None:
    if flavour is Flavour.MARIADB:
        pytest.skip("MySQL only")
    stored = replace(stored_on(server), server_uuid="00000000-0000-0000-0000-000000000001", event_time=None)
    assert "is another server now (server_id 31" in refused(server, stored).message


def test_what_was_published_and_not_acknowledged_comes_again_by_gtid_and_counts_as_a_replay(
    server: DatabaseServer, flavour: Flavour, request: pytest.FixtureRequest
) -> None:
    """Lost: newer rows that a copy had read, under those that came again while nobody waited for them."""
    mysql = flavour is Flavour.MYSQL
    if mysql:  # this file's own one has no GTIDs
        server = request.getfixturevalue("mysql_box").source
    server.execute("CREATE DATABASE IF NOT EXISTS beyond")
    gtid = str(server.query(f"SELECT @@GLOBAL.{'gtid_executed' if mysql else 'gtid_binlog_pos'}")[0][0])
    last = f"{gtid.split(':')[0]}:1" if mysql else gtid
    stored = replace(stored_on(server), server_id=30, server_uuid="gone" if mysql else "", gtid_set=gtid)
    for published, scheme in ((UnacknowledgedTransactions(), GTID), (UnacknowledgedTransactions({last}, 5), AGAIN)):
        reached = reach(server, stored, published)
        assert reached.note is not None
        assert (reached.note.scheme, reached.note.doubt) == (scheme, "")
        assert reached.position is not None
        assert reached.position.gtid_set == gtid


def test_without_gtid_and_without_a_time_there_is_no_place(server: DatabaseServer) -> None:
    error = refused(server, replace(stored_on(server), server_id=30, event_time=None))
    assert "without GTID, and no time is known" in error.message
    assert "bring the old server back" in error.hint


def test_a_clock_behind_what_was_published_is_no_clock_to_go_by(server: DatabaseServer) -> None:
    ahead = datetime.now(UTC).replace(tzinfo=None) + timedelta(seconds=10 * SECONDS)
    error = refused(server, replace(stored_on(server), server_id=30, event_time=ahead))
    assert "behind the last published event" in error.message
    assert "set its clock right" in error.hint


def test_a_server_of_the_other_kind_is_refused(server: DatabaseServer, flavour: Flavour) -> None:
    mysql = flavour is Flavour.MYSQL
    stored = replace(stored_on(server), server_id=30, server_uuid="" if mysql else "some-uuid")
    was, now = ("MariaDB", "mysql") if mysql else ("MySQL", "mariadb")
    assert f"was {was} and is {now} now" in refused(server, stored).message
    with pytest.raises(StopError, match=f"was {was} and is {now} now"):
        reach_standby(source_of(server), stored)


def reach_standby(source: Source, stored: Position, stop: threading.Event | None = None) -> ReachedSource:
    """Of a stream whose source is the standby side."""
    settings = Failover(down_seconds=0.5, back_seconds=SECONDS)
    reached = SourceSelection(
        source, stored, settings, lambda _: UnacknowledgedTransactions(), stop or threading.Event(), lambda: True
    ).open()
    reached.connection.close()
    return reached


def test_of_the_standby_side_a_server_without_a_place_is_read_from_the_end_of_its_log(server: DatabaseServer) -> None:
    stored = replace(stored_on(server), server_id=30, event_time=None)
    reached = reach_standby(source_of(server), stored)
    assert (reached.position, reached.note) == (stored, None)
    assert reached.other is not None
    assert "without GTID, and no time is known" in reached.other.message


@pytest.mark.timeout(60)
def test_of_the_standby_side_the_next_address_is_read_from_the_end_of_its_log_when_the_first_is_down(
    server: DatabaseServer,
) -> None:
    """It was tried again and again, as one that might still take in what was published."""
    source, dead = behind_a_dead_one(server)
    long_ago = datetime.now(UTC).replace(tzinfo=None) - timedelta(days=9000)
    stored = replace(stored_on(server), address=dead, server_id=30, event_time=long_ago)
    reached = reach_standby(source, stored)
    assert reached.source.port == server.port
    assert reached.other is not None
    assert "no transaction boundary before" in reached.other.message


def test_of_the_standby_side_an_address_that_goes_on_exactly_comes_before_the_end_of_the_present_log(
    server: DatabaseServer, box: Sandbox
) -> None:
    """The present address was read from its end at once."""
    stored = replace(stored_on(box.source), address=f"{server.host}:{server.port}", event_time=None)
    for one in (server, box.source):
        one.execute(f"CREATE USER 'reach'@'%' IDENTIFIED BY '{server.password}'", "GRANT ALL ON *.* TO 'reach'@'%'")
    login = {"user": "reach", "addresses": (f"{box.source.host}:{box.source.port}",)}
    try:
        reached = reach_standby(source_of(server).model_copy(update=login), stored)
    finally:
        for one in (server, box.source):
            one.execute("DROP USER 'reach'@'%'")
    assert (reached.source.port, reached.other) == (box.source.port, None)


def behind_a_dead_one(server: DatabaseServer) -> tuple[Source, str]:
    """The server as the second address, and the first, where nobody answers."""
    port, there = free_port(), f"{server.host}:{server.port}"
    return source_of(server).model_copy(update={"port": port, "addresses": (there,)}), f"{server.host}:{port}"


def test_a_server_that_does_not_log_what_it_replicates_is_refused(flavour: Flavour, run_root: Path) -> None:
    options = {name: "OFF" if value == "ON" else value for name, value in replica_options(flavour).items()}
    own = DatabaseServer(flavour, run_root / f"silent-{flavour}", server_id=32, options=options)
    own.start()
    try:
        error = refused(own, replace(stored_on(own), server_id=30))
        source, dead = behind_a_dead_one(own)
        stop = threading.Event()
        threading.Timer(3.0, stop.set).start()
        with pytest.raises(ServerError, match="stopped while no address could be read"):  # nor of the standby side
            reach_standby(source, replace(stored_on(own), address=dead, server_id=30), stop)
    finally:
        own.kill()
    assert "does not log what it replicates" in error.message
    assert "log_slave_updates" in error.hint
