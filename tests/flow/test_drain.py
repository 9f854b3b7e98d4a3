"""`migrate drain` ends although writes go on: it waits for what was logged before, and for no more."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, Flow, wait
from tests.helpers import unique


@contextmanager
def coming_and_going(flow: Flow) -> Iterator[list[int]]:
    """Rows that are inserted and deleted at once, all the time; the list has the last one."""
    stop, last = threading.Event(), [0]

    def write() -> None:
        with closing(flow.box.source.connect(flow.database, autocommit=True)) as connection:
            cursor = connection.cursor()
            for key in itertools.count(1_000_000):
                if stop.wait(0.002):  # or it would write more than is carried
                    return
                cursor.execute(f"INSERT INTO orders VALUES ({key}, {key}, 1, '')")
                cursor.execute(f"DELETE FROM orders WHERE id = {key}")
                last[0] = key

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield last
    finally:
        stop.set()
        thread.join(SLOW)


def test_it_ends_while_rows_come_and_go_all_the_time(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> None:
    with closing(Flow(box, kafka, tmp_path, unique("drain"), box.source)) as flow:
        flow.migration.do("init")
        flow.child("publish", "publish")
        wait(flow.position, "the publisher to begin")
        flow.start_targets()
        with coming_and_going(flow) as last:
            wait(lambda: last[0], "the first rows")
            box.source.execute("INSERT INTO orders VALUES (1, 1, 1, 'before')", database=flow.database)
            before = last[0]
            now = flow.migration.ask("drain", "--timeout", "60")
            assert now["drained"]
            assert last[0] > before, "rows still came"
            assert box.targets[1].query(f"SELECT COUNT(*) FROM {flow.name}_1.orders_1 WHERE id = 1") == ((1,),)
        flow.drain()
        assert flow.differences(box.source) == []
