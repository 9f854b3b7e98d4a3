"""`migrate publish --from`: what is published again leaves the target as the source is."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.flow.support import Pipeline
from tests.forked import Child
from tests.kept import KeptState
from tests.waiting import SLOW


@pytest.fixture(scope="module")
def pipeline(box: Sandbox, kafka: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    box.source.execute("FLUSH BINARY LOGS")  # what another test dated ahead would be found by its time, far behind
    flow = Pipeline(box, kafka, Path(tmp_path_factory.mktemp("rewind")), f"rewind_{box.source.flavour}")
    flow.migration.do("init")
    flow.migration.begin()
    flow.close_copy()
    yield flow
    flow.migration.stop()


def source_status(pipeline: Pipeline) -> dict[str, Any]:
    found: dict[str, Any] = pipeline.migration.ask("status")["sources"][0]
    return found


def refused(pipeline: Pipeline, *arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        pipeline.migration.command("publish", *arguments),
        env=pipeline.migration.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stderr


def replay(pipeline: Pipeline, place: str) -> None:
    """Publish again from a place on, and start all processes."""
    state, incarnation = pipeline.box.targets[0], f"SELECT incarnation FROM {pipeline.name}_state.position"
    before = state.query(incarnation)

    def published_again() -> bool:
        return state.query(incarnation) != before and bool(source_status(pipeline)["caught_up"])

    with subprocess.Popen(
        pipeline.migration.command("publish", "--from", place, "--yes"), env=pipeline.migration.environment
    ) as publisher:
        try:
            pipeline.migration.wait(published_again, SLOW, "the replay to be published")
        finally:
            publisher.send_signal(signal.SIGTERM)
            assert publisher.wait(30) == 0
    pipeline.migration.begin()


def test_after_a_rewind_every_change_comes_again_and_the_target_is_as_the_source(pipeline: Pipeline) -> None:
    begin = source_status(pipeline)["published"]
    pipeline.sql(
        *(f"INSERT INTO orders (id, user_id, amount) VALUES ({key}, {key}, 1)" for key in range(1, 41)),
        "UPDATE orders SET amount = amount + 1, user_id = user_id + 1 WHERE id <= 20",
        "UPDATE orders SET id = id + 1000 WHERE id <= 5",
        "DELETE FROM orders WHERE id BETWEEN 10 AND 15",
        "INSERT INTO orders (id, user_id, amount) VALUES (12, 3, 9)",
    )
    applied = pipeline.migration.ask("drain", "--timeout", "60")["rows_applied"]
    assert refused(pipeline, "--from", begin, "--yes")[0] == 3  # it runs
    pipeline.migration.stop()
    pipeline.sql("UPDATE orders SET note = 'while it was down' WHERE id > 20")

    assert "not rewound" in refused(pipeline, "--from", begin)[1]
    assert refused(pipeline, "--from", "yesterday", "--yes")[0] == 2
    behind = source_status(pipeline)["log_end"]
    code, told = refused(pipeline, "--from", behind, "--yes")
    assert (code, "ahead of the stored position" in told) == (3, True)

    replay(pipeline, begin)
    again = pipeline.migration.ask("drain", "--timeout", "60")["rows_applied"]
    assert pipeline.differences() == []
    assert again >= 2 * applied  # or nothing was replayed
    server = pipeline.box.targets[0]
    stored = server.query(f"SELECT incarnation, asked FROM {pipeline.name}_state.rewind")
    assert stored == ((2, begin),)
    assert server.query(f"SELECT incarnation FROM {pipeline.name}_state.position") == ((2,),)


def test_a_rewind_that_the_state_lost_stops_the_consumer_until_it_is_asked_for_again(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path, children: list[Child]
) -> None:
    """Lost: every change from then on, where the state came back to before a rewind under a consumer that ran: what the
    publisher sent in the earlier incarnation was dropped as a repeat of the later one, without a word. Costs 40 s."""
    flow = Pipeline(box, kafka, tmp_path, f"rewound_{box.source.flavour}")
    migration, state = flow.migration, box.targets[0]

    def start(label: str, *arguments: str) -> Child:
        children.append(Child(label, tmp_path / f"{label}.log", Path.cwd()))
        children[-1].start(migration.command(*arguments), migration.environment)
        return children[-1]

    def consumed() -> bool:
        ends = sum(part["end"] - part["consumed"] for part in migration.ask("status")["partitions"])
        return bool(source_status(flow)["caught_up"]) and ends == 0

    def published_again() -> bool:
        found = state.query(f"SELECT incarnation FROM {flow.name}_state.position")
        return found == ((2,),) and consumed()

    migration.do("init")
    publisher = start("publish", "publish")
    consumer = start("consume", "consume")
    migration.wait(lambda: source_status(flow)["published"], SLOW, "the first position")
    flow.close_copy()
    begin = source_status(flow)["published"]
    flow.sql(*(f"INSERT INTO orders (id, user_id, amount) VALUES ({key}, {key}, 1)" for key in range(1, 41)))
    migration.wait(consumed, SLOW, "the first rows")
    publisher.stop(30)
    before = KeptState(state, flow.name)
    try:
        rewound = start("rewound", "publish", "--from", begin, "--yes")
        migration.wait(published_again, SLOW, "everything to come again")
        assert migration.ask("status")["forgotten"]["because"] == "a publisher was rewound: source"
        assert "because a publisher was rewound: source" in migration.do("status").replace("\n", " ")
        rewound.stop(30)
        before.put_back("lease")
    finally:
        before.close()
    later = start("later", "publish")
    flow.sql("UPDATE orders SET amount = 7")
    lost = "the state database was put back to before a rewind or a failover"
    migration.wait(lambda: lost in str(migration.ask("status")["halted"]), SLOW, "partitions to stand still")
    assert re.search(r"up to position \d+ of that file begins the later", str(migration.ask("status")["halted"]))
    later.stop(30)
    start("again", "publish", "--from", begin, "--yes")
    migration.wait(lambda: published_again() and flow.differences() == [], SLOW, "all that had been dropped")
    assert consumer.running


@pytest.mark.parametrize(("by", "first"), [("gtid_set", 2001), ("time", 3001)])
def test_a_rewind_by_gtid_or_by_time_goes_back_as_far(pipeline: Pipeline, by: str, first: int) -> None:
    source, state = pipeline.box.source, pipeline.box.targets[0]
    pipeline.migration.ask("drain", "--timeout", "60")
    ((gtid_set, before),) = state.query(f"SELECT gtid_set, incarnation FROM {pipeline.name}_state.position")
    seconds = float(source.query("SELECT UNIX_TIMESTAMP()")[0][0])
    place = gtid_set if by == "gtid_set" else datetime.fromtimestamp(seconds, UTC).isoformat()
    pipeline.sql(
        *(f"INSERT INTO orders (id, user_id, amount) VALUES ({first + key}, {key}, 1)" for key in range(30)),
        f"UPDATE orders SET amount = 2, user_id = user_id + 1 WHERE id BETWEEN {first} AND {first + 19}",
        f"DELETE FROM orders WHERE id BETWEEN {first + 10} AND {first + 14}",
    )
    applied = pipeline.migration.ask("drain", "--timeout", "60")["rows_applied"]
    pipeline.migration.stop()
    replay(pipeline, place)
    again = pipeline.migration.ask("drain", "--timeout", "60")["rows_applied"]
    assert pipeline.differences() == []
    assert again >= applied + 55
    assert state.query(f"SELECT asked FROM {pipeline.name}_state.rewind WHERE incarnation = {before + 1}") == (
        (place,),
    )
    assert state.query(f"SELECT incarnation FROM {pipeline.name}_state.position") == ((before + 1,),)
