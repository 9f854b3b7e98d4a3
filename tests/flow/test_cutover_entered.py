"""Nobody is sent to a side at which nobody can write."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import SLOW
from tests.flow.test_cutover import switched
from tests.flow.test_cutover_grants import held_at, refused
from tests.helpers import globally

pytestmark = pytest.mark.long

CLOSED = "target 't1' has read_only on: nobody could write there after the switch"


@pytest.mark.timeout(600)
def test_a_target_that_is_read_only_is_not_switched_to_from_the_start_nor_since_the_check(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    with switched(box, kafka, tmp_path) as one:
        one.flow.migration.ask("verify")
        with globally(box.targets[1], "read_only", 1):
            assert CLOSED in refused(one)
        late, held = held_at(one, "step:drain", "late")
        with globally(box.targets[1], "read_only", 1):
            held.unlink()
            assert late.wait(SLOW)
        said = late.log.read_text("utf-8")
        assert (late.returncode, f"writes are given back: {CLOSED}" in said) == (7, True), said
        assert (one.side(), "source" in one.writable()) == ("source", True)
        one.flow.migration.ask("cutover")
        assert (one.side(), one.writable()) == ("target", ["target"])
