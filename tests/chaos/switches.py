"""A chaos run that switches: cutovers and rollbacks under load, while processes of both streams and the command itself
are killed and frozen, targets and the state come back with less, and somebody writes at the standby side.

An application follows the switch all along. At the end both sides have the same rows, and each row is what was
acknowledged last, at whichever side was active then.
"""

from __future__ import annotations

import logging
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

import pymysql

from examples.application import Application, OneTable, Orders, Server, Shards, Switch
from sandbox.broker import KafkaBroker
from sandbox.database import DatabaseServer
from sandbox.demo.shop import Working
from sandbox.stack import Sandbox
from tests.chaos.crew import Actor, Crew, Failure
from tests.chaos.faults import cut_some
from tests.failover.support import SLOW, Flow, wait
from tests.flow.test_cutover import MORE
from tests.forked import Child
from tests.kept import kept

_STREAMS = {
    **{f"forward-{name}": (name,) for name in ("publish", "consume", "commit", "requeue")},
    **{f"reverse-{name}": ("--reverse", name) for name in ("consume", "commit", "requeue")},
    **{f"reverse-{name}": ("--reverse", "publish", "--source", name) for name in ("t0", "t1")},
}
_ATTEMPTS = 4
"""Of a switch beside faults; behind them everything else is left alone, so that it can be done."""
_PATIENCE = 240.0  # seconds that a switch may take then
_FOREIGN = 900_000  # keys from here on are written by hand, at the standby side
_AWAY = frozenset({1040, 1205, 1213, 2003, 2055})


@dataclass(frozen=True)
class Plan:
    """`kills`: of processes; the run goes on until they are done, and ends behind a rollback."""

    seed: int
    kills: int


class _Patient:
    """A way to the orders over which a server that is away, or a lock, is as a connection that was cut."""

    def __init__(self, way: Orders) -> None:
        self._way = way

    def save(self, order: int, user: int, value: int, note: str) -> None:
        try:
            self._way.save(order, user, value, note)
        except pymysql.MySQLError as error:
            raise _cut(error) from error

    def delete(self, order: int, user: int) -> None:
        try:
            self._way.delete(order, user)
        except pymysql.MySQLError as error:
            raise _cut(error) from error


def _cut(error: pymysql.MySQLError) -> pymysql.MySQLError:
    return pymysql.OperationalError(2013, str(error)) if error.args and error.args[0] in _AWAY else error


class Switches:
    """One run. `directory`: config, logs and the journal."""

    def __init__(self, box: Sandbox, kafka: KafkaBroker, directory: Path, name: str, plan: Plan) -> None:
        self._box, self._plan = box, plan
        self._choice = Random(plan.seed)  # noqa: S311 - which faults
        self._began = time.monotonic()
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._journal = (directory / "journal.log").open("a", buffering=1)
        self._until = ExitStack()
        self._until.callback(self._journal.close)
        consume = ", compare_seconds: 3, retry_seconds: 0.2, retry_max_seconds: 2"
        self._flow = Flow(box, kafka, directory, name, box.source, more=MORE, lease=3, consume=consume)
        self._until.callback(self._flow.close)
        self._crew = Crew(self._flow.migration, self._choice, self._note, _STREAMS, twice=False)
        self._until.callback(self._crew.close)
        self._counts: Counter[str] = Counter()
        self._thaws: list[tuple[float, Actor]] = []
        self._lost = False  # since the last verification
        self._commands = False  # a switch is tried
        self._working: list[Working] = []

    def close(self) -> None:
        for one in self._working:
            one.end()
        self._until.close()
        for server in self._box.databases:
            server.execute("SET GLOBAL read_only = 0")

    def _note(self, line: str) -> None:
        self._journal.write(f"{time.monotonic() - self._began:8.2f} {line}\n")

    @property
    def summary(self) -> str:
        kills = sum(self._crew.kills.values()) + self._counts["command killed"]
        others = ", ".join(f"{name} {count}" for name, count in sorted(self._counts.items()))
        return f"{kills} kills; {others}; {sum(one.done for one in self._working)} writes"

    def run(self) -> list[str]:
        """What is wrong at the end, a line each. Raises Failure."""
        self._prepare()
        while sum(self._crew.kills.values()) + self._counts["command killed"] < self._plan.kills:
            self._leg("cutover", "target")
            self._leg("rollback", "source")
        return self._settle()

    # -- the beginning and the end

    def _prepare(self) -> None:
        flow, migration = self._flow, self._flow.migration
        migration.do("init")
        first = [actor for actor in self._crew.actors if actor.name.startswith("forward")]
        for actor in first:
            actor.start()
        wait(flow.position, "the publisher to begin")
        flow.close_copy()
        flow.fill(self._box.source, 500)
        flow.drain()
        migration.do("--reverse", "init")
        self._crew.tend()
        migration.ask("--reverse", "drain", "--timeout", str(SLOW))
        migration.ask("verify")
        user = f"{flow.name}_app"[-32:]
        places = [(self._box.source, flow.database)]
        places += [(server, f"{flow.name}_{number}") for number, server in enumerate(self._box.targets)]
        for server, database in [*places, (self._box.targets[0], f"{flow.name}_state")]:
            server.execute(f"CREATE USER IF NOT EXISTS '{user}'@'%' IDENTIFIED BY 'App-secret-1'")
            server.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.* TO '{user}'@'%'")

        def at(server: DatabaseServer) -> Server:
            return Server(server.host, server.port, user, "App-secret-1", tls=False)

        # It warns of a state that is put back, or read-only for a moment.
        logging.getLogger("application").setLevel(logging.ERROR)
        for number in range(2):
            follower = Switch(at(self._box.targets[0]), f"{flow.name}_state", flow.name, f"app-{number}")
            self._until.enter_context(closing(follower))
            old = OneTable(at(self._box.source), flow.database)
            new = Shards([(at(server), f"{flow.name}_{place}") for place, server in enumerate(self._box.targets)], 2)
            one = Working(
                Application(follower, _Patient(old), _Patient(new)),
                range(100_000 * (1 + number), 100_060 + 100_000 * number),
            )
            self._working.append(one)
            one.start()

    def _settle(self) -> list[str]:
        self._calm()
        for one in self._working:
            one.stop()
        self._settle_foreign()
        flow = self._flow
        for way in ((), ("--reverse",)):
            self._until_done(partial(self._drained, *way), "all to arrive")
        wrong = flow.differences(self._box.source)
        rows = flow.source_rows(self._box.source)
        for one in self._working:
            for key, value in one.values.items():
                have = rows[key][2] if key in rows else None
                if have != value:
                    wrong.append(f"key {key}: {have} instead of the acknowledged {value}")
        wrong += [
            f"key {key} was written at a standby side, and is at the active one" for key in rows if key >= _FOREIGN
        ]
        return wrong

    def _drained(self, *way: str) -> bool:
        return self._run(*way, "drain", "--timeout", "60").returncode == 0

    def _run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """A command to its end, while the processes are looked after."""
        with ThreadPoolExecutor(1) as beside:
            done = beside.submit(self._flow.migration.run, *command)
            while not done.done():
                self._tend(0.1, faults=False)
        return done.result()

    # -- a switch

    def _leg(self, command: str, wanted: str) -> None:
        """One switch, tried until it is made, beside faults at first."""
        for number in range(1, 1000):
            calm = number > _ATTEMPTS
            if number == _ATTEMPTS + 1:
                self._calm()
                ends = time.monotonic() + _PATIENCE
            self._tend(self._choice.uniform(0.2, 2.0), faults=not calm)
            self._settle_foreign()
            if calm or self._lost:
                self._verified(command)
            child = Child(f"migrate {command}", self._directory / f"{command}.log", Path.cwd())
            child.start(self._flow.migration.command(command), self._flow.migration.environment)
            kill_at = (
                time.monotonic() + self._choice.uniform(0.3, 4.0) if not calm and self._choice.random() < 0.5 else None
            )
            self._commands = True
            while child.running:
                if kill_at is not None and time.monotonic() > kill_at:
                    self._counts["command killed"] += 1
                    self._note(f"kill: {command}")
                    child.kill()
                    break
                self._tend(0.05, faults=not calm and self._choice.random() < 0.03)
            self._commands = False
            self._note(f"{command} ended with {child.returncode}, the side is {self._side()}")
            if self._side() == wanted and not self._under_way():
                self._counts[command] += 1
                return
            if calm and time.monotonic() > ends:
                raise Failure(f"{command} is not made: {child.log_tail()}")
        raise Failure(f"{command} is not made")

    def _side(self) -> str:
        rows = self._state("SELECT side FROM application_switch")
        return str(rows[0][0]) if rows else ""

    def _under_way(self) -> bool:
        return bool(self._state("SELECT 1 FROM cutover WHERE finished IS NULL"))

    def _state(self, question: str) -> list[tuple[object, ...]]:
        for _ in range(600):
            with suppress(pymysql.MySQLError, OSError):
                return list(self._flow.state_of(question))
            time.sleep(0.1)
        raise Failure("the state database does not answer")

    def _verified(self, command: str) -> None:
        """What was lost counts as equal only once everything was compared since, in the direction that leads."""
        way = () if command == "cutover" else ("--reverse",)
        done = self._run(*way, "verify")
        self._note(f"verify ended with {done.returncode}")
        self._lost = self._lost and done.returncode != 0

    def _settle_foreign(self) -> None:
        for _ in range(60):
            if not self._state("SELECT 1 FROM foreign_write"):
                return
            done = self._run("foreign", "discard", "--all", "--timeout", "20")
            if done.returncode in (0, 1) and not self._state("SELECT 1 FROM foreign_write"):
                return
            self._tend(0.5, faults=False)
        raise Failure(f"foreign writes are not settled: {done.stdout}{done.stderr}")

    # -- faults

    def _tend(self, seconds: float, *, faults: bool) -> None:
        ends = time.monotonic() + seconds
        while True:
            self._thaw(time.monotonic())
            self._crew.tend()
            for one in self._working:
                if one.failure is not None:
                    raise Failure(f"the application ended: {one.failure!r}")
            if faults:
                self._fault()
                faults = False
            if time.monotonic() >= ends:
                return
            time.sleep(0.05)

    def _fault(self) -> None:
        kinds = {self._kill: 10, self._freeze: 3, self._cut: 3, self._write_by_hand: 3, self._put_back: 1}
        self._choice.choices(list(kinds), list(kinds.values()))[0]()

    def _kill(self) -> None:
        running = [actor for actor in self._crew.actors if actor.working]
        for actor in self._choice.sample(running, min(len(running), self._choice.choice((1, 1, 2, 4)))):
            self._crew.kill(actor)

    def _freeze(self) -> None:
        running = [actor for actor in self._crew.actors if actor.running and not actor.frozen]
        if running:
            actor, seconds = self._choice.choice(running), self._choice.choice((0.5, 2.0, 5.0))
            self._counts["freeze"] += 1
            self._note(f"freeze: {actor.name} for {seconds} s")
            self._crew.freeze(actor)
            self._thaws.append((time.monotonic() + seconds, actor))

    def _thaw(self, until: float) -> None:
        for due, actor in self._thaws:
            if due <= until and actor.running and actor.frozen:
                self._crew.thaw(actor)
        self._thaws = [one for one in self._thaws if one[0] > until]

    def _cut(self) -> None:
        server = self._choice.choice(self._box.databases)
        self._counts["cut"] += 1
        self._note(f"cut: {server.name}")
        with suppress(pymysql.MySQLError, OSError), closing(server.connect(read_timeout=10)) as connection:
            cut_some(connection, self._choice.choice((1, 3, 50)), self._choice)

    def _write_by_hand(self) -> None:
        """At the side that is standby, by somebody whom no read-only stops; not where the sides change."""
        side, key = self._side(), _FOREIGN + 2 * self._choice.randrange(50)
        if self._under_way():
            return
        server, database, table = (
            (self._box.targets[0], f"{self._flow.name}_0", "orders_0")
            if side == "source"
            else (self._box.source, self._flow.database, "orders")
        )
        self._counts["written by hand"] += 1
        self._note(f"written by hand: {key} at {server.name}")
        with suppress(pymysql.MySQLError, OSError):
            server.execute(
                f"REPLACE INTO {table} (id, user_id, value, history) VALUES ({key}, 2, 1, 'by hand')", database=database
            )

    def _put_back(self) -> None:
        """A target comes back as it was a moment before, the first one with the state; only where no application writes
        at it, whose writes would be gone."""
        if self._commands or self._side() != "source" or self._under_way():
            return
        server = self._choice.choice(self._box.targets)
        self._counts["put back"] += 1
        self._lost = True
        self._note(f"put back: {server.name}")
        with kept(server, server.root / "kept") as before:
            self._tend(self._choice.uniform(1, 5), faults=False)
            before.put_back()

    def _calm(self) -> None:
        self._thaw(float("inf"))
        self._tend(0.5, faults=False)

    def _until_done(self, condition: Callable[[], bool], what: str) -> None:
        ends = time.monotonic() + _PATIENCE
        while not condition():
            if time.monotonic() > ends:
                raise Failure(f"waited for {what} in vain: {self._flow.migration.run('status').stdout}")
            self._tend(0.2, faults=False)


def run(box: Sandbox, kafka: KafkaBroker, directory: Path, name: str, plan: Plan) -> tuple[list[str], str]:
    """The whole run. Returns what is wrong, a line each, and a summary."""
    with closing(Switches(box, kafka, directory, name, plan)) as made:
        try:
            return made.run(), made.summary
        except Failure as failure:
            return [str(failure)], made.summary
