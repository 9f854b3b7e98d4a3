"""What a server has by its GTIDs, and what can be read of it: not the same where a commit waits for a replica."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

from migrate.mysql.connection import connect
from migrate.mysql.readable import wait_until_executed_is_readable
from sandbox.database import DatabaseServer
from sandbox.stack import Sandbox
from tests.helpers import globally, scratch, server_of
from tests.waiting import SLOW, until

NAMES = {"mariadb": "rpl_semi_sync_master", "mysql": "rpl_semi_sync_source"}


@contextmanager
def waiting_for_replicas(server: DatabaseServer) -> Iterator[str]:
    """Every commit waits, in the log and unreadable, for a replica that there is not; the setting that says so."""
    name = NAMES[server.flavour]
    if server.flavour == "mysql":
        server.execute(f"INSTALL PLUGIN {name} SONAME 'semisync_source.so'")
    try:
        with globally(server, f"{name}_timeout", 600_000), globally(server, f"{name}_wait_point", "AFTER_SYNC"):
            yield f"{name}_enabled"
    finally:
        if server.flavour == "mysql":
            server.execute(f"UNINSTALL PLUGIN {name}")


class Looks(threading.Event):
    """Is never set, and knows how often it was waited for between two looks."""

    def __init__(self) -> None:
        super().__init__()
        self.number = 0

    def wait(self, timeout: float | None = None) -> bool:
        self.number += 1
        return super().wait(timeout)


def logged(server: DatabaseServer) -> int:
    """The end of the log."""
    return int(server.query("SHOW BINARY LOG STATUS" if server.flavour == "mysql" else "SHOW MASTER STATUS")[0][1])


def test_what_a_server_has_executed_can_be_read_once_it_was_waited_for(box: Sandbox) -> None:
    """Lost: a deleted row came back, as a copy read it at a replica that had the delete in its log only."""
    server = box.source
    executed = "@@GLOBAL.gtid_executed" if server.flavour == "mysql" else "@@GLOBAL.gtid_binlog_state"
    with (
        scratch(server, "seen") as database,
        waiting_for_replicas(server) as enabled,
        closing(connect(server_of(server), "source 's'")) as session,
    ):
        server.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY)")
        rows = f"SELECT id FROM {database}.t"
        before, has = logged(server), server.query(f"SELECT {executed}")
        looks, done = Looks(), threading.Event()

        def wait() -> None:
            wait_until_executed_is_readable(session, looks)
            done.set()

        writer = threading.Thread(target=server.execute, args=(f"INSERT INTO {database}.t VALUES (1)",))
        waits = threading.Thread(target=wait)
        with globally(server, enabled, 1):
            writer.start()
            until(lambda: logged(server) > before, "the row in the log")
            assert server.query(rows) == ()
            if server.flavour == "mysql":
                assert server.query(f"SELECT {executed}") == has, "it is executed once it can be read"
            else:
                assert server.query(f"SELECT {executed}") != has
                waits.start()
                until(lambda: looks.number >= 3, "more looks")
                assert not done.is_set()
        writer.join(SLOW)
        if server.flavour == "mariadb":
            waits.join(SLOW)
            assert done.is_set()
        assert server.query(rows) == ((1,),)
