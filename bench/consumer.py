"""This project's consumer under measurement: the real processes, state database, broker and target."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from pymysql.cursors import Cursor

from bench.publisher import PARTITIONS, rows_of
from bench.topic import Topic, cpu_seconds, peak_mb
from bench.workload import Workload
from sandbox import snippet
from sandbox.database import DatabaseServer
from sandbox.demo.migration import Migration
from sandbox.process import Child
from sandbox.stack import Sandbox

DATABASES, TABLES = 2, 4
_CONFIG = """\
name: {name}
{servers}
databases:
  ds_0: {{target: target1, database: {name}_0}}
  ds_1: {{target: target1, database: {name}_1}}
consume: {{merge_interval_seconds: {interval}}}
commit: {{idle_seconds: 1}}
publish: {{linger_seconds: {linger}}}
tables:
  - name: {table}
    sharding:
      nodes: "ds_${{0..1}}.orders_${{0..3}}"
      database: {{column: user_id, algorithm: MOD, props: {{sharding-count: 2}}}}
      table: {{column: id, algorithm: MOD, props: {{sharding-count: 4}}}}
"""
BEHIND_TOPIC = ("consume", "commit", "requeue")
_SAMPLE_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Applied:
    """One way from the topic to the target."""

    events: int
    seconds: float  # from the first record of a message, or the peer's first row at the target, to the last event
    cpu_seconds: float  # of all our processes behind the topic, in that time
    cpu_target: float  # of the target's server, in that time
    peak_mb: float  # of the consumer

    def figures(self) -> dict[str, float]:
        return {
            "events": self.events,
            "seconds": round(self.seconds, 3),
            "events_per_second": round(self.events / self.seconds),
            "cpu_seconds": round(self.cpu_seconds, 2),
            "cpu_microseconds_per_event": round(1e6 * self.cpu_seconds / self.events, 1),
            "cpu_seconds_of_target": round(self.cpu_target, 2),
            "peak_mb": round(self.peak_mb),
        }


class Pipeline:
    """One migration of the workload's table into 2 databases × 4 tables of one server."""

    def __init__(self, box: Sandbox, directory: Path, load: Workload, number: int, interval: float = 1) -> None:
        self.name = f"bench_{load.name}_{number}"
        servers = snippet.config(box).replace("state: {", f"state: {{database: {self.name}_state, ", 1)
        config = _CONFIG.format(
            name=self.name,
            servers=servers,
            table=f"{load.database}.orders",
            interval=interval,
            linger=min(0.02, interval / 4),
        )
        self._load = load
        self._box = box
        self._directory = directory / self.name
        self._migration = Migration(box, self._directory, config + f"run_dir: {self._directory / 'run'}\n")
        self._children: dict[str, Child] = {}
        self._topic = Topic(box.kafka.bootstrap, f"migrate.{self.name}", PARTITIONS)

    @property
    def source_database(self) -> str:
        return self._load.database

    @property
    def places(self) -> list[str]:
        """The target tables."""
        return [f"{self.name}_{database}.orders_{table}" for database in range(DATABASES) for table in range(TABLES)]

    def pids(self) -> dict[str, int]:
        """Of the processes that were started, by command."""
        return {name: child.pid for name, child in self._children.items()}

    @property
    def target(self) -> DatabaseServer:
        return self._box.targets[0]

    def start(self, *arguments: str) -> Child:
        child = Child(f"{arguments[0]} of {self.name}", self._directory / f"{arguments[0]}.log", Path.cwd())
        child.start(self._migration.command(*arguments), self._migration.environment)
        self._children[arguments[0]] = child
        return child

    def stop(self) -> None:
        for child in reversed(self._children.values()):
            child.stop(60)
        self._children.clear()

    def prepare(self, *, copied: bool = True) -> None:
        """Store the source's position as it is now, and say that no copy inserts, unless one is to come."""
        self._migration.do("init")
        publisher = self.start("publish")
        try:
            self._migration.wait(self._has_started, 60, "the publisher to start")
        finally:
            publisher.stop(60)
        self._children.clear()
        if not copied:
            return
        database = self._load.database
        for number in range(DATABASES):
            self.target.execute(
                "REPLACE INTO _migrate_chunk_fence (migration, source, table_schema, table_name, chunk, attempt,"
                f" closed) VALUES ('{self.name}', 'source', '{database}', 'orders', -1, 1, 1)",
                database=f"{self.name}_{number}",
            )
        self.target.execute("UPDATE phase SET phase = 'copied'", database=f"{self.name}_state")

    def _has_started(self) -> bool:
        return all(source["published"] for source in self._migration.ask("status")["sources"])

    def copy(self, timeout: float) -> dict[str, float]:
        """The full copy; what it says of itself."""
        told: dict[str, float] = self._migration.ask("copy", timeout=timeout)
        return told

    def verify(self, timeout: float) -> dict[str, float]:
        """The verification; what it says of itself."""
        told: dict[str, float] = self._migration.ask("verify", timeout=timeout)
        return told

    def check_copied(self) -> None:
        """Raises when the target is not as the source."""
        with closing(self.target.connect()) as connection, connection.cursor() as cursor:
            self._compare(cursor)

    def drop(self) -> None:
        """The target databases and the state."""
        names = [f"{self.name}_{number}" for number in range(DATABASES)] + [f"{self.name}_state"]
        self.target.execute(*(f"DROP DATABASE {name}" for name in names))

    def publish(self, timeout: float) -> None:
        """Bring the workload into the topic."""
        publisher = self.start("publish")
        try:
            self._topic.watch(publisher.pid, self._load.rows, rows_of, timeout)
        finally:
            publisher.stop(60)
        self._children.clear()

    def run(self, timeout: float) -> Applied:
        """From the topic to the target. Raises when the target does not end as the source."""
        deadline = time.monotonic() + timeout
        ends = self._topic.ends()
        children = [self.start(process) for process in BEHIND_TOPIC]
        pids = [child.pid for child in children]
        began: tuple[float, float, float] | None = None
        with closing(self.target.connect()) as connection, connection.cursor() as cursor:
            while True:
                now = time.monotonic(), sum(map(cpu_seconds, pids)), cpu_seconds(self.target.pid)
                if began is None and self._has_begun(cursor):
                    began = now
                if began is not None and self._consumed(cursor) == sum(ends):
                    break
                if now[0] > deadline:
                    raise TimeoutError(f"{self.name}: {self._consumed(cursor)} of {sum(ends)} messages are consumed")
                time.sleep(_SAMPLE_SECONDS)
            peak = peak_mb(pids[0])
            self._compare(cursor)
        self.stop()
        first, cpu, target = began
        return Applied(self._load.rows, now[0] - first, now[1] - cpu, now[2] - target, peak)

    def _rows(self, cursor: Cursor, each: str, joined: str) -> int:
        cursor.execute("SELECT " + f" {joined} ".join(map(each.format, self.places)))
        return int((cursor.fetchone() or (0,))[0])

    def _has_begun(self, cursor: Cursor) -> bool:
        """The first rows at the target are those of a whole merge: most of the work would be outside."""
        cursor.execute(f"SELECT EXISTS (SELECT 1 FROM {self.name}_state.record)")
        return bool((cursor.fetchone() or (0,))[0])

    def _consumed(self, cursor: Cursor) -> int:
        cursor.execute(f"SELECT COALESCE(SUM(next_offset), 0) FROM {self.name}_state.consumed")
        return int((cursor.fetchone() or (0,))[0])

    def _compare(self, cursor: Cursor) -> None:
        """Count and sums; the suite has the exact comparison."""
        sums = "(SELECT COUNT(*) + SUM(status) + SUM(id) FROM {})"
        mine = self._rows(cursor, sums, "+")
        # Debezium's preparation leaves a row 0 from before everyone's position.
        (theirs,) = self._box.source.query(sums.format(f"{self._load.database}.orders")[1:-1] + " WHERE id > 0")[0]
        if mine != int(theirs):
            raise AssertionError(f"{self.name}: the target's rows make {mine}, the source's {theirs}")
