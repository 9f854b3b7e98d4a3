"""The server behind a source's address changes in the middle of writes: rows and acknowledged writes are all there.

Two real servers replicate; the writers and the publisher know one address, whose server is switched, or the publisher
knows both addresses.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.replication import promote, wait_until_applied
from sandbox.settings import Flavour
from sandbox.stack import Sandbox
from tests.failover.replicated import replicated
from tests.failover.support import wait

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


def test_with_gtid_the_publisher_goes_on_where_it_was_on_the_promoted_server(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path, run_root: Path
) -> None:
    with replicated(box, kafka, tmp_path, run_root) as made:
        made.write()
        made.written(150)
        made.fail_over()
        made.written(150)
        wait(made.switched, "the publisher to go on")
        made.check()
        status = made.status()
        assert made.flow.position()["incarnation"] == 2
        assert status["sources"][0]["doubt"] == ""
        assert status["tables"] == {f"{made.flow.database}.orders": "copied"}


def test_without_gtid_it_goes_back_by_time_and_status_asks_for_a_verification(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path, run_root: Path
) -> None:
    with replicated(box, kafka, tmp_path, run_root, gtid=False) as made:
        made.write()
        made.written(150)
        if box.flavour is Flavour.MARIADB:  # it always has GTIDs, so what the publisher stored is taken away
            made.fail_over(made.forget_gtids)
        else:
            made.fail_over()
        made.written(150)
        if box.flavour is Flavour.MARIADB:
            made.flow.migration.start()
        wait(made.switched, "the publisher to go on")
        made.check()
        status = made.status()
        assert made.flow.position()["incarnation"] == 2
        assert status["sources"][0]["doubt"].startswith("without GTID")
        assert status["tables"] == {f"{made.flow.database}.orders": "catching up"}
        certificate = made.flow.migration.ask("verify")
        assert (certificate["clean"], certificate["differences"]) == (True, 0)
        status = made.status()
        assert status["sources"][0]["doubt"] == ""
        assert status["tables"] == {f"{made.flow.database}.orders": "copied"}


def test_when_the_first_address_stays_down_the_publisher_goes_on_at_the_next_by_itself(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path, run_root: Path
) -> None:
    with replicated(box, kafka, tmp_path, run_root, listed=True) as made:
        made.write()
        made.written(150)
        made.fail_over()
        made.written(50)
        wait(made.switched, "the publisher to go on at the next address")
        made.written(100)
        made.check()
        assert made.flow.position()["address"] == f"{made.replica.host}:{made.replica.port}"
        assert "going on at another address" in made.log()


def test_a_returned_primary_that_lacks_what_was_published_since_is_not_taken(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path, run_root: Path
) -> None:
    with replicated(box, kafka, tmp_path, run_root, listed=True) as made:
        made.write(1)
        made.written(50)
        made.fail_over()
        made.written(50)
        wait(made.switched, "the publisher to go on at the next address")
        made.check()
        made.replica.kill()
        made.primary.start()  # as it was when it died
        refused = "lacks transactions that were published"
        wait(lambda: refused in made.log(), "the returned primary to be refused")
        assert made.flow.position()["server_id"] == made.replica.server_id
        made.replica.start()
        made.write(1)
        made.written(50)
        made.check()


def test_a_promoted_server_that_lacks_published_transactions_stops_the_publisher_and_they_are_named(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path, run_root: Path
) -> None:
    """Those too that are in the topic, while the stored position is from before them."""
    with replicated(box, kafka, tmp_path, run_root) as made:
        made.primary.execute("INSERT INTO orders VALUES (1, 1, 1, '1')", database=made.flow.database)
        made.flow.drain()
        before = made.flow.position()
        wait_until_applied(made.replica, made.primary)
        made.replica.execute("STOP SLAVE" if box.flavour is Flavour.MARIADB else "STOP REPLICA")
        made.primary.execute("INSERT INTO orders VALUES (2, 2, 2, '2')", database=made.flow.database)
        made.flow.drain()
        lost = made.last_gtid()
        made.flow.migration.stop()
        here = f"pos = {before['pos']}, gtid_set = '{before['gtid_set']}', beyond_ends = NULL"
        made.flow.state(f"UPDATE position SET {here}")  # as if it had been killed
        made.primary.kill()
        promote(made.replica)
        made.address.switch(made.replica)
        made.flow.migration.start()
        halted = wait(lambda: made.status()["halted"], "the publisher to stop")
        assert "lacks transactions that were published" in halted[0]["reason"]
        assert lost in halted[0]["reason"]
        assert made.flow.position()["incarnation"] == 1


def test_a_source_killed_and_started_again_is_read_on_where_it_was(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path, run_root: Path
) -> None:
    with replicated(box, kafka, tmp_path, run_root) as made:
        made.write()
        for _ in range(2):
            made.written(100)
            made.primary.kill()
            made.primary.start()
            made.address.switch(made.primary)
        made.written(100)
        for writer in made.writers:
            writer.stop()
        made.flow.drain()
        assert made.flow.differences(made.primary) == []
        rows = made.flow.source_rows(made.primary)
        assert [line for writer in made.writers for line in writer.lost(rows)] == []
        assert made.flow.position()["incarnation"] == 1
