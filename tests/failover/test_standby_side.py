"""Another server in the place of the standby side lacks what the stream reading it had read: it begins at the end."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.replication import replica_options
from sandbox.settings import Flavour
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, Flow, wait
from tests.helpers import unique
from tests.kept import kept

pytestmark = pytest.mark.long
MORE = "failover: {down_seconds: 1}\n"
COMPARED = ", compare_seconds: 2"
NEW_ID = 41


def test_a_target_that_is_restored_as_another_server_is_read_from_the_end_of_its_log(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    """Its reverse stream was blocked for good by what the forward stream had written there, and writes again anew."""
    faulty, aside = box.targets[1], tmp_path / "aside"
    with closing(Flow(box, kafka, tmp_path, unique("side"), box.source, more=MORE, consume=COMPARED)) as flow:
        flow.migration.do("init")
        flow.child("publish", "publish")
        wait(flow.position, "the first position")
        flow.start_targets()
        flow.drain()
        flow.start_reverse()
        with kept(faulty, aside) as before:
            flow.fill(box.source, 500)
            flow.drain()
            flow.children("back-t1")[0].kill()
            read = flow.child("back-t1-until-here", "--reverse", "publish", "--source", "t1")
            flow.migration.ask("--reverse", "drain", "--timeout", str(SLOW))
            read.stop(SLOW)
            if box.flavour is Flavour.MYSQL:
                (aside / "auto.cnf").unlink()
            else:
                faulty.server_id = NEW_ID  # and stays so: its data are those of another server from now on
                faulty.options |= replica_options(box.flavour)
            before.put_back()
        again = flow.child("back-t1-again", "--reverse", "publish", "--source", "t1")
        wait(lambda: not again.running or "publishing" in again.log.read_text("utf-8"), "it to go on")
        said = again.log.read_text("utf-8")
        assert again.running, said
        assert "lacks transactions that were published" in said
        assert "begins at the end of the log" in said
        assert "its log is another one than was read up to" in str(flow.migration.ask("--reverse", "status"))
        flow.drain()
        assert flow.differences(box.source) == []
        faulty.execute(f"UPDATE {flow.name}_1.orders_0 SET value = -1 WHERE id = 2")
        wait(lambda: flow.migration.ask("foreign", "list")["count"], "the write by hand")

        again.stop(SLOW)
        flow.put_applications_at("target")
        was = "server_id = server_id + 1000" if box.flavour is Flavour.MARIADB else "server_uuid = UUID()"
        flow.state(f"UPDATE position SET {was}, gtid_set = '{beyond(box)}' WHERE source = 't1'")
        refused = flow.child("refused", "--reverse", "publish", "--source", "t1")
        assert refused.wait(SLOW)
        said = refused.log.read_text("utf-8")
        assert (refused.returncode, "lacks transactions that were published" in said) == (5, True), said


def beyond(box: Sandbox) -> str:
    """A GTID set that no server here has."""
    return f"0-{NEW_ID}-999999999" if box.flavour is Flavour.MARIADB else f"{'1' * 8}-1111-1111-1111-{'1' * 12}:1-9"
