"""One transaction that is larger than what the publisher may hold arrives whole, and its memory stays bounded (F19)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.process import Child
from sandbox.stack import Sandbox
from tests.failover.support import Flow, wait
from tests.failover.topic import positions
from tests.helpers import unique

ROWS = 200_000
BOUND_MB = 160
"""It takes about 92 MB, 80 of them before the transaction; one that gathers the transaction takes 350."""


@pytest.fixture
def flow(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> Iterator[Flow]:
    with closing(
        Flow(box, kafka, tmp_path, unique("huge"), box.source, publish=", outstanding_bytes: 8388608")
    ) as made:
        made.migration.do("init")
        yield made


def peak_mb(process: Child) -> float:
    """VmHWM: the most memory that was resident at once (proc(5))."""
    status = Path(f"/proc/{process.pid}/status").read_text("ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def at_log_end(flow: Flow) -> bool:
    sql = "SHOW MASTER STATUS" if flow.box.flavour == "mariadb" else "SHOW BINARY LOG STATUS"
    file, pos = flow.box.source.query(sql)[0][:2]
    found = flow.position()
    return (found["file"], found["pos"]) >= (file, pos)


def test_a_transaction_of_200000_rows_goes_through_little_memory(flow: Flow, kafka: KafkaBroker) -> None:
    publisher = flow.child("publish", "publish", "--source", "main")
    wait(flow.position, "the publisher to begin")
    before = peak_mb(publisher)
    with closing(flow.box.source.connect(flow.database)) as connection, connection.cursor() as cursor:
        connection.begin()
        for start in range(0, ROWS, 1000):
            cursor.execute(
                "INSERT INTO orders WITH RECURSIVE seq (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM seq WHERE n < 1000)"
                f" SELECT n + {start}, n, n, REPEAT('x', 500) FROM seq"
            )
        connection.commit()
    wait(lambda: at_log_end(flow), "the publisher to have sent it all")
    peak = peak_mb(publisher)
    sent = [(place, row) for _, place, rows in positions(kafka, f"migrate.{flow.name}") for row in rows]
    assert len({place for place, _ in sent}) == 1
    assert len(sent) == len(set(sent)) == ROWS
    assert peak < BOUND_MB, f"{before:.0f} MB before it"
