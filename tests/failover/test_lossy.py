"""A failover without GTID to a server that never received the last writes: verify names the rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.database import DatabaseServer
from sandbox.replication import promote, wait_until_applied
from sandbox.settings import Flavour
from sandbox.stack import Sandbox
from tests.failover.replicated import replicated
from tests.failover.support import wait

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


def clock(server: DatabaseServer) -> float:
    return float(server.query("SELECT UNIX_TIMESTAMP()")[0][0])


def test_rows_that_a_lossy_failover_without_gtid_lost_are_named_by_verify_until_they_are_mended(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path, run_root: Path
) -> None:
    mariadb = box.flavour is Flavour.MARIADB
    with replicated(box, kafka, tmp_path, run_root, gtid=False) as made:
        database = made.flow.database
        made.primary.execute(
            *(f"INSERT INTO orders VALUES ({key}, {key}, {key}, '{key}')" for key in range(1, 21)), database=database
        )
        before = clock(made.primary)
        wait_until_applied(made.replica, made.primary)
        made.replica.execute("STOP SLAVE" if mariadb else "STOP REPLICA")
        wait(lambda: clock(made.primary) >= before + 3, "a time that going back does not reach over")
        made.primary.execute(
            "INSERT INTO orders VALUES (21, 21, 21, '21')",
            "UPDATE orders SET value = 0 WHERE id = 5",
            "UPDATE orders SET user_id = user_id + 1 WHERE id = 6",  # to another shard
            "DELETE FROM orders WHERE id = 7",
            database=database,
        )
        made.flow.drain()
        if mariadb:  # it always has GTIDs, so what the publisher stored is taken away
            made.forget_gtids()
        made.primary.kill()
        promote(made.replica)
        made.address.switch(made.replica)
        if mariadb:
            made.flow.migration.start()
        wait(made.switched, "the publisher to go on")
        made.replica.execute("INSERT INTO orders VALUES (22, 22, 22, '22')", database=database)
        made.flow.drain()
        assert made.status()["sources"][0]["doubt"].startswith("without GTID")

        certificate = made.flow.migration.ask("verify", accept=(1,))
        named = {(one["key"][0], one["kind"]) for one in certificate["tables"][0]["named"]}
        assert named == {("21", "extra"), ("5", "different"), ("6", "misplaced"), ("7", "missing")}
        assert made.status()["tables"] == {f"{database}.orders": "catching up"}

        made.replica.execute(  # each such row is written again at the source
            "UPDATE orders SET value = -1 WHERE id = 5",
            "UPDATE orders SET user_id = user_id + 1 WHERE id = 6",
            "UPDATE orders SET value = -1 WHERE id = 7",
            "INSERT INTO orders VALUES (21, 21, 21, '21')",
            "DELETE FROM orders WHERE id = 21",
            database=database,
        )
        made.check()
        assert made.flow.migration.ask("verify")["clean"]
        assert made.status()["sources"][0]["doubt"] == ""
        assert made.status()["tables"] == {f"{database}.orders": "copied"}
