"""kill -9 of the publisher at each step of its work, under load: nothing is missed, nothing goes stale (FAULTS F1)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from random import Random

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.flow.support import Pipeline

_PUBLISHER = "migrate.publish.publisher:Publisher"
_OUTBOX = "migrate.publish.outbox:Outbox"
STEPS = [
    ("before", "migrate.publish.reader:TransactionReader.feed", 40),  # an event is read
    ("after", f"{_OUTBOX}._send", 2),  # half of a transaction is sent: they are split at 5 rows here
    ("before", f"{_OUTBOX}._send", 11),
    ("before", f"{_PUBLISHER}._save", 1),  # all is sent, the position is not saved
    ("before", f"{_PUBLISHER}._save", 3),
    ("after", f"{_PUBLISHER}._save", 1),  # the position is saved
]


class Writer(threading.Thread):
    """Transactions of many rows: inserts, updates that move rows and keys, deletes."""

    def __init__(self, pipeline: Pipeline) -> None:
        super().__init__(daemon=True)
        self._pipeline = pipeline
        self._random = Random(2025)  # noqa: S311 - no cryptography
        self._stop_ = threading.Event()
        self.commits = 0
        self.start()

    def run(self) -> None:
        with closing(self._pipeline.box.source.connect(self._pipeline.source)) as connection:
            cursor = connection.cursor()
            while not self._stop_.wait(0.02):
                connection.begin()
                for _ in range(self._random.choice([1, 3, 12])):
                    cursor.execute(self._statement())
                connection.commit()
                self.commits += 1

    def _statement(self) -> str:
        key, user = self._random.randrange(1, 200), self._random.randrange(50)
        return self._random.choice(
            [
                f"REPLACE INTO orders (id, user_id, amount, note) VALUES ({key}, {user}, {self.commits}, 'written')",
                f"UPDATE orders SET amount = {self.commits}, user_id = {user} WHERE id = {key}",
                f"UPDATE IGNORE orders SET id = {self._random.randrange(1, 200)} WHERE id = {key}",
                f"DELETE FROM orders WHERE id = {key}",
            ]
        )

    def close(self) -> None:
        self._stop_.set()
        self.join(30)
        assert not self.is_alive()


@contextmanager
def processes(pipeline: Pipeline, *names: str) -> Iterator[None]:
    running = [subprocess.Popen(pipeline.migration.command(name), env=pipeline.migration.environment) for name in names]
    try:
        yield
    finally:
        for process in running:
            process.send_signal(signal.SIGTERM)
        assert [process.wait(60) for process in running] == [0] * len(running)


def test_a_publisher_killed_at_any_step_loses_nothing(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> None:
    pipeline = Pipeline(
        box,
        kafka,
        tmp_path,
        f"killed_{box.source.flavour}_{os.getpid()}",
        "publish: {transaction_rows: 5, flush_seconds: 0.2}\n",
    )
    pipeline.migration.do("init")
    pipeline.close_copy()
    with processes(pipeline, "consume", "commit", "requeue"), ExitStack() as written:
        with processes(pipeline, "publish"):
            pipeline.migration.wait(lambda: pipeline.migration.ask("status")["sources"][0]["published"], 60, "a start")
        writer = written.enter_context(closing(Writer(pipeline)))
        for step in STEPS:
            launcher = [sys.executable, "-m", "tests.flow.launcher", *map(str, step)]
            done = subprocess.run(
                [*launcher, "--config", str(pipeline.migration.config), "publish"],
                env=pipeline.migration.environment,
                timeout=90,
                check=False,
            )
            assert done.returncode == -signal.SIGKILL, step
        with processes(pipeline, "publish"):
            writer.close()
            assert writer.commits > len(STEPS)
            pipeline.migration.ask("drain", "--timeout", "90")
        assert pipeline.differences() == []
