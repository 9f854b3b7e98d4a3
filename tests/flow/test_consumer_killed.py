"""The crash table: kill -9 of consumer and committer at each step of their work, under load."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, Flow, Writer, wait
from tests.flow.launcher import run_killed
from tests.helpers import unique

pytestmark = pytest.mark.long

NEW, CONSUMED = 0, 1  # states of a record
CONSUMER = [  # where, at which call of it at most, and whether records are left that wait for the next consumer
    # after the poll, before the record is written
    ("after", "migrate.kafka.reader:PartitionReader.poll", 20, False),
    ("before", "migrate.state.record:insert_new", 10, False),
    ("after", "migrate.state.record:insert_new", 10, False),  # written, not committed
    # after the record, before the merge
    ("before", "migrate.consume.queue:SwapQueue.put", 5, True),
    # during swap, filter and dedup
    ("after", "migrate.consume.queue:SwapQueue.swap", 4, False),
    ("before", "migrate.merge.folder:Folder.fold", 6, True),
    ("after", "migrate.merge.fold:Fold.add", 60, True),
    # during the target write: the fence is raised, rows are written, deletes are handed on, before the commit
    ("after", "migrate.target.fence:raise_to", 8, True),
    ("after", "migrate.target.rows:PlaceWriter.insert", 6, True),
    ("before", "migrate.target.rows:PlaceWriter.delete", 6, True),
    ("after", "migrate.target.requeue:AftermathSender.send", 2, True),
    # the target has it, the records are not marked; the last ones inside the transaction that marks them
    ("before", "migrate.state.record:mark_consumed", 6, True),
    ("after", "migrate.state.record:mark_consumed", 6, True),
    # at any commit, at the targets or in the state
    ("before", "pymysql.connections:Connection.commit", 60, False),
    ("after", "pymysql.connections:Connection.commit", 60, False),
]
COMMITTER = [  # and whether the group's offset is past records that are not marked
    ("before", "migrate.kafka.reader:PartitionReader.commit", 4, False),
    ("after", "migrate.kafka.reader:PartitionReader.commit", 4, True),
    ("before", "migrate.state.record:mark_committed", 4, True),
    ("after", "migrate.state.record:mark_committed", 4, True),
]
ROUNDS = 3  # each with every third seam, and a kill of all at a random moment


class Crash(Flow):
    """A flow whose consumer and committer are killed; looks at its records and at the group's offsets."""

    def __init__(self, box: Sandbox, kafka: KafkaBroker, directory: Path, name: str) -> None:
        super().__init__(box, kafka, directory, name, box.source)
        self._admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        self.topic = f"migrate.{name}"

    def let_in(self) -> None:
        """The next process need not wait until the leases of the killed one run out."""
        mine = "name LIKE 'partition:%' OR name LIKE 'member:%' OR name IN ('commit', 'requeue')"
        self.state(f"UPDATE lease SET expires = NOW(6) - INTERVAL 1 SECOND WHERE {mine}")

    def ask(self, sql: str) -> tuple[tuple[int, ...], ...]:
        return self.box.targets[0].query(sql, database=f"{self.name}_state")

    def records(self, state: int, past: str = "") -> int:
        """How many records are in a state."""
        return self.ask(f"SELECT COUNT(*) FROM record WHERE state = {state} {past}")[0][0]

    def prefixes(self) -> dict[int, int]:
        """The end of the consumed prefix of each partition."""
        return dict(self.ask("SELECT partition_no, next_offset FROM consumed"))  # type: ignore[arg-type]

    def group_offsets(self) -> dict[int, int]:
        """What the group has committed, by partition; read with a client of its own."""
        group = ConsumerGroupTopicPartitions(self.topic)
        found = self._admin.list_consumer_group_offsets([group])[self.topic].result(SLOW).topic_partitions
        return {part.partition: part.offset for part in found or [] if part.offset >= 0}

    def move_group(self, to: int | None) -> None:
        """Put the group's offsets somewhere, -1: to the end; None: delete the groups, as when they expired."""
        if to is None:
            groups = [self.topic, f"{self.topic}.delay"]
            known = [one.group_id for one in self._admin.list_consumer_groups().result(SLOW).valid]
            for done in self._admin.delete_consumer_groups([one for one in groups if one in known]).values():
                done.result(SLOW)
            return
        ends = {} if to >= 0 else self._ends()
        wanted = [TopicPartition(self.topic, part, ends.get(part, to)) for part in self.prefixes()]
        moved = self._admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(self.topic, wanted)])
        moved[self.topic].result(SLOW)

    def _ends(self) -> dict[int, int]:
        rows = self.ask("SELECT partition_no, MAX(message_offset) + 1 FROM record GROUP BY partition_no")
        return dict(rows)  # type: ignore[arg-type]

    def check_states(self) -> None:
        """Consumed is a prefix, and no more of it is committed."""
        committed = self.group_offsets()
        prefix = "JOIN consumed USING (topic_id, partition_no)"
        assert not self.ask(f"SELECT partition_no, message_offset FROM record {prefix} WHERE state = {NEW}"
                            " AND message_offset < next_offset")  # fmt: skip
        assert not self.ask(f"SELECT partition_no, message_offset FROM record {prefix} WHERE state <> {NEW}"
                            " AND message_offset >= next_offset")  # fmt: skip
        ends = self.prefixes()
        assert {part: end for part, end in committed.items() if end > ends.get(part, 0)} == {}

    def end(self, *writers: Writer) -> None:
        """The writers end, everything arrives, and the whole oracle says so."""
        for writer in writers:
            writer.stop()
            assert writer.writes > 20
        self.migration.ask("drain", "--timeout", "600")  # a long backlog, on a busy machine
        self.check_states()
        wait(lambda: self.group_offsets() == self.prefixes(), "the committer")
        wait(lambda: not self.records(NEW) + self.records(CONSUMED), "the marks")
        assert self.differences(self.box.source) == []
        rows = self.source_rows(self.box.source)
        assert [line for writer in writers for line in writer.lost(rows)] == []


def begun(flow: Crash) -> tuple[Writer, Writer]:
    """A migration with a publisher, and two writers that go on: of the same rows again and again, and of each row once.

    A message that is lost shows only where no later one of the same row makes it good.
    """
    flow.migration.do("init")
    flow.child("publish", "publish", "--source", "main")
    wait(flow.position, "a start")

    def connect() -> Any:
        return flow.box.source.connect(flow.database)

    return flow.writer(connect, 1, rows=10), flow.writer(connect, 1_000_001, rows=4, keys=1_000_000)


@pytest.mark.timeout(900)
def test_a_consumer_or_committer_killed_at_any_step_loses_nothing(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    choice = Random(2026)  # noqa: S311 - which moments
    flow = Crash(box, kafka, tmp_path, unique("crash"))
    with closing(flow):
        writers = begun(flow)
        for number in range(ROUNDS):  # the copy is open in the first two: deletes that find nothing are handed on
            behind = [flow.child(f"{process}-{number}", process) for process in ("commit", "requeue")]
            for when, where, calls, left in CONSUMER[number::ROUNDS]:
                run_killed(flow.migration, when, where, choice.randint(1, calls), "consume")
                flow.check_states()
                assert flow.records(NEW) or not left, where
                flow.let_in()
            behind[0].stop()
            consumer = flow.child(f"consume-{number}", "consume")
            for when, where, calls, unmarked in COMMITTER[number::ROUNDS]:
                run_killed(flow.migration, when, where, choice.randint(1, calls), "commit")
                flow.check_states()
                if unmarked:
                    below = " OR ".join(
                        f"partition_no = {part} AND message_offset < {end}"
                        for part, end in flow.group_offsets().items()
                    )
                    assert flow.records(CONSUMED, f"AND ({below})"), where
                flow.let_in()
            writers[0].wait_for(choice.randint(1, 50))
            assert consumer.running
            consumer.kill()
            behind[1].kill()
            flow.let_in()
            if number == 1:
                flow.close_copy()
        flow.start_targets()
        flow.end(*writers)


@pytest.mark.parametrize("to", [None, -1, 0], ids=["deleted", "latest", "earliest"])
def test_offsets_of_the_group_that_are_gone_or_wrong_lose_nothing(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path, to: int | None
) -> None:
    """Everything is killed, the group's offsets are moved, everything starts again: they are only a published copy."""
    flow = Crash(box, kafka, tmp_path, unique("group"))
    with closing(flow):
        writers = begun(flow)
        processes = [flow.child(process, process) for process in ("consume", "commit", "requeue")]
        wait(lambda: len(flow.group_offsets()) == 2, "offsets of the group")
        consumer, *behind = processes
        behind[0].kill()
        writers[0].wait_for(50)
        consumer.kill()
        for process in behind:
            process.kill()
        flow.let_in()
        writers[0].wait_for(50)
        flow.move_group(to)
        flow.start_targets()
        flow.end(*writers)
