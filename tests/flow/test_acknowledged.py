"""Applications that follow the switch: a cutover names those that do not acknowledge, and goes by no other version."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from examples.application import Server, Switch
from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, wait
from tests.flow.test_cutover import MORE, switched

pytestmark = pytest.mark.long


@pytest.mark.timeout(600)
def test_who_has_not_acknowledged_in_time_is_named_and_a_version_from_elsewhere_acknowledges_nothing(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    more = MORE.replace("stop: read_only", "stop: application, acknowledge_seconds: 1")
    with switched(box, kafka, tmp_path, more) as one:
        flow, ask = one.flow, one.flow.migration.ask
        rehearsed = flow.child("rehearsed", "rollback", "--rehearse")
        assert rehearsed.wait(SLOW)
        said = rehearsed.log.read_text("utf-8")
        assert (rehearsed.returncode, "applications are at the source already" in said) == (3, True), said
        assert "hint: `migrate cutover` moves them back" in said
        assert flow.state_of("SELECT COUNT(*) FROM cutover") == ((0,),)

        ask("verify")
        flow.state(
            "INSERT INTO application (migration, instance, version)"
            f" VALUES ('{flow.name}', 'late-1', 1), ('{flow.name}', 'kept-1', 99)"
        )
        at = box.targets[0]
        server, database = Server(at.host, at.port, at.user, at.password, tls=False), f"{flow.name}_state"
        with closing(Switch(server, database, flow.name, "follows-1")) as follows:
            wait(lambda: len(ask("switch")["applications"]) == 3, "it to say what it goes by")
            late = flow.child("late", "cutover")
            assert late.wait(SLOW)
            said = late.log.read_text("utf-8")
            told = (
                "did not acknowledge version 2 of the switch within 1 s: kept-1 (at version 99), late-1 (at version 1)"
            )
            assert (late.returncode, told in said) == (7, True), said
            now = ask("switch")["switch"]
            assert (now["side"], now["writes"], one.writable()) == ("source", "open", ["source", "target"])

            for gone in ("late-1", "kept-1"):
                flow.migration.do("switch", "--forget", gone)
            ask("cutover")
            with follows.at() as side:
                assert side == "target"
        assert flow.differences(box.source) == []
