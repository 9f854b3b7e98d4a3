"""What keeps a cutover from beginning is named, by it and by status, and nothing is begun; moves out of order too."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, wait
from tests.flow.test_cutover import Switched, switched


class Refused:
    """A migration of which nothing may begin."""

    def __init__(self, one: Switched) -> None:
        self._one = one

    def says(self, told: str, *arguments: str, code: int = 3) -> None:
        """A command ends with this exit code and these words, and the switch is as before."""
        flow = self._one.flow
        before = flow.migration.ask("switch")["switch"], flow.state_of("SELECT COUNT(*) FROM cutover")
        said = flow.refused(*arguments, code=code)
        assert told in said, (arguments, said)
        assert (flow.migration.ask("switch")["switch"], flow.state_of("SELECT COUNT(*) FROM cutover")) == before

    def holds_back(self, told: str) -> None:
        """Cutover and status name it alike."""
        self.says(told, "cutover")
        held = self._one.flow.migration.ask("status")["holds_back"]
        assert any(told in line for line in held), held


@pytest.mark.long
@pytest.mark.timeout(600)
def test_what_holds_a_cutover_back_and_moves_out_of_order_are_named_and_begin_nothing(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    with switched(box, kafka, tmp_path) as one:
        flow, ask, do = one.flow, one.flow.migration.ask, one.flow.migration.do
        refused = Refused(one)
        table = f"{flow.database}.orders"
        ask("verify")

        refused.says("`migrate cutover` and `migrate rollback` take no --reverse", "--reverse", "cutover", code=2)
        refused.says("--rehearse and --abort exclude each other", "cutover", "--rehearse", "--abort", code=2)
        refused.says("--freeze goes with --rehearse only", "cutover", "--freeze", code=2)
        refused.says("no cutover is under way", "cutover", "--abort")
        refused.says("applications are at the source already", "rollback")
        refused.says("hint: in the other direction: `migrate --forward verify`", "--reverse", "verify")
        refused.says("applications are at the sources", "finish", "--yes")

        config = flow.migration.config.read_text("utf-8")
        young = config.replace("cutover: {", "cutover: {verified_within_hours: 0.000001, ")
        flow.migration.config.write_text(young, "utf-8")
        refused.holds_back("began more than 1e-06 h ago")
        assert one.stage()[1] == "migrate verify"
        flow.migration.config.write_text(config, "utf-8")

        flow.children("consume")[0].stop(SLOW)
        refused.holds_back("no consumer works on 2 partitions")
        assert one.stage() == ("catching up", "migrate consume"), "no drain would end"
        flow.child("consume-again", "consume")
        flow.children("back-t1")[0].stop(SLOW)
        refused.says("the reverse stream: no publisher reads source 't1'", "cutover")
        flow.child("back-t1-again", "--reverse", "publish", "--source", "t1")
        flow.state("UPDATE phase SET phase = 'copying'")
        refused.says("orders is copying", "cutover")
        assert one.stage()[0] == "copying"
        flow.state("UPDATE phase SET phase = 'copied'")

        # a change that the target refuses: its partition is stopped, then it is set aside
        box.targets[1].execute(
            "ALTER TABLE orders_0 ADD CONSTRAINT small CHECK (value < 1000000)", database=f"{flow.name}_1"
        )
        one.write_at_source("UPDATE orders SET value = 1000000 WHERE id = 2")
        wait(lambda: ask("parked", "list")["stopped"], "the target to refuse it")
        refused.holds_back("is stopped: ")
        do("parked", "skip", table, "2", "--reason", "a test")
        wait(lambda: ask("status")["parked"], "it to be set aside")
        refused.holds_back("1 × change is parked")
        assert one.stage()[1] == "migrate parked list"
        box.targets[1].execute("ALTER TABLE orders_0 DROP CONSTRAINT small", database=f"{flow.name}_1")
        do("parked", "retry")
        flow.drain()

        # the source at another of its addresses: as after a failover, when the first one came back
        text = flow.migration.config.read_text("utf-8")
        other = f"localhost:{box.source.port}"
        assert text.count("addresses: []") == 1
        flow.children("publish")[0].stop(SLOW)
        flow.migration.config.write_text(text.replace("addresses: []", f"addresses: ['{other}']"), "utf-8")
        flow.state(f"UPDATE position SET address = '{other}' WHERE migration = '{flow.name}'")
        flow.child("publish-there", "publish")
        wait(lambda: one.stage() == ("verified", "migrate --reverse run"), "it to be read there")
        refused.holds_back(f"is read at {other} since a failover, and the reverse stream writes to 127.0.0.1")
        flow.migration.config.write_text(text, "utf-8")
        flow.children("publish-there")[0].stop(SLOW)
        flow.state(f"UPDATE position SET address = '127.0.0.1:{box.source.port}' WHERE migration = '{flow.name}'")
        flow.child("publish-again", "publish")

        # a delete that met no row waits, as a copy may bring it yet
        for number, server in enumerate(box.targets):
            server.execute("UPDATE _migrate_chunk_fence SET closed = 0", database=f"{flow.name}_{number}")
        box.targets[0].execute(
            "SET SESSION sql_log_bin = 0", "DELETE FROM orders_0 WHERE id = 4", database=f"{flow.name}_0"
        )
        one.write_at_source("DELETE FROM orders WHERE id = 4")
        wait(lambda: ask("status")["empty_deletes"], "the delete to wait")
        refused.holds_back("1 × empty delete waits")
        flow.close_copy()
        flow.drain()

        wait(lambda: one.stage() == ("ready", "migrate cutover --rehearse"), "nothing to hold it back")
        ask("cutover")
        assert one.side() == "target"
        refused.says("applications are at the target already", "cutover")
        refused.says("no cutover is under way", "cutover", "--abort")
        refused.says("applications are at the targets", "copy")
        refused.says("applications are at the targets", "refresh", table, "2")
        refused.says("applications are at the targets", "finish", "--abandon", "--yes")
        assert flow.differences(box.source) == []
