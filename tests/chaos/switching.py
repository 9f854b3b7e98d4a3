"""The second half of a chaos run: cutovers and rollbacks one after the other, beside every fault, the command's own end
among them, and beside rows that somebody writes, changes and deletes at the standby side.
"""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pymysql

from sandbox.database import DatabaseServer
from sandbox.stack import Sandbox
from tests.chaos.crew import Crew, Failure, Say
from tests.chaos.faults import Faults
from tests.chaos.tables import SPREAD, TABLES, TableSpec
from tests.forked import Child, Migration

REVERSE = {
    **{f"reverse-{name}": ("--reverse", name) for name in ("consume", "commit", "requeue")},
    **{f"reverse-publish-{name}": ("--reverse", "publish", "--source", name) for name in ("t0", "t1")},
}
_ATTEMPTS = 4
"""Of a switch beside faults; behind them everything else is left alone, so that it can be done."""
_PATIENCE = 300.0  # seconds that a switch may take then
BY_HAND = 50_000_000 * SPREAD + 3  # keys from here on are written at a standby side; no writer has one


class Switching:
    """Switches there and back. `lost` is set from outside when a server came back with less."""

    def __init__(
        self,
        box: Sandbox,
        migration: Migration,
        name: str,
        crew: Crew,
        faults: Faults,
        choice: Random,
        say: Say,
        written: Callable[[], int],
    ) -> None:
        """written: how many transactions the writers have acknowledged. Raises Failure when one has lost a write."""
        self._box, self._migration, self._name = box, migration, name
        self._crew, self._faults, self._choice, self._say, self._written = crew, faults, choice, say, written
        self.counts: Counter[str] = Counter()
        self._put_back = 0  # of the losses, those behind which everything was compared

    @property
    def kills(self) -> int:
        return sum(self._crew.kills.values()) + self.counts["command killed"]

    def begin(self) -> None:
        """The reverse stream, up to where it has nothing left to do; then all that a cutover wants to know."""
        self._migration.do("--reverse", "init")
        self._crew.start(REVERSE)
        self._until(lambda: self._run("drain", "--timeout", "60").returncode == 0, "all to arrive")
        self._until(lambda: self._run("--reverse", "drain", "--timeout", "60").returncode == 0, "the reverse stream")
        self._until(lambda: self._compared("cutover"), "both sides to be equal")

    def there_and_back(self, kills: int) -> None:
        """At least once each, until so many processes were killed; applications are at the source then."""
        while True:
            self._switch("cutover", "target")
            self._switch("rollback", "source")
            if self.kills >= kills:
                return

    def settle(self) -> None:
        """Nothing is broken any more, and what was written by hand is discarded."""
        self._calm()
        self._discard()

    def written_by_hand(self) -> list[str]:
        """Rows by hand that are at the source, where applications are at the end."""
        found = []
        for spec in _BY_HAND:
            sql = f"SELECT id FROM {self._name}_src.{spec.name} WHERE id >= {BY_HAND} OR note = 'by hand'"
            found += [f"{spec.name} {row[0]} was written at a standby side, and is there" for row in self._source(sql)]
        return found

    # -- a switch

    def _switch(self, command: str, wanted: str) -> None:
        """One, tried until it is made, beside faults at first."""
        ends = 0.0
        for number in range(1, 1000):
            calm = number > _ATTEMPTS
            if number == _ATTEMPTS + 1:
                self._calm()
                ends = time.monotonic() + _PATIENCE
            before = self._written()
            self._faults.may_lose = () if calm else self._standby()
            self._tend(self._choice.uniform(1.0, 8.0), faults=not calm)
            if not self._under_way():
                self._until(lambda before=before: self._written() > before, "a write")  # type: ignore[misc]
            self._faults.may_lose = ()
            self._until(self._faults.servers_are_back, "the servers")
            self._discard()
            if calm or self._lost() or not self._state("SELECT 1 FROM compared LIMIT 1"):  # a server was restarted
                self._compared(command)
            child = Child(f"migrate {command}", self._migration.directory / f"{command}.log", Path.cwd())
            child.start(self._migration.command(command), self._migration.environment)
            kill = not calm and self._choice.random() < 0.5
            kill_at = time.monotonic() + self._choice.uniform(0.3, 4.0)
            while child.running:
                if kill and time.monotonic() > kill_at:
                    self.counts["command killed"] += 1
                    self._say(f"kill: {command}")
                    child.kill()
                    break
                self._tend(0.05, faults=not calm and self._choice.random() < 0.03)
            self._say(f"{command} ended with {child.returncode}, the side is {self._side()}")
            if self._side() == wanted and not self._under_way():
                self.counts[command] += 1
                return
            if calm and time.monotonic() > ends:
                break
        raise Failure(f"{command} is not made: {child.log_tail()}")

    def _side(self) -> str:
        rows = self._state("SELECT side FROM application_switch")
        return str(rows[0][0]) if rows else ""

    def _standby(self) -> Sequence[DatabaseServer]:
        """The servers where no application writes; none while that may change."""
        if self._under_way():
            return ()
        return self._box.targets if self._side() == "source" else (self._box.source,)

    def _under_way(self) -> bool:
        return bool(self._state("SELECT 1 FROM cutover WHERE finished IS NULL"))

    def _state(self, question: str) -> list[Any]:
        for _ in range(600):
            with suppress(pymysql.MySQLError, OSError):
                return list(self._box.targets[0].query(question, database=f"{self._name}_state"))
            self._tend(0.1, faults=False)
        raise Failure("the state database does not answer")

    def _source(self, question: str) -> list[Any]:
        return list(self._box.source.query(question))

    def _lost(self) -> bool:
        return self._faults.counts["put back"] > self._put_back

    def _compared(self, command: str) -> bool:
        """What was lost counts as equal only once everything was compared since, in the direction that leads."""
        way = () if command == "cutover" else ("--reverse",)
        lost = self._faults.counts["put back"]
        done = self._run(*way, "verify")
        self._say(f"verify ended with {done.returncode}")
        if done.returncode == 0:
            self._put_back = lost
        return done.returncode == 0

    def _discard(self) -> None:
        """Until nothing is listed as written by hand."""
        said = ""
        for _ in range(60):
            if not self._state("SELECT 1 FROM foreign_write"):
                return
            done = self._run("foreign", "discard", "--all", "--timeout", "20")
            said = done.stdout
            self._say(f"discard ended with {done.returncode}")
            if done.returncode not in (0, 1):
                self._tend(0.5, faults=False)
        raise Failure(f"foreign writes are not settled: {said}")

    def _run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """A command to its end, while the processes are looked after."""
        with ThreadPoolExecutor(1) as beside:
            done = beside.submit(self._migration.run, *command)
            while not done.done():
                self._tend(0.1, faults=False)
        return done.result()

    # -- faults

    def _tend(self, seconds: float, *, faults: bool) -> None:
        """Look after the processes for a while. `faults`: break something first, and every second or so."""
        ends = time.monotonic() + seconds
        due = 0.0
        while True:
            now = time.monotonic()
            if faults and now >= due:
                kinds = {self._faults.kill: 5, self._faults.other: 5, self._write_by_hand: 2}
                self._choice.choices(list(kinds), list(kinds.values()))[0]()
                due = now + self._choice.expovariate(1.0)
            self._faults.due()
            self._written()
            self._crew.tend()
            if now >= ends:
                return
            time.sleep(0.05)

    def _write_by_hand(self) -> None:
        """At the side that is standby, by somebody whom no read-only stops; not where the sides change."""
        if self._under_way():
            return
        spec, key = self._choice.choice(_BY_HAND), self._choice.randrange(2, 2000)
        statement = self._choice.choice(
            (
                f"REPLACE INTO {{}} ({'id, user_id' if spec.moved else 'id'}, note, stamp) VALUES"
                f" ({BY_HAND + 4 * SPREAD * key}{', 3' if spec.moved else ''}, 'by hand', 1)",
                f"DELETE FROM {{}} WHERE id = {key}",
                f"UPDATE {{}} SET note = 'by hand' WHERE id = {key}",
            )
        )
        if self._side() == "source":
            place, table = spec.places()[self._shard(spec, statement, key)]
            server, database = self._box.targets[place], f"{self._name}_{place}"
        else:
            server, database, table = self._box.source, f"{self._name}_src", spec.name
        self.counts["written by hand"] += 1
        self._say(f"written by hand: {statement.format(table)} at {server.name}")
        with suppress(pymysql.MySQLError, OSError):
            server.execute(statement.format(table), database=database)

    def _shard(self, spec: TableSpec, statement: str, key: int) -> int:
        if statement.startswith("REPLACE"):
            return spec.where({"id": str(BY_HAND), "user_id": "3"})
        return spec.where({"id": str(key), "user_id": str(key % 97)})  # as the row was filled in

    def _calm(self) -> None:
        self._faults.may_lose = ()
        self._faults.calm()

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        ends = time.monotonic() + _PATIENCE
        while not condition():
            if time.monotonic() > ends:
                raise Failure(f"waited for {what} in vain: {self._migration.run('status').stdout}")
            self._tend(0.2, faults=False)


_BY_HAND = [spec for spec in TABLES if spec.fill]
