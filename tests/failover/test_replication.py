"""The sandbox's replicas are what failover tests rest on: they apply everything, and keep it when promoted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.database import DatabaseServer
from sandbox.replication import follow, pair, promote, wait_until_applied
from sandbox.settings import Flavour
from tests.helpers import unique


@pytest.fixture(params=[True, False], ids=["gtid", "file"])
def servers(
    request: pytest.FixtureRequest, flavour: Flavour, run_root: Path
) -> Iterator[tuple[DatabaseServer, DatabaseServer]]:
    primary, replica = pair(flavour, run_root / unique("pair"), gtid=request.param)
    try:
        primary.start()
        replica.start()
        follow(replica, primary, gtid=request.param)
        yield primary, replica
    finally:
        primary.kill()
        replica.kill()


def test_a_replica_promoted_after_a_crash_has_what_it_received_and_takes_writes(
    servers: tuple[DatabaseServer, DatabaseServer],
) -> None:
    primary, replica = servers
    primary.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)", "INSERT INTO d.t VALUES (1), (2)")
    wait_until_applied(replica, primary)
    primary.kill()
    promote(replica)
    replica.execute("INSERT INTO d.t VALUES (3)")
    assert replica.query("SELECT id FROM d.t ORDER BY id") == ((1,), (2,), (3,))
    events = replica.query(f"SHOW BINLOG EVENTS IN '{replica.query('SHOW BINARY LOGS')[-1][0]}'")
    commits = [int(row[3]) for row in events if row[2] == "Xid"]
    assert commits == [11, 12]  # the replica logs what it applied under the id of the server it comes from
