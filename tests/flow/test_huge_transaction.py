"""One transaction that is larger than what the publisher may hold arrives whole, and its memory stays bounded."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import Flow, wait
from tests.failover.topic import positions
from tests.helpers import log_end, memory_mb, unique

BOUND_MB = 160
"""It takes about 92 MB, 80 of them before the transaction; one that gathers the transaction takes 350."""
COMPRESSED = 100_000


def publish_one(box: Sandbox, kafka: KafkaBroker, directory: Path, rows: int, *session: str) -> float:
    """The most memory that a publisher took for one transaction of so many rows, in MB; each must be sent once.

    session: statements of the writer's session before.
    """
    publish = ", outstanding_bytes: 8388608"
    with closing(Flow(box, kafka, directory, unique("huge"), box.source, publish=publish)) as flow:
        flow.migration.do("init")
        publisher = flow.child("publish", "publish", "--source", "main")
        wait(flow.position, "the publisher to begin")
        with closing(box.source.connect(flow.database)) as connection, connection.cursor() as cursor:
            for statement in session:
                cursor.execute(statement)
            connection.begin()
            for start in range(0, rows, 1000):
                cursor.execute(
                    "INSERT INTO orders WITH RECURSIVE seq (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM seq"
                    f" WHERE n < 1000) SELECT n + {start}, n, n, REPEAT('x', 500) FROM seq"
                )
            connection.commit()

        def sent_all() -> bool:
            found = flow.position()
            return (found["file"], found["pos"]) >= log_end(box.source)

        wait(sent_all, "the publisher to have sent it all")
        peak = memory_mb(publisher.pid)
        sent = [(place, row) for _, place, ordinals in positions(kafka, f"migrate.{flow.name}") for row in ordinals]
        assert len({place for place, _ in sent}) == 1
        assert len(sent) == len(set(sent)) == rows
        return peak


def test_a_transaction_of_200000_rows_goes_through_little_memory(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    assert publish_one(box, kafka, tmp_path, 200_000) < BOUND_MB


def test_a_compressed_transaction_is_not_unpacked_as_a_whole(
    mysql_box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    """It is one event in the log, of some megabytes, and 60 MB unpacked."""
    compressed = "SET SESSION binlog_transaction_compression = ON"
    before = log_end(mysql_box.source)
    peak = publish_one(mysql_box, kafka, tmp_path, COMPRESSED, compressed)
    after = log_end(mysql_box.source)
    assert after[0] == before[0]
    assert after[1] - before[1] < COMPRESSED * 50  # it was compressed
    assert peak < BOUND_MB
