"""The broker is killed while it is published to: the publisher waits, holds little, and goes on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from publishing import Publishing

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox

_LIMIT = 1024 * 1024  # bytes that may be on their way
_ROWS = 1000  # in a transaction


@pytest.fixture(scope="module")
def broker(run_root: Path) -> Iterator[KafkaBroker]:
    """One that may be killed."""
    made = KafkaBroker(run_root / "kafka-killed")
    made.start()
    yield made
    made.kill()


def test_what_is_written_while_the_broker_is_down_comes_once_it_is_back(box: Sandbox, broker: KafkaBroker) -> None:
    main = Publishing(box.source, box.targets[0], broker, outstanding_bytes=_LIMIT)
    try:
        with main.running() as publisher:
            main.until(lambda: main.position is not None, "the first position")
            main.sql("INSERT INTO t VALUES (0, 'a')")
            main.until(lambda: main.keys() == [0], "the first row")
            main.until_at_end()
            broker.kill()
            for first in range(1, 40 * _ROWS, _ROWS):
                rows = ", ".join(f"({key}, REPEAT('x', 50))" for key in range(first, first + _ROWS))
                main.sql(f"INSERT INTO t VALUES {rows}")
            main.until(lambda: publisher._batches._held > _LIMIT // 2, "it to fill what it may hold")
            stored = main.position
            time.sleep(2.0)
            assert main.position == stored  # nothing is confirmed
            assert publisher._batches._held < 1.25 * _LIMIT  # with the transaction that waits to be handed over
            broker.start()
            main.until_at_end()
        assert main.effective_keys() == list(range(40 * _ROWS + 1))
    finally:
        main.close()
