"""The demo's course: start, load, migrate live, verify, print."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from migrate.model.errors import MigrateError
from migrate.processes import logs
from migrate.settings import load
from migrate.state import database
from migrate.status import snapshot_reading
from sandbox.demo import config
from sandbox.demo.migration import Migration
from sandbox.demo.shop import CREATE, Shop
from sandbox.demo.there_and_back import Moves, ThereAndBack
from sandbox.demo.writer import Writer
from sandbox.demo_data import create_orders, load_sakila
from sandbox.errors import SandboxError
from sandbox.stack import Sandbox


def say(line: str = "") -> None:
    print(line, flush=True)


class LagWatch(threading.Thread):
    """Samples the lag while the writers write."""

    def __init__(self, migration: Migration) -> None:
        super().__init__(name="lag", daemon=True)
        self._settings = load(migration.config, migration.environment)
        logs.configure(self._settings.logging, "")
        self._ended = threading.Event()
        self.seconds: list[float] = []

    def run(self) -> None:
        state = database.engine(self._settings.state)
        while not self._ended.wait(2.0):
            try:
                self.seconds.append(snapshot_reading.read(self._settings, state).lag_seconds)
            except MigrateError:
                continue  # a sample less
        state.dispose()

    def stop(self) -> None:
        self._ended.set()
        self.join()

    @property
    def typical(self) -> float:
        return sorted(self.seconds)[len(self.seconds) // 2] if self.seconds else 0.0


class Demo:
    """The steps, one method each, so that a test can put something between them."""

    def __init__(
        self, box: Sandbox, directory: Path, orders: int = 200_000, writers: int = 2, pause: float = 0.002
    ) -> None:
        """pause: seconds after each change of a writer."""
        self.box = box
        self.migration = Migration(box, directory, config.text(box, directory))
        self._orders = orders
        self._writers = [Writer(box.source, seed, pause) for seed in range(1, writers + 1)]
        self._lag: LagWatch | None = None
        self._write_seconds = 0.0

    def load(self) -> None:
        load_sakila(self.box.source)
        create_orders(self.box.source, self._orders)
        self.box.source.execute(CREATE)

    def prepare(self) -> None:
        """Preflight, init, and the processes."""
        say(self.migration.do("preflight"))
        say(self.migration.do("init"))
        self.migration.start()
        say("publisher, consumer, committer and requeue run")

    def start_writing(self) -> None:
        for writer in self._writers:
            writer.start()
        self._began = time.monotonic()
        self._lag = LagWatch(self.migration)
        self._lag.start()

    def copy(self) -> dict[str, Any]:
        answer: dict[str, Any] = self.migration.ask("copy")
        return answer

    def stop_writing(self) -> int:
        """Ends the writers; returns how many rows they changed."""
        for writer in self._writers:
            writer.stop()
        self._write_seconds = time.monotonic() - self._began
        if self._lag is not None:
            self._lag.stop()
        return sum(writer.changes for writer in self._writers)

    def drain(self) -> dict[str, Any]:
        answer: dict[str, Any] = self.migration.ask("drain", "--timeout", "300")
        return answer

    def verify(self) -> dict[str, Any]:
        answer: dict[str, Any] = self.migration.ask("verify", accept=(0, 1))
        return answer

    @property
    def lag_seconds(self) -> float:
        return self._lag.typical if self._lag else 0.0

    @property
    def write_seconds(self) -> float:
        return self._write_seconds


def named(verified: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """(table, difference) of every difference that a verification names."""
    return [(table["table"], difference) for table in verified["tables"] for difference in table["named"]]


def run(box: Sandbox, directory: Path, orders: int, keep_writing_seconds: float = 5.0) -> int:
    """The whole demo. Returns the number of differences. Raises SandboxError, also when a freeze was too long."""
    demo = Demo(box, directory, orders)
    say(f"loading Sakila and {orders:,} orders into the source")
    demo.load()
    demo.prepare()
    try:
        say("two writers insert, update, delete, and change keys and sharding keys; the copy starts")
        demo.start_writing()
        copied = demo.copy()
        say(f"the copy is done; the writers go on for {keep_writing_seconds:.0f} s")
        time.sleep(keep_writing_seconds)  # the application's own time, nothing is awaited
        changed = demo.stop_writing()
        say("the writers have stopped; draining")
        began = time.monotonic()
        drained = demo.drain()
        drain_seconds = time.monotonic() - began
        verified = demo.verify()
        _report(demo, copied, changed, drained, drain_seconds, verified)
        if differences := int(verified["differences"]) + int(verified["in_motion"]):
            return differences
        moves = there_and_back(demo)
    finally:
        demo.migration.stop()
    end(demo.migration)
    tell_moves(moves, "carts")
    differences = moves.differences + len(moves.lost)
    if not differences and (slow := moves.too_slow()):
        raise SandboxError("; ".join(slow))
    return differences


def there_and_back(demo: Demo) -> Moves:
    """Cutover, rollback and a second cutover under the application; `migrate run` has to be running."""
    say()
    say("the reverse stream is made; then the application writes, and goes through a cutover, a rollback and a cutover")
    with closing(ThereAndBack(demo.box, demo.migration, say)) as second:
        second.prepare()
        shop = Shop(demo.box, config.STATE, "demo")
        shop.start()
        return second.go(shop)


def end(migration: Migration) -> None:
    """`migrate finish`; no process of the migration may be running."""
    say(migration.do("finish", "--yes"))
    say(migration.do("status"))


def tell_moves(moves: Moves, rows: str) -> None:
    """rows: what the application writes."""
    say(f"freeze, predicted   {moves.rehearsed:>12.2f} s")
    for move in moves.made:
        gap = f"at most {move.gap:.2f} s between two writes of a process"
        say(f"freeze, {move.command:12}{move.freeze:>12.2f} s   {gap}")
    say(f"{rows + ' written':20}{moves.writes:>12,}   acknowledged by the side that was open")
    say(f"writes lost         {len(moves.lost):>12,}")
    say(f"differences after   {moves.differences:>12,}")
    for line in moves.lost[:20]:
        say(f"  {line}")
    sys.stdout.flush()


def _report(
    demo: Demo,
    copied: dict[str, Any],
    changed: int,
    drained: dict[str, Any],
    drain_seconds: float,
    verified: dict[str, Any],
) -> None:
    say()
    say(f"{'table':24}{'rows compared':>16}{'differences':>14}")
    for table in verified["tables"]:
        say(f"{table['table']:24}{table['rows']:>16,}{table['differences']:>14,}")
    say()
    say(f"rows copied         {copied['rows_read']:>12,}   {copied['rows_per_second']:,} rows/s")
    say(f"rows changed        {changed:>12,}   {changed / max(demo.write_seconds, 0.001):,.0f} rows/s by the writers")
    say(f"changes applied     {drained['rows_applied']:>12,}   those made by triggers included")
    say(f"lag while writing   {demo.lag_seconds:>12.1f} s")
    say(f"drained in          {drain_seconds:>12.1f} s")
    say(f"rows verified       {verified['rows']:>12,}   {verified['rows_per_second']:,} rows/s")
    say(f"differences         {verified['differences']:>12,}")
    for table, difference in named(verified)[:20]:
        say(f"  {table} key {difference['key']}: {difference['kind']}: {difference['detail']}")
    sys.stdout.flush()
