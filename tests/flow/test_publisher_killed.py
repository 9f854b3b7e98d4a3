"""kill -9 of the publisher at each step of its work, under load: nothing is missed, nothing goes stale."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import Flow, frozen, wait
from tests.failover.topic import torn_transactions
from tests.flow.launcher import run_killed
from tests.helpers import unique

STEPS = [  # and at which call of them, at most
    ("before", "migrate.publish.emit:Emitter.encoded", 150),  # an event is read
    (
        "after",
        "migrate.kafka.producer:OrderedProducer.send",
        4,
    ),  # half of a transaction is sent: they are split at 5 rows here
    ("before", "migrate.kafka.producer:OrderedProducer.send", 20),
    ("after", "migrate.publish.batches:Batches.confirmed", 20),  # and the broker has it
    ("before", "migrate.state.position:save", 1),  # all is sent, the position is not saved
    ("before", "migrate.state.position:save", 4),
    ("after", "migrate.publish.state_writes:StateWrites.run", 3),  # the position is saved
]
ROUNDS = 3
LONG = 300  # seconds: a client that fell silent is found after more than a minute


@pytest.mark.timeout(600)
def test_a_publisher_killed_at_any_step_loses_nothing(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> None:
    choice = Random(2025)  # noqa: S311 - which moments
    flow = Flow(box, kafka, tmp_path, unique("killed"), box.source, publish=", transaction_rows: 5")
    with closing(flow):

        def let_in() -> None:
            """The next publisher need not wait until the lease of the killed one runs out."""
            flow.state("UPDATE lease SET expires = NOW(6) - INTERVAL 1 SECOND WHERE name = 'publish:main'")

        flow.migration.do("init")
        flow.start_targets()
        first = flow.child("publish", "publish", "--source", "main")
        wait(flow.position, "a start")
        first.stop()
        writers = [
            flow.writer(lambda: box.source.connect(flow.database), key, rows) for key, rows in ((1, 1), (1001, 30))
        ]
        with flow.kept_up():
            for number in range(ROUNDS):
                for when, where, calls in STEPS:
                    run_killed(flow.migration, when, where, choice.randint(1, calls), "publish", "--source", "main")
                    let_in()
                publisher = flow.child(f"publish-{number}-random", "publish", "--source", "main")
                writers[0].wait_for(choice.randint(1, 500))
                assert publisher.running
                publisher.kill()
                let_in()
                publisher = flow.child(f"publish-{number}-unconfirmed", "publish", "--source", "main")
                before = flow.position()
                wait(lambda before=before: flow.position() != before, "the position to move")  # type: ignore[misc]
                with frozen(kafka.pid):  # all is handed over, and the broker has nothing of it
                    writers[0].wait_for(200)
                    publisher.kill()
                let_in()
            last = flow.child("publish-last", "publish", "--source", "main")
            for writer in writers:
                writer.stop()
                assert writer.writes > 20
            flow.drain(LONG)
        assert last.running
        assert flow.differences(box.source) == []
        rows = flow.source_rows(box.source)
        assert [line for writer in writers for line in writer.lost(rows)] == []
        assert torn_transactions(kafka, f"migrate.{flow.name}") > 0
