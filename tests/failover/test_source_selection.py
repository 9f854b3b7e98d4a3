"""Which address is read: the present one while it answers, the next when it stays down, never one that refuses us."""

from __future__ import annotations

import threading
import time
from contextlib import closing

import pytest

from migrate.model.errors import ServerError
from migrate.mysql.catalog import server_facts
from migrate.mysql.connection import connect
from migrate.publish.log.binlog import BinlogReader
from migrate.publish.source_selection import ReachedSource, SourceSelection
from migrate.publish.unacknowledged import UnacknowledgedTransactions
from migrate.settings import Failover, Source
from migrate.state.position import Position
from sandbox.ports import HOST, free_port
from sandbox.stack import Sandbox
from tests.waiting import SLOW


def source_of(box: Sandbox, *, port: int | None = None, addresses: tuple[str, ...] = (), **more: object) -> Source:
    login = {"user": box.source.user, "password": box.source.password, **more}
    return Source.model_validate(
        {"name": "main", "host": HOST, "port": port or box.source.port, "addresses": addresses, **login}
    )


def stored_at(box: Sandbox, address: str) -> Position:
    with closing(connect(source_of(box), "source 'main'")) as connection:
        facts = server_facts(connection)
    return Position("main", address, facts.server_id, facts.uuid, 4711, 3, "binlog.000001", 4, batch=5)


def reach(source: Source, stored: Position | None, *, down_seconds: float = 0.5) -> ReachedSource:
    def published(_: Position) -> UnacknowledgedTransactions:
        raise AssertionError("the server is the same")

    reached = SourceSelection(source, stored, Failover(down_seconds=down_seconds), published, threading.Event()).open()
    reached.connection.close()
    return reached


def test_an_address_that_stays_down_is_left_for_the_next_after_the_limit(box: Sandbox) -> None:
    dead = free_port()
    source = source_of(box, port=dead, addresses=(f"{HOST}:{free_port()}", f"{HOST}:{box.source.port}"))
    stored = stored_at(box, f"{HOST}:{dead}")
    began = time.monotonic()
    reached = reach(source, stored)
    assert time.monotonic() - began >= 0.5
    assert reached.source.port == box.source.port
    assert reached.note is None  # the same server, whose place means what it meant
    assert reached.position is not None
    assert (reached.position.address, reached.position.incarnation) == (f"{HOST}:{box.source.port}", 3)


def test_reading_goes_on_at_the_address_of_the_stored_position_not_at_the_first(box: Sandbox) -> None:
    present = f"{HOST}:{box.source.port}"
    source = source_of(box, port=free_port(), addresses=(present,))
    began = time.monotonic()
    assert reach(source, stored_at(box, present), down_seconds=SLOW).source.port == box.source.port
    assert time.monotonic() - began < SLOW, "the first address was waited for"


def test_the_only_address_is_told_to_be_down_at_once(box: Sandbox) -> None:
    with pytest.raises(ServerError, match="does not answer"):
        reach(source_of(box, port=free_port()), None, down_seconds=60)


def test_a_refused_login_is_no_reason_to_leave_an_address(box: Sandbox) -> None:
    source = source_of(box, addresses=(f"{HOST}:{free_port()}",), password="wrong")
    with pytest.raises(ServerError, match="wrong user or password"):
        reach(source, None)


def test_a_wait_for_an_address_ends_when_the_process_is_to_stop(box: Sandbox) -> None:
    source = source_of(box, port=free_port(), addresses=(f"{HOST}:{free_port()}",))
    stop = threading.Event()
    stop.set()
    with pytest.raises(ServerError, match="stopped while no address could be read"):
        SourceSelection(source, None, Failover(), lambda _: UnacknowledgedTransactions(), stop).open()


def test_a_server_that_changed_between_two_connections_is_not_read(box: Sandbox) -> None:
    """The address may lead elsewhere after it was looked at; a place by file means nothing there."""
    file = str(box.source.query("SHOW BINARY LOGS")[0][0])
    with closing(BinlogReader(source_of(box), 4711, 1.0, file, 4, server=(99, ""))) as reader:
        with pytest.raises(ServerError, match="is another server than a moment ago"):
            reader.open()
