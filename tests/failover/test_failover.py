"""The server behind a source's address changes in the middle of writes: rows and acknowledged writes are all there.

Two real servers replicate; the writers and the publisher know one address, whose server is switched, or the publisher
knows both addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pymysql
import pytest

from sandbox.broker import KafkaBroker
from sandbox.replication import follow, pair, promote, wait_until_applied
from sandbox.settings import Flavour
from sandbox.stack import Sandbox
from tests.failover.support import Flow, Forwarder, Writer, wait
from tests.helpers import unique

pytestmark = pytest.mark.timeout(600)


class Replicated:
    """A primary and its replica, a migration of the primary, and writers that go through an address."""

    def __init__(
        self, box: Sandbox, kafka: KafkaBroker, directory: Path, root: Path, *, gtid: bool, listed: bool
    ) -> None:
        self.gtid = gtid
        self.primary, self.replica = pair(box.flavour, root / unique("pair"), gtid=gtid)
        for server in (self.primary, self.replica):
            server.password = self.primary.password  # as accounts are that replicate
            server.start()
        follow(self.replica, self.primary, gtid=gtid)
        self.address = Forwarder(self.primary)
        self.flow = Flow(
            box,
            kafka,
            directory,
            unique("failover"),
            self.primary,
            at=None if listed else self.address,
            addresses=[self.replica] if listed else [],
            more="failover: {back_seconds: 1, down_seconds: 2}\n",
        )
        self.writers: list[Writer] = []

    def start(self) -> None:
        self.flow.migration.do("init")
        wait_until_applied(self.replica, self.primary)
        self.flow.migration.start()
        self.flow.close_copy()

    def write(self, number: int = 2) -> None:
        def connect() -> Any:
            return pymysql.connect(
                host=self.address.host,
                port=self.address.port,
                user=self.primary.user,
                password=self.primary.password,
                database=self.flow.database,
                autocommit=True,
                read_timeout=30,
            )

        self.writers = [self.flow.writer(connect, 1 + 1000 * n) for n in range(number)]

    def written(self, writes: int) -> None:
        for writer in self.writers:
            writer.wait_for(writes)

    @contextmanager
    def no_commits(self) -> Iterator[None]:
        """Hold the primary's commits back while the writers go on trying, until the replica has everything."""
        with closing(self.primary.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("FLUSH TABLES WITH READ LOCK")
            yield

    def fail_over(self, before: Callable[[], None] = lambda: None) -> None:
        """As tools do it: no commits, the replica applies everything, the primary goes, the address leads on."""
        with self.no_commits():
            wait_until_applied(self.replica, self.primary)
            before()
            self.primary.kill()
        promote(self.replica)
        self.address.switch(self.replica)

    def forget_gtids(self) -> None:
        """Stop, and leave a stored position of everything so far that is by file only."""
        self.flow.drain()
        self.flow.migration.stop()
        self.flow.state("UPDATE position SET gtid_set = ''")

    def switched(self) -> bool:
        return bool(self.flow.position()["server_id"] == self.replica.server_id)

    def check(self) -> None:
        """Both oracles, once the writers stopped and the target has everything."""
        for writer in self.writers:
            writer.stop()
        self.flow.drain()
        assert self.flow.differences(self.replica) == []
        rows = self.flow.source_rows(self.replica)
        assert [line for writer in self.writers for line in writer.lost(rows)] == []

    def last_gtid(self) -> str:
        """The newest transaction of the primary."""
        if self.primary.flavour is Flavour.MARIADB:
            return str(self.primary.query("SELECT @@GLOBAL.gtid_binlog_pos")[0][0])
        uuid, numbers = str(self.primary.query("SELECT @@GLOBAL.gtid_executed")[0][0]).split(":")
        return f"{uuid}:{numbers.split('-')[-1]}"

    def status(self) -> Any:
        return self.flow.migration.ask("status")

    def log(self) -> str:
        return (self.flow.directory / "run" / "logs" / "publish-main.log").read_text("utf-8")

    def close(self) -> None:
        for writer in self.writers:
            writer._stop_asked.set()
        self.flow.close()
        self.address.close()
        self.primary.kill()
        self.replica.kill()


@contextmanager
def replicated(
    box: Sandbox, kafka: KafkaBroker, directory: Path, root: Path, *, gtid: bool = True, listed: bool = False
) -> Iterator[Replicated]:
    made = Replicated(box, kafka, directory, root, gtid=gtid, listed=listed)
    try:
        made.start()
        yield made
    finally:
        made.close()


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
        made.flow.state(f"UPDATE position SET pos = {before['pos']}, gtid_set = '{before['gtid_set']}'")
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
