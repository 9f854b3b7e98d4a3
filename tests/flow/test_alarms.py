"""`migrate alarms run` beside a real migration, with a real HTTP receiver, and with one that hangs. Costs 25 s."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.alarms.receiver import Receiver, receiving
from tests.failover.support import SLOW, Flow, wait
from tests.helpers import unique

RAISED = {("missing", "consume", "raised"), ("lag", "", "raised"), ("no progress", "", "raised")}
RESOLVED = {(alarm, subject, "resolved") for alarm, subject, _ in RAISED}
SECRET = "canary-path-4711"


@pytest.fixture
def good() -> Iterator[Receiver]:
    with receiving() as one:
        yield one


@pytest.fixture
def hanging() -> Iterator[Receiver]:
    with receiving() as one:
        one.hangs = True
        yield one


@pytest.fixture
def flow(box: Sandbox, kafka: KafkaBroker, tmp_path: Path, good: Receiver, hanging: Receiver) -> Iterator[Flow]:
    to = [{"name": "stuck", "webhook": hanging.url, "seconds": 3600}, {"name": "good", "webhook": good.url}]
    when = {"missing_seconds": 0.5, "lag_seconds": 2, "no_progress_seconds": 6}
    alarms = {"interval_seconds": 0.3, "when": when, "to": to}
    with closing(
        Flow(box, kafka, tmp_path, unique("alarms"), box.source, more=f"alarms: {json.dumps(alarms)}\n")
    ) as flow:
        flow.migration.do("init")
        publisher = flow.child("publish", "publish")
        flow.start_targets()
        wait(lambda: "publishing" in publisher.log.read_text("utf-8"), "the publisher")
        flow.fill(box.source, 500)
        flow.drain()
        yield flow


def test_alarms_are_raised_once_and_resolved_once_over_kills_and_beside_a_receiver_that_hangs(
    flow: Flow, box: Sandbox, good: Receiver, hanging: Receiver
) -> None:
    watch = flow.child("alarms", "alarms", "run")
    seen = "SELECT COUNT(*) FROM alarm_seen"
    wait(lambda: flow.state_of(seen)[0][0] > 0, "the first look")
    assert good.told() == []

    (consumer,) = flow.children("consume")
    consumer.stop(SLOW)
    box.source.execute("UPDATE orders SET value = value + 1 WHERE id <= 20", database=flow.database)
    wait(lambda: {*good.told()} >= RAISED, "what a consumer that is gone brings")
    wait(hanging.waiting.is_set, "the receiver that hangs")
    taken = "SELECT COUNT(*) FROM alarm_sent WHERE receiver = 'good'"
    wait(lambda: flow.state_of(taken)[0][0] == len(RAISED), "the notes of it")

    watch.kill()
    watch = flow.child("alarms-again", "alarms", "run")
    wait(lambda: "lease taken" in watch.log.read_text("utf-8"), "the lease of the one that was killed")
    raised = json.loads(flow.migration.run("alarms", "list", "--json").stdout)
    assert {(one["kind"], one["subject"], "raised") for one in raised} == RAISED

    flow.child("consume-again", "consume")
    wait(lambda: {*good.told()} >= RESOLVED, "their end")
    assert sorted(good.told()) == sorted([*RAISED, *RESOLVED]), "each once"

    watch.stop(SLOW)  # though a receiver hangs
    assert watch.returncode == 0
    said = watch.log.read_text("utf-8")
    assert (SECRET in said, "Traceback" in said) == (False, False)


def test_a_test_alarm_goes_to_each_receiver_and_says_who_did_not_take_it(flow: Flow, good: Receiver) -> None:
    assert "receiver 'good': taken" in flow.migration.run("alarms", "test", "--to", "good").stdout
    assert good.told() == [("test", "", "raised"), ("test", "", "resolved")]
    good.answers = 500
    ended = flow.migration.run("alarms", "test", "--to", "good")
    assert (ended.returncode, "it answers 500" in ended.stdout) == (4, True)
    assert SECRET not in ended.stdout + ended.stderr
    assert flow.migration.run("alarms", "test", "--to", "nobody").returncode == 2
    assert "no alarm is raised" in flow.migration.run("alarms", "list").stdout
