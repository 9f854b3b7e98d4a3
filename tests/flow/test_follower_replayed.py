"""Nothing from before a switch is published again by the stream that only follows: it would come over newer rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.database import DatabaseServer
from sandbox.replication import replica_options
from sandbox.settings import Flavour
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, wait
from tests.flow.test_cutover import MORE, Switched, switched
from tests.helpers import unique

pytestmark = pytest.mark.long

AFTER = "UPDATE position SET event_time = (SELECT finished FROM cutover) + INTERVAL {} SECOND WHERE migration = '{}'"


@contextmanager
def promotable(box: Sandbox, root: Path) -> Iterator[Sandbox]:
    """The same, with a source that logs what it replicates, as a server that may take over has to."""
    box = copy(box)
    box.source = DatabaseServer(
        box.flavour, root / unique("promotable"), server_id=11, options=replica_options(box.flavour)
    )
    box.source.start()
    try:
        yield box
    finally:
        box.source.kill()


def value_at_target(one: Switched) -> int:
    """Of the row with id 8."""
    return int(one.box.targets[0].query(f"SELECT value FROM {one.flow.name}_0.orders_0 WHERE id = 8")[0][0])


def newer_at_target(one: Switched) -> str:
    """A row that is written at the source, then at the target after the switch, and is at both sides as it is there.

    Returns the place of the source's log before the first of the two.
    """
    flow, ask = one.flow, one.flow.migration.ask
    ask("verify")
    place = str(ask("status")["sources"][0]["published"])
    one.write_at_source("UPDATE orders SET value = 111 WHERE id = 8")
    ask("cutover")
    one.write_at_target(0, "UPDATE orders_0 SET value = 222 WHERE id = 8")
    ask("--reverse", "drain", "--timeout", str(SLOW))
    assert flow.source_rows(one.box.source)[8][2] == 222
    flow.children("publish")[0].stop(SLOW)
    return place


@pytest.mark.timeout(600)
def test_a_rewind_of_the_stream_that_follows_is_refused_before_and_after_the_switch(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    with switched(box, kafka, tmp_path) as one:
        flow = one.flow
        flow.children("back-t0")[0].stop(SLOW)
        file, pos = flow.state_of(f"SELECT file, pos FROM position WHERE migration = '{flow.name}-reverse' LIMIT 1")[0]
        early = flow.child("early", "--reverse", "publish", "--source", "t0", "--from", f"{file}:{pos}", "--yes")
        assert early.wait(SLOW)
        said = early.log.read_text("utf-8")
        assert (early.returncode, "applications are at the sources: older changes of the targets" in said) == (3, True)
        assert "hint: in the other direction: `migrate --forward publish --from`" in said
        flow.child("back-t0-again", "--reverse", "publish", "--source", "t0")

        place = newer_at_target(one)
        incarnations = "SELECT source, incarnation FROM position ORDER BY source"
        before = flow.state_of(incarnations)
        late = flow.child("late", "publish", "--from", place, "--yes")
        wait(lambda: not late.running or value_at_target(one) != 222, "it to be refused, or to do harm")
        said = late.log.read_text("utf-8")
        assert value_at_target(one) == 222, said
        assert (late.returncode, "applications are at the targets: older changes of the sources" in said) == (3, True)
        assert "hint: in the other direction: `migrate --reverse publish --from`" in said
        assert flow.state_of(incarnations) == before
        flow.child("publish-again", "publish")
        flow.drain()
        assert flow.differences(box.source) == []


@pytest.mark.timeout(600)
def test_a_failover_by_time_of_the_stream_that_follows_stops_unless_it_goes_on_behind_the_switch(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path, run_root: Path
) -> None:
    failover = "failover: {back_seconds: 5}\n"
    with promotable(box, run_root) as box, switched(box, kafka, tmp_path, MORE + failover) as one:
        flow = one.flow
        mariadb = box.flavour is Flavour.MARIADB
        if mariadb:  # a transaction that the server behind the address has replicated, as one that was promoted has
            box.source.execute(
                "SET SESSION server_id = 77", "UPDATE orders SET value = 1 WHERE id = 6", database=flow.database
            )
        newer_at_target(one)
        # the server that was read until now was another one, and told no GTIDs
        was = "server_id = server_id + 1000" if mariadb else "server_uuid = UUID()"
        flow.state(f"UPDATE position SET gtid_set = '', {was} WHERE migration = '{flow.name}'")

        found = f"SELECT incarnation FROM position WHERE migration = '{flow.name}'"

        def stops(label: str) -> None:
            publisher = flow.child(label, "publish")
            wait(lambda: not publisher.running or value_at_target(one) != 222, "it to stop, or to do harm")
            said = publisher.log.read_text("utf-8")
            assert (value_at_target(one), publisher.returncode) == (222, 5), said
            assert "which may be before applications left it, over newer rows" in said
            assert flow.state_of(found) == ((1,),)

        stops("before-it")
        text = flow.migration.config.read_text("utf-8")
        flow.migration.config.write_text(text.replace("back_seconds: 5", "back_seconds: 2"), "utf-8")
        flow.state(AFTER.format(3, flow.name))  # from 1 s after the switch on: who knows by whose clock
        stops("a-second-behind-it")
        flow.state(AFTER.format(5, flow.name))
        # a time that is still to come would be a clock that is wrong, which is another reason to stop
        passed = f"SELECT event_time <= UTC_TIMESTAMP() FROM position WHERE migration = '{flow.name}'"
        wait(lambda: flow.state_of(passed) == ((1,),), "that time to have passed")
        if mariadb:
            stops("what-it-wrote-itself-may-be-since-any-time")
            box.source.execute("SET SESSION server_id = 77", "CREATE TABLE other (id INT)", database=flow.database)
        behind = flow.child("behind-it", "publish")
        wait(lambda: not behind.running or flow.state_of(found) == ((2,),), "it to go on")
        assert flow.state_of(found) == ((2,),), behind.log.read_text("utf-8")
        flow.drain()
        assert value_at_target(one) == 222
        assert flow.differences(box.source) == []
