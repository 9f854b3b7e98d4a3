"""What is done to a running migration: kills, freezes, restarts of servers, cut connections, locks, deadlocks."""

from __future__ import annotations

import heapq
import itertools
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from random import Random
from typing import Any

import pymysql

from sandbox.broker import KafkaBroker
from sandbox.database import DatabaseServer
from sandbox.stack import Sandbox
from tests.chaos.crew import Crew, Failure, Say
from tests.chaos.tables import TABLES
from tests.kept import kept

LOCK_WAIT = 2  # seconds that the targets let a statement wait for a lock
_WEIGHT = 300  # rows a session writes so that the server picks the other one as the victim of a deadlock


class Faults:
    """Does one random thing at a time; what takes long runs in a thread beside, one server at a time."""

    def __init__(
        self, box: Sandbox, kafka: KafkaBroker, crew: Crew, name: str, lease: float, choice: Random, say: Say
    ) -> None:
        self._box, self._kafka, self._crew, self._name, self._lease = box, kafka, crew, name, lease
        self._choice = choice
        self._say = say
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._threads: list[threading.Thread] = []
        self._server: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._stop = threading.Event()
        self.counts: Counter[str] = Counter()
        self.may_lose: Sequence[DatabaseServer] = ()
        """Servers that may come back with less: not before the copy is done, as what one lost of that only a person
        has copied again, and not where applications write."""
        for server in box.targets:
            self._tune(server)

    def due(self) -> None:
        """Do what was put off until now. Raises Failure when a server did not come back."""
        while self._later and self._later[0][0] <= time.monotonic():
            heapq.heappop(self._later)[2]()
        if self._failure is not None:
            raise Failure(f"a server did not come back: {self._failure}")

    def kill(self) -> None:
        """SIGKILL of one process, sometimes of both of a kind or of all; a copy is let live for a while.

        Mostly of one that has begun to work: else a busy machine would see nothing but starts.
        """
        starting = self._choice.random() < 0.2
        actors = [actor for actor in self._crew.actors if (actor.running if starting else actor.working)]
        copies = [actor for actor in actors if actor.ends]
        lasting = [actor for actor in actors if not actor.ends]
        draw = self._choice.random()
        if not lasting:
            return
        if draw < 0.02:
            chosen = actors
        elif draw < 0.10:
            kind = self._choice.choice(lasting).name.split("-")[0]
            chosen = [actor for actor in lasting if actor.name.startswith(kind)]
        else:
            chosen = [self._choice.choice(copies if copies and draw > 0.95 else lasting)]
        for actor in chosen:
            self._crew.kill(actor)

    def other(self) -> None:
        """Anything but a kill."""
        kinds = {
            self._freeze: 8,
            self._cut: 6,
            self._lock_rows: 5,
            self._deadlock: 5,
            self._lock_state: 2,
            self._terminate: 2,
            self._freeze_server: 2,
            self._restart_target: 2,
            self._restart_broker: 1,
            **({self._put_back: 2, self._put_back_state: 1} if self.may_lose else {}),
        }
        self._choice.choices(list(kinds), list(kinds.values()))[0]()

    def servers_are_back(self) -> bool:
        """Whether nothing is done to a server any more."""
        return self._server is None or not self._server.is_alive()

    def calm(self) -> None:
        """Undo everything: nothing is frozen, locked or down any more."""
        self._stop.set()
        for thread in self._threads:
            thread.join(180)
            if thread.is_alive():
                raise Failure(f"{thread.name} does not end")
        for _, _, action in sorted(self._later):
            action()
        self._later.clear()
        self.due()
        self._stop.clear()

    # -- processes

    def _freeze(self) -> None:
        actors = [actor for actor in self._crew.actors if actor.running and not actor.frozen]
        if not actors:
            return
        actor = self._choice.choice(actors)
        seconds = self._choice.choice((0.3, 1.0, self._lease * 1.2, self._lease * 2))
        self._note("freeze", f"{actor.name} for {seconds:.1f} s")
        self._crew.freeze(actor)
        pid = actor.pid
        self._at(seconds, lambda: self._crew.thaw(actor) if actor.running and actor.pid == pid else None)

    def _terminate(self) -> None:
        actors = [actor for actor in self._crew.actors if actor.running and not actor.frozen and not actor.ends]
        if actors:
            actor = self._choice.choice(actors)
            self._note("terminate", actor.name)
            actor.ask_to_stop()

    # -- servers

    def _freeze_server(self) -> None:
        server: Any = self._choice.choice([*self._box.targets, self._kafka])
        seconds = self._choice.uniform(0.5, 4)

        def freeze() -> None:
            os.kill(server.pid, signal.SIGSTOP)
            self._stop.wait(seconds)
            os.kill(server.pid, signal.SIGCONT)

        self._at_server(freeze, "freeze server", f"{server.name} for {seconds:.1f} s")

    def _restart_target(self) -> None:
        server = self._choice.choice(self._box.targets)
        softly = self._choice.random() < 0.3

        def restart() -> None:
            server.stop() if softly else server.kill()
            self._stop.wait(self._choice.uniform(0, 2))
            server.start()
            self._tune(server)

        self._at_server(restart, "restart target", f"{server.name}{'' if softly else ', killed'}")

    def _put_back(self) -> None:
        """A server comes back as it was some seconds before; with the first target, the state does too."""
        server = self._choice.choice(self.may_lose)
        seconds = self._choice.uniform(1, 8)

        def put_back() -> None:
            with kept(server, server.root / "kept") as before:
                self._tune(server)
                self._stop.wait(seconds)
                before.put_back()
                self._tune(server)

        self._at_server(put_back, "put back", f"{server.name} by {seconds:.1f} s")

    def _put_back_state(self) -> None:
        """The state alone comes back as it was some seconds before, under all that runs, as from a backup of it.

        In one transaction, so that a connection that is cut meanwhile leaves it as it is.
        """
        server, state, kept_as = self._box.targets[0], f"{self._name}_state", f"{self._name}_kept"
        seconds = self._choice.uniform(1, 8)

        def put_back() -> None:
            with closing(server.connect(state, autocommit=False)) as connection, connection.cursor() as cursor:
                cursor.execute("SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()")
                tables = [f"`{row[0]}`" for row in cursor.fetchall()]
                cursor.execute(f"DROP DATABASE IF EXISTS {kept_as}")
                cursor.execute(f"CREATE DATABASE {kept_as}")
                for table in tables:
                    cursor.execute(f"CREATE TABLE {kept_as}.{table} LIKE {table}")
                cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
                for table in tables:
                    cursor.execute(f"INSERT INTO {kept_as}.{table} SELECT * FROM {table}")
                connection.commit()
                self._stop.wait(seconds)
                cursor.execute("SET SESSION lock_wait_timeout = 60, foreign_key_checks = 0")
                cursor.execute("LOCK TABLES " + ", ".join(f"{one} WRITE, {kept_as}.{one} READ" for one in tables))
                for table in tables:
                    cursor.execute(f"DELETE FROM {table}")
                    cursor.execute(f"INSERT INTO {table} SELECT * FROM {kept_as}.{table}")
                connection.commit()
                cursor.execute("UNLOCK TABLES")
                cursor.execute(f"DROP DATABASE {kept_as}")

        def unless_cut() -> None:
            with suppress(pymysql.MySQLError, OSError):
                put_back()

        self._at_server(unless_cut, "put back", f"the state alone by {seconds:.1f} s")

    def _restart_broker(self) -> None:
        def restart() -> None:
            self._kafka.kill()
            self._kafka.start()

        self._at_server(restart, "restart broker", "killed")

    def _tune(self, server: DatabaseServer) -> None:
        server.execute(f"SET GLOBAL innodb_lock_wait_timeout = {LOCK_WAIT}")

    def _cut(self) -> None:
        """KILL some connections on one server: of the service, or of the writers."""
        server = self._choice.choice(self._box.databases)
        some = self._choice.choice((1, 2, 100))

        def cut() -> None:
            with closing(self._connect(server)) as connection:
                cut_some(connection, some, self._choice)

        self._beside(cut, "cut", f"{some} connections at {server.name}")

    # -- locks

    def _lock_rows(self) -> None:
        """A session holds rows, or all of a table, at a target."""
        number, table = self._place()
        seconds = self._choice.uniform(0.5, LOCK_WAIT * 2.5)
        statement = self._choice.choice(
            (f"SELECT * FROM {table} FOR UPDATE", f"SELECT * FROM {table} ORDER BY stamp DESC LIMIT 5 FOR UPDATE")
        )

        def lock() -> None:
            with closing(self._connect(self._box.targets[number], f"{self._name}_{number}")) as connection:
                connection.query("BEGIN")
                connection.query(statement)
                self._stop.wait(seconds)

        self._beside(lock, "lock rows", f"{table} for {seconds:.1f} s")

    def _deadlock(self) -> None:
        """A session takes the rows of two tables one by one, backwards, and is too heavy to be the victim itself."""
        number, table = self._place()
        _, other = self._place(number)

        def lock() -> None:
            database = f"{self._name}_{number}"
            with (
                closing(self._connect(self._box.targets[number], database)) as connection,
                connection.cursor() as cursor,
            ):
                cursor.execute("CREATE TABLE IF NOT EXISTS chaos_weight (n INT)")
                cursor.execute("BEGIN")
                cursor.execute("INSERT INTO chaos_weight VALUES " + ", ".join(["(1)"] * _WEIGHT))
                for name in (table, other):
                    cursor.execute(f"SELECT stamp FROM {name} ORDER BY stamp DESC LIMIT 40")
                    for (stamp,) in cursor.fetchall():
                        cursor.execute(f"SELECT 1 FROM {name} WHERE stamp = {stamp} FOR UPDATE")
                        if self._stop.wait(0.02):
                            break
                cursor.execute("ROLLBACK")

        self._beside(lock, "deadlock", f"{table} and {other}")

    def _lock_state(self) -> None:
        table = self._choice.choice(("record", "consumed", "watermark", "position", "lease"))
        seconds = self._choice.uniform(0.3, self._lease)

        def lock() -> None:
            with closing(self._connect(self._box.targets[0], f"{self._name}_state")) as connection:
                connection.query("BEGIN")
                connection.query(f"SELECT * FROM {table} FOR UPDATE")
                self._stop.wait(seconds)

        self._beside(lock, "lock state", f"{table} for {seconds:.1f} s")

    def _place(self, database: int | None = None) -> tuple[int, str]:
        places = [place for spec in TABLES for place in spec.places() if database in (None, place[0])]
        return self._choice.choice(places)

    # -- how they are done

    def _connect(self, server: DatabaseServer, database: str | None = None) -> Any:
        return server.connect(database, connect_timeout=3, read_timeout=30)

    def _note(self, kind: str, what: str) -> None:
        self.counts[kind] += 1
        self._say(f"{kind}: {what}")

    def _at(self, seconds: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._later, (time.monotonic() + seconds, next(self._order), action))

    def _beside(self, action: Callable[[], None], kind: str, what: str) -> None:
        """In a thread; what a server that is away refuses is no matter."""

        def run() -> None:
            with suppress(pymysql.MySQLError, OSError):
                action()

        self._note(kind, what)
        self._thread(run, kind)

    def _at_server(self, action: Callable[[], None], kind: str, what: str) -> None:
        """In a thread; not while another server is being treated."""
        if self._server is not None and self._server.is_alive():
            return

        def run() -> None:
            try:
                action()
            except BaseException as error:
                self._failure = error

        self._note(kind, what)
        self._server = self._thread(run, kind)

    def _thread(self, run: Callable[[], None], name: str) -> threading.Thread:
        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        self._threads = [one for one in self._threads if one.is_alive()] + [thread]
        return thread


def cut_some(connection: Any, some: int, choice: Random) -> None:
    """KILL up to so many connections of a server, not this one."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT id FROM information_schema.processlist WHERE command <> 'Daemon'")
        ids = [row[0] for row in cursor.fetchall() if row[0] != connection.thread_id()]
        for one in choice.sample(ids, min(some, len(ids))):
            with suppress(pymysql.MySQLError):
                cursor.execute(f"KILL {one}")
