"""Two real servers that replicate, a migration of the first, and an address that leads to one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pymysql

from sandbox.broker import KafkaBroker
from sandbox.database import Option
from sandbox.replication import follow, pair, promote, wait_until_applied
from sandbox.settings import Flavour
from sandbox.stack import Sandbox
from tests.failover.support import Flow, Forwarder, Writer
from tests.helpers import unique


class Replicated:
    """A primary and its replica, a migration of the primary, and writers that go through an address."""

    def __init__(
        self,
        box: Sandbox,
        kafka: KafkaBroker,
        directory: Path,
        root: Path,
        *,
        gtid: bool,
        listed: bool,
        back: int,
        options: Mapping[str, Option] | None,
        columns: str,
        table: str,
    ) -> None:
        of = box.source.release.name if box.source.release else ""
        self.primary, self.replica = pair(box.flavour, root / unique("pair"), gtid=gtid, options=options, of=of)
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
            more=f"failover: {{back_seconds: {back}, down_seconds: 2}}\n",
            columns=columns,
            table=table,
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
                ssl_disabled=True,  # a new context takes 20 ms of the processor
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
        self.flow.close()
        self.address.close()
        self.primary.kill()
        self.replica.kill()


@contextmanager
def replicated(
    box: Sandbox,
    kafka: KafkaBroker,
    directory: Path,
    root: Path,
    *,
    gtid: bool = True,
    listed: bool = False,
    back: int = 1,
    options: Mapping[str, Option] | None = None,
    columns: str = "",
    table: str = "",
) -> Iterator[Replicated]:
    """back: `failover.back_seconds`. options: of both servers. columns, table: as `Flow` has them."""
    made = Replicated(
        box,
        kafka,
        directory,
        root,
        gtid=gtid,
        listed=listed,
        back=back,
        options=options,
        columns=columns,
        table=table,
    )
    try:
        made.start()
        yield made
    finally:
        made.close()
