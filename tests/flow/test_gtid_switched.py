"""GTIDs that are switched on and off at a source in mid-life: the publisher goes on without a gap (oracle).

A position is resumed in the scheme it was written in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.database import DatabaseServer
from sandbox.settings import Flavour
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, Flow, wait
from tests.forked import Child
from tests.helpers import unique

pytestmark = pytest.mark.timeout(600)
ON = ("OFF_PERMISSIVE", "ON_PERMISSIVE", "ON")
OFF = ("ON_PERMISSIVE", "OFF_PERMISSIVE", "OFF")


class Switched:
    """A server of its own, a migration of it, and writers that go on."""

    def __init__(self, box: Sandbox, kafka: KafkaBroker, directory: Path, root: Path) -> None:
        own = {"gtid_mode": "OFF", "enforce_gtid_consistency": "OFF"} if box.flavour is Flavour.MYSQL else {}
        self.server = DatabaseServer(box.flavour, root / unique("switched"), server_id=21, options=own)
        self.server.start()
        self.flow = Flow(box, kafka, directory, unique("switched"), self.server)
        self.runs = 0

    def prepare(self) -> None:
        self.flow.migration.do("init")
        self.flow.start_targets()

    @contextmanager
    def publishing(self, by: str) -> Iterator[Child]:
        """A publisher for the time of the block, which reads in that scheme from its start on."""
        self.runs += 1
        label = f"publish-{self.runs}"
        child = self.flow.child(label, "publish")
        self.log = self.flow.directory / f"{label}.log"
        wait(lambda: " publishing " in self.log.read_text("utf-8"), "the publisher to read")
        assert f"by={by} " in self.log.read_text("utf-8")
        yield child
        assert child.running
        child.stop()
        assert child.returncode == 0

    def refused(self, reason: str, mode: str) -> None:
        """A publisher stops at what it is not sent, says so, and has it once the mode is that one."""
        before = self.flow.position()
        child = self.flow.child(f"publish-refused-{mode}", "publish")
        assert child.wait(SLOW)
        assert child.returncode == 5
        (halted,) = self.flow.migration.ask("status")["halted"]
        assert reason in halted["reason"]
        assert f"SET GLOBAL gtid_mode = {mode} " in halted["hint"]
        assert self.flow.position() == before
        self.server.execute(f"SET GLOBAL gtid_mode = '{mode}'")

    def switch(self, modes: tuple[str, ...], between: Callable[[], None]) -> None:
        """MySQL manual, "Enabling GTID Transactions Online" and "Disabling GTID Transactions Online"."""
        if self.server.flavour is Flavour.MARIADB:
            return
        if modes[-1] == "ON":
            self.server.execute(
                "SET GLOBAL enforce_gtid_consistency = 'WARN'", "SET GLOBAL enforce_gtid_consistency = 'ON'"
            )
        for mode in modes:
            if mode in ("ON", "OFF"):
                wait(self._no_others, "the last transactions of the other kind")
            self.server.execute(f"SET GLOBAL gtid_mode = '{mode}'")
            between()

    def _no_others(self) -> bool:
        sql = "SHOW GLOBAL STATUS LIKE 'Ongoing_anonymous_transaction_count'"
        owned = self.server.query("SELECT @@GLOBAL.gtid_owned")[0][0]
        return self.server.query(sql)[0][1] == "0" and (owned == "" or "anon" not in owned.lower())

    def check(self) -> None:
        self.flow.drain()
        assert self.flow.differences(self.server) == []
        rows = self.flow.source_rows(self.server)
        assert [line for writer in self.flow._writers for line in writer.lost(rows)] == []

    def close(self) -> None:
        self.flow.close()
        self.server.kill()


@pytest.fixture
def made(box: Sandbox, kafka: KafkaBroker, tmp_path: Path, run_root: Path) -> Iterator[Switched]:
    switched = Switched(box, kafka, tmp_path, run_root)
    with closing(switched):
        switched.prepare()
        yield switched


@pytest.mark.parametrize("running", [False, True], ids=["while it is stopped", "while it runs"])
def test_gtids_switched_on_and_off_leave_no_gap_and_the_scheme_is_that_of_the_position(
    made: Switched, running: bool
) -> None:
    flow = made.flow
    always = made.server.flavour is Flavour.MARIADB
    with made.publishing("GTID" if always else "file"):
        wait(flow.position, "a start")
        writers = [flow.writer(lambda: made.server.connect(flow.database), key, 3) for key in (1, 1001)]
        if running:
            made.switch(ON, lambda: writers[0].wait_for(30))
        writers[0].wait_for(30)
    if not running:
        made.switch(ON, lambda: writers[0].wait_for(30))
        if not always:
            made.refused("does not send transactions without GTID while gtid_mode is ON", "ON_PERMISSIVE")
    if always:
        flow.state("UPDATE position SET gtid_set = ''")
    with made.publishing("file"):  # it was written so
        writers[0].wait_for(30)
        for writer in writers:
            writer.stop()
        made.check()
        if not always:
            made.server.execute("SET GLOBAL gtid_mode = 'ON'")  # where it is not
    with made.publishing("file" if not flow.position()["gtid_set"] else "GTID"):  # at the end the set is known
        made.server.execute("REPLACE INTO orders VALUES (5001, 1, 1, '1')", database=flow.database)
        made.check()
    assert flow.position()["gtid_set"]
    writers = [flow.writer(lambda: made.server.connect(flow.database), key, 3) for key in (2001, 3001)]
    with made.publishing("GTID"):
        writers[0].wait_for(30)
        if running:
            made.switch(OFF, lambda: writers[0].wait_for(30))
            assert always or "the place in the log is followed by file" in made.log.read_text("utf-8")
    if not running:
        made.switch(OFF, lambda: writers[0].wait_for(30))
        if not always:
            made.refused("does not send transactions with GTID while gtid_mode is OFF", "OFF_PERMISSIVE")
    with made.publishing("GTID" if always else "file"):
        writers[0].wait_for(30)
        for writer in writers:
            writer.stop()
        made.check()
    assert bool(flow.position()["gtid_set"]) == always
