"""A small chaos run (`make chaos` is the large one, on either flavour), and that it sees what it must see."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.demo.migration import Migration
from sandbox.stack import Sandbox
from tests.chaos.crew import Actor, Failure
from tests.chaos.run import Plan, run
from tests.failover.support import wait
from tests.helpers import unique

pytestmark = pytest.mark.long


@pytest.mark.timeout(900)
def test_kills_faults_and_switches_leave_no_difference_and_planted_ones_are_found(
    mariadb_box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    plan = Plan(seed=int(os.environ.get("SEED", "1")), kills=28, gap=1.2, fill=0.3, patience=300)
    wrong, summary = run(mariadb_box, kafka, tmp_path, unique("chaos"), plan, control=True)
    assert wrong == [], f"{wrong} in {tmp_path}: {summary}"


def test_a_process_that_ends_by_itself_for_good_fails_the_run(mariadb_box: Sandbox, tmp_path: Path) -> None:
    actor = Actor("consume-1", ("consume",), Migration(mariadb_box, tmp_path, "name: shop\nunknown: 1\n"))
    said: list[str] = []
    actor.tend(said.append)
    wait(lambda: not actor.running, "its end")
    with pytest.raises(Failure, match="consume-1 ended by itself with 2"):
        actor.tend(said.append)
