"""Transactions that are prepared (XA) when a publisher begins: rows before its position that no SELECT sees."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from migrate.model.errors import ServerError
from migrate.mysql.connection import connect
from migrate.mysql.readable import BinlogPosition, visible_position
from migrate.settings import Source
from sandbox.database import DatabaseServer
from sandbox.settings import Flavour
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, wait
from tests.helpers import address, scratch, unique


def source_of(box: Sandbox, **more: Any) -> Source:
    return Source.model_validate({"name": "main", **address(box.source), **more})


@pytest.fixture
def prepared(box: Sandbox) -> Any:
    """A database whose `t` has a row of a transaction that is prepared, and what ends that."""
    xid = unique("xa")
    with scratch(box.source, "prepared") as database:
        box.source.execute("CREATE TABLE t (id INT PRIMARY KEY)", database=database)
        with closing(box.source.connect(database)) as session, session.cursor() as cursor:
            for statement in (
                f"XA START '{xid}'",
                "INSERT INTO t VALUES (1)",
                f"XA END '{xid}'",
                f"XA PREPARE '{xid}'",
            ):
                cursor.execute(statement)
        ended: list[str] = []

        def end(how: str) -> None:
            if not ended:
                box.source.execute(f"XA {how} '{xid}'")
                ended.append(how)

        yield box, database, xid, end
        end("ROLLBACK")


def test_a_position_is_given_once_what_was_prepared_before_it_can_be_read(prepared: Any) -> None:
    """Lost: its rows, before the position in the log, and committed after the copy had read their chunk."""
    box, database, xid, end = prepared
    found: list[BinlogPosition] = []
    rows: list[Any] = []

    def begin() -> None:
        with closing(connect(source_of(box), "source 'main'")) as connection:
            found.append(visible_position(connection, [(database, "t")], threading.Event()))
        rows.extend(box.source.query("SELECT id FROM t", database=database))

    with capture_logs() as logs:
        thread = threading.Thread(target=begin, daemon=True)
        thread.start()
        wait(lambda: logs, "it to be told")  # MySQL's lock waits for it, as long as the server runs
        assert found == []
        end("COMMIT")
        thread.join(SLOW)
    assert (len(found), rows) == (1, [(1,)])
    if box.flavour == "mariadb":
        assert f"X'{xid.encode().hex()}',X'',1" in logs[0]["xids"]


def test_who_stops_waiting_is_told_which_and_how_to_end_them(prepared: Any) -> None:
    box, database, xid, _ = prepared
    stop = threading.Event()
    stop.set()
    with closing(connect(source_of(box), "source 'main'")) as connection, pytest.raises(ServerError) as told:
        visible_position(connection, [(database, "t")], stop)
    assert (xid.encode().hex() in told.value.message) is (box.flavour == "mariadb")
    assert "`XA COMMIT`" in told.value.hint


def test_what_was_prepared_before_a_restart_is_waited_for_too(run_root: Path) -> None:
    """Lost: its rows, which a restart of MySQL recovers without a session."""
    server, xid = DatabaseServer(Flavour.MYSQL, run_root / "prepared", server_id=7), unique("xa")
    server.start()
    try:
        server.execute(
            "CREATE DATABASE kept",
            "CREATE TABLE kept.t (id INT PRIMARY KEY)",
            f"XA START '{xid}'",
            "INSERT INTO kept.t VALUES (1)",
            f"XA END '{xid}'",
            f"XA PREPARE '{xid}'",
        )
        server.kill()
        server.start()
        stop = threading.Event()
        stop.set()
        source = Source.model_validate({"name": "main", **address(server)})
        with closing(connect(source, "source 'main'")) as connection:
            with pytest.raises(ServerError) as told:
                visible_position(connection, [("kept", "t")], stop)
            assert "`XA COMMIT`" in told.value.hint
            server.execute(f"XA COMMIT '{xid}'")
            assert visible_position(connection, [("kept", "t")], threading.Event()).file
        assert server.query("SELECT id FROM kept.t") == ((1,),)
    finally:
        server.kill()
