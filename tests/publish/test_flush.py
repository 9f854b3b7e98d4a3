"""`publish.flush_seconds`: how often the position is stored."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise

import pytest
from publishing import Publishing

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox

SECONDS = 1.5


@pytest.fixture
def main(box: Sandbox, kafka: KafkaBroker) -> Iterator[Publishing]:
    made = Publishing(box.source, box.targets[0], kafka, flush_seconds=SECONDS)
    yield made
    made.close()


def test_the_position_moves_each_time_the_interval_is_over_and_not_before(main: Publishing) -> None:
    stop = threading.Event()

    def write() -> None:
        with closing(main.source.connect(main.database)) as connection, connection.cursor() as cursor:
            for key in range(1_000_000):
                cursor.execute(f"INSERT INTO t VALUES ({key}, 'a')")
                if stop.wait(0.01):
                    return

    writer = threading.Thread(target=write, daemon=True)
    moved: list[float] = []
    with main.running():
        writer.start()
        last = main.position
        try:
            while len(moved) < 7:
                here, now = main.position, time.monotonic()
                if here != last:
                    moved.append(now)
                    last = here
                assert now < (moved or [now])[-1] + 20, "the position does not move"
                time.sleep(0.01)
        finally:
            stop.set()
            writer.join()
    gaps = [later - earlier for earlier, later in pairwise(moved)]
    assert min(gaps) > SECONDS * 0.8  # as seen from outside, with pauses of its own
    assert statistics.median(gaps) < SECONDS * 1.6  # a busy machine may miss one
