"""Two committers, requeue processes and checks: one works, the other takes over when it is killed or frozen."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, Flow, frozen, wait
from tests.forked import Child
from tests.helpers import unique

OVER = 6  # the exit code of a process that was taken over from
CHECK = "check: {interval_seconds: 0.5}\nverify: {rechecks: 2, recheck_seconds: 0.5, chunk_rows: 10}\n"
EMPTY = "INSERT INTO orders VALUES ({0}, {0}, 0, ''); DELETE FROM orders WHERE id = {0}"


class Crew:
    """Processes of one kind; `holder` is the one that works."""

    def __init__(self, flow: Flow, process: str, lease: str) -> None:
        self.flow = flow
        self.process = process
        self.lease = lease
        self.children: list[Child] = []
        self.add()
        wait(self.holder, f"the first {process}")

    def add(self) -> Child:
        child = self.flow.child(f"{self.process}-{len(self.children)}", self.process)
        self.children.append(child)
        return child

    def holder(self) -> Child | None:
        sql = f"SELECT holder FROM lease WHERE name = '{self.lease}' AND expires > NOW(6)"
        found = self.flow.box.targets[0].query(sql, database=f"{self.flow.name}_state")
        pids = {child.pid: child for child in self.children}
        return pids.get(int(found[0][0].split(":")[1])) if found else None

    def handed_to(self, child: Child) -> Callable[[], bool]:
        return lambda: self.holder() is child


def committed(flow: Flow, kafka: KafkaBroker) -> dict[int, int]:
    """What the group has committed at the broker, by partition."""
    topic = f"migrate.{flow.name}"
    group = f"migrate.{flow.name}"
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, number) for number in range(2)])
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    found = admin.list_consumer_group_offsets([wanted])[group].result(20)
    return {part.partition: part.offset for part in found.topic_partitions or [] if part.offset >= 0}


def consumed(flow: Flow) -> dict[int, int]:
    sql = f"SELECT partition_no, next_offset FROM {flow.name}_state.consumed"
    return {int(number): int(end) for number, end in flow.box.targets[0].query(sql)}


@pytest.mark.parametrize(("process", "lease"), [("commit", "commit"), ("requeue", "requeue"), ("check", "check")])
def test_a_process_that_is_frozen_or_killed_is_taken_over_from_and_leaves_nothing_undone(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path, process: str, lease: str
) -> None:
    flow = Flow(box, kafka, tmp_path, unique("others"), box.source, lease=2, commit=", renew_seconds: 0.5", more=CHECK)
    with closing(flow):
        flow.migration.do("init")
        for other in {"publish", "consume", "commit", "requeue"} - {process}:
            flow.child(other, other)
        crew = Crew(flow, process, lease)
        first, second = crew.children[0], crew.add()
        wait(flow.position, "the first position")
        writer = flow.writer(lambda: box.source.connect(flow.database), 100)
        writer.wait_for(50)
        assert crew.holder() is first

        with frozen(first.pid):
            wait(crew.handed_to(second), "the second to take over")
            writer.wait_for(50)
        assert first.wait(SLOW), "the frozen one still runs"
        assert first.returncode == OVER, first.log_tail()

        third = crew.add()
        writer.wait_for(50)
        second.kill()
        wait(crew.handed_to(third), "the third to take over")

        # The table counts as open until here: each delete of what is not there waits in a delayed topic.
        box.source.execute(*EMPTY.format(90_001).split("; "), database=flow.database)
        writer.stop()
        flow.close_copy()
        flow.drain()
        assert flow.differences(box.source) == []
        assert writer.lost(flow.source_rows(box.source)) == []
        wait(lambda: committed(flow, kafka) == consumed(flow), "the offsets at the broker")
        os.kill(third.pid, signal.SIGTERM)
        assert third.wait(SLOW)
        assert third.returncode == 0, third.log_tail()


def test_cleanup_is_taken_over_from_a_frozen_or_killed_process_and_one_that_wakes_stands_by(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    often = ", cleanup_interval_seconds: 0.5, cleanup_age_seconds: 0.1"
    flow = Flow(box, kafka, tmp_path, unique("cleanup"), box.source, lease=2, commit=often)

    def old_records() -> int:
        sql = "SELECT COUNT(*) FROM record WHERE state = 2 AND updated < NOW(6) - INTERVAL 2 SECOND"
        return int(box.targets[0].query(sql, database=f"{flow.name}_state")[0][0])

    def told(child: Child, text: str) -> bool:
        return text in child.log.read_text("utf-8")

    with closing(flow):
        flow.migration.do("init")
        for other in ("publish", "consume", "requeue"):
            flow.child(other, other)
        config = flow.migration.config.read_text("utf-8")
        flow.migration.config.write_text(config.replace(often, ", cleanup_interval_seconds: 3600"), "utf-8")
        committing = flow.child("committing", "commit")  # so that the others only clean up
        wait(lambda: told(committing, "lease taken"), "the committer to begin")
        flow.migration.config.write_text(config, "utf-8")
        crew = Crew(flow, "commit", "cleanup")
        first, second = crew.children[0], crew.add()
        wait(lambda: told(second, "standing by"), "the second to stand by")
        wait(flow.position, "the first position")
        flow.close_copy()
        writer = flow.writer(lambda: box.source.connect(flow.database), 100)
        writer.wait_for(200)
        wait(lambda: told(first, "cleaned up") and not old_records(), "the first to clean up")
        assert not told(second, "cleaned up"), "both clean up"

        with frozen(first.pid):
            wait(crew.handed_to(second), "the second to take over")
            writer.wait_for(200)
            wait(lambda: told(second, "cleaned up") and not old_records(), "the second to clean up")
        wait(lambda: told(first, "lease 'cleanup' is no longer ours"), "the first to see that it lost its place")
        runs = first.log.read_text("utf-8").count("cleaned up")
        writer.wait_for(200)
        wait(lambda: not old_records(), "the second to clean up further")
        assert crew.holder() is second
        assert first.log.read_text("utf-8").count("cleaned up") == runs, "the first goes on"

        second.kill()
        wait(crew.handed_to(first), "the first to take over again")
        writer.stop()
        flow.drain()
        wait(lambda: first.log.read_text("utf-8").count("cleaned up") > runs and not old_records(), "the last to go")
        assert committing.running
        assert first.running
        assert flow.differences(box.source) == []
        assert writer.lost(flow.source_rows(box.source)) == []


def test_offsets_that_the_broker_forgot_are_committed_again(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> None:
    """A broker forgets them after a week without a commit; here they are deleted."""
    flow = Flow(box, kafka, tmp_path, unique("forgot"), box.source, commit=", renew_seconds: 0.5")
    with closing(flow):
        flow.migration.do("init")
        flow.child("publish", "publish")
        flow.start_targets()
        wait(flow.position, "the first position")
        box.source.execute("INSERT INTO orders VALUES (1, 1, 1, ''), (2, 2, 2, '')", database=flow.database)
        flow.drain()
        wait(lambda: consumed(flow) and committed(flow, kafka) == consumed(flow), "the offsets at the broker")
        group = f"migrate.{flow.name}"
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        admin.delete_consumer_groups([group])[group].result(20)
        wait(lambda: committed(flow, kafka) == consumed(flow), "the offsets to be there again")
