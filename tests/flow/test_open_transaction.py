"""Transactions that are open while the publisher starts for the first time and while the copy runs."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from sandbox.broker import KafkaBroker
from sandbox.settings import Flavour
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, Flow, wait
from tests.helpers import unique

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]  # it starts Spark
ROWS = 3_000  # with even ids from 2 to 6,000
WAITS = "cannot begin while transactions are open"  # what the publisher says while it waits
CHUNK = 50
COPY = f"copy: {{chunk_rows: {CHUNK}, chunks_at_once: 1, master: 'local[2]'}}\n"


def change(connection: Any, number: int) -> None:
    """Begin a transaction, and leave it open: changes of all kinds to rows of its own, that the copy reads first and
    last, and new rows before, between and behind those."""
    connection.begin()
    with connection.cursor() as cursor:
        for first in (20 * number, ROWS + 20 * number, 2 * ROWS - 100 + 20 * number):
            cursor.execute(f"INSERT INTO orders VALUES ({first + 1}, {number}, {number}, 'inserted')")
            cursor.execute(f"UPDATE orders SET value = -1, history = 'updated' WHERE id = {first + 2}")
            cursor.execute(f"UPDATE orders SET user_id = user_id + 1 WHERE id = {first + 4}")  # to another database
            cursor.execute(f"UPDATE orders SET id = {first + 7} WHERE id = {first + 6}")
            cursor.execute(f"DELETE FROM orders WHERE id = {first + 8}")
        cursor.execute(f"INSERT INTO orders VALUES ({3 * ROWS + number}, {number}, {number}, 'behind the last')")


@contextmanager
def migration(box: Sandbox, kafka: KafkaBroker, directory: Path) -> Iterator[Flow]:
    flow = Flow(box, kafka, directory, unique("opened"), box.source, more=COPY)
    with closing(flow):
        flow.fill(box.source, ROWS)
        flow.migration.do("init")
        yield flow


def test_what_open_transactions_changed_arrives_whenever_they_commit(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    """MySQL's publisher begins when the first one has ended, and holds up no other meanwhile; MariaDB's at once."""
    with migration(box, kafka, tmp_path) as flow, ExitStack() as sessions:

        def session() -> Any:
            return sessions.enter_context(closing(box.source.connect(flow.database)))

        first, second, third, other = (session() for _ in range(4))
        change(first, 1)
        begun = sessions.enter_context(ThreadPoolExecutor(1)).submit(flow.migration.start)
        if box.flavour is Flavour.MYSQL:
            log = tmp_path / "run" / "logs" / "publish-main.log"
            wait(lambda: log.exists() and WAITS in log.read_text("utf-8"), "the publisher to say that it waits")
            assert flow.position() == {}
            with other.cursor() as cursor:
                cursor.execute("SET SESSION lock_wait_timeout = 60")
                cursor.execute("INSERT INTO orders VALUES (1, 1, 1, 'meanwhile')")
            assert flow.position() == {}
            first.commit()
        begun.result(SLOW)
        change(second, 2)
        change(third, 3)
        copy = flow.child("copy", "copy")
        wait(lambda: flow.chunks("done") >= 2, "the first chunks")
        second.commit()
        if box.flavour is Flavour.MARIADB:
            first.commit()
        assert flow.chunks("done") < ROWS // CHUNK, "the copy was done before they committed"
        assert copy.wait(300), "the copy still runs"
        assert copy.returncode == 0, copy.log_tail()
        third.commit()
        flow.drain()
        assert len(flow.source_rows(box.source)) > ROWS
        assert flow.differences(box.source) == []
