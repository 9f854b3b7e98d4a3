"""A migration under faults: writers that note what was acknowledged, an address that can be switched, two oracles.

The oracles use none of the service's code: rows by primary key over all shards, and the ledger of acknowledged writes.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pymysql

from sandbox.broker import KafkaBroker
from sandbox.database import DatabaseServer
from sandbox.ports import HOST, free_port
from sandbox.stack import Sandbox
from tests.flow import launcher
from tests.forked import Child, Migration
from tests.helpers import rows_in_utc
from tests.waiting import SLOW as SLOW

TABLES = 2  # databases, and tables in each
_BEHIND = ("consume", "commit", "requeue")


class Forwarder:
    """An address whose server can be switched, as a virtual IP or a proxy is; None: nothing answers there."""

    def __init__(self, upstream: DatabaseServer | None) -> None:
        self.host, self.port = HOST, free_port()
        self.served = Counter[int]()
        """Sessions so far, by the server's port."""
        self._upstream = upstream
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listener = socket.create_server((self.host, self.port))
        threading.Thread(target=self._accept, daemon=True).start()

    def switch(self, upstream: DatabaseServer | None, *, keep: bool = False) -> None:
        """Lead to another server from now on; what is open is cut, unless it is to be kept."""
        with self._lock:
            self._upstream = upstream
            if keep:
                return
            cut, self._open = self._open, set()
        for one in cut:
            _end(one)

    def close(self) -> None:
        self.switch(None)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with self._lock:
            upstream = self._upstream
        try:
            if upstream is None:
                raise ConnectionRefusedError
            server = socket.create_connection((upstream.host, upstream.port), 10)
            server.settimeout(None)
        except OSError:
            client.close()
            return
        with self._lock:
            stale = upstream is not self._upstream
            if not stale:
                self._open |= {client, server}
                self.served[upstream.port] += 1
        if stale:
            _end(client)
            _end(server)
            return
        threading.Thread(target=self._pump, args=(server, client), daemon=True).start()
        self._pump(client, server)

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        _end(source)
        _end(sink)


def _end(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    with suppress(OSError):
        one.close()


class Writer(threading.Thread):
    """Inserts, updates, moves between shards and to other keys, and deletes; notes what the server acknowledged.

    Every change carries a number used once and appends it to `history`. A transaction without an answer may or may not
    be there: its keys are `unsure` until they are written again. `rows`: changes in a transaction, at most. `pause`:
    seconds after each transaction, for each row, while a test waits for writes; else ten times as many, as everything
    that is written has to be brought and compared.
    """

    def __init__(
        self, connect: Callable[[], Any], first: int, keys: int = 40, rows: int = 1, pause: float = 0.002
    ) -> None:
        super().__init__(daemon=True)
        self._connect = connect
        self._keys = range(first, first + keys)
        self._rows = rows
        self._pause = pause * rows
        self._random = random.Random(first)  # noqa: S311 - which row to write
        self._stop_asked = threading.Event()
        self._number = first * 1_000_000
        self.history: dict[int, list[int]] = {}  # key → acknowledged numbers of its row, in order; empty: deleted
        self.unsure: set[int] = set()
        self.writes = 0  # transactions that were acknowledged
        self._hurry = threading.Event()

    def run(self) -> None:
        while not self._stop_asked.is_set():
            with suppress(pymysql.MySQLError, OSError), closing(self._connect()) as connection:
                while not self._stop_asked.is_set():
                    self._write(connection)
                    time.sleep(self._pause)
                    self._hurry.wait(9 * self._pause)
            self._stop_asked.wait(0.1)

    def end(self) -> None:
        """Write no more, and do not wait for an answer."""
        self._stop_asked.set()
        self._hurry.set()

    def stop(self) -> None:
        self.end()
        self.join(SLOW)
        assert not self.is_alive()

    def wait_for(self, writes: int) -> None:
        """Until that many more transactions were acknowledged."""
        wanted = self.writes + writes
        self._hurry.set()
        try:
            wait(lambda: self.writes >= wanted, f"{writes} more writes")
        finally:
            self._hurry.clear()

    def _write(self, connection: Any) -> None:
        statements: list[str] = []
        after: dict[int, list[int]] = {}
        for key in self._random.sample(self._keys, self._rows):
            if key not in after:
                statement, histories = self._change(key, after)
                statements.append(statement)
                after.update(histories)
        if len(statements) > 1:
            statements = ["BEGIN", *statements, "COMMIT"]
        self.unsure |= after.keys()
        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
        self.unsure -= after.keys()
        self.history.update(after)
        self.writes += 1

    def _change(self, key: int, taken: Container[int]) -> tuple[str, dict[int, list[int]]]:
        """A statement, and the history that each key it writes has then; `taken`: keys it must not move a row to."""
        self._number += 1
        number, kind = self._number, self._random.randrange(10)
        before = [] if key in self.unsure else self.history.get(key, [])
        if not before:  # whatever is there: the outcome of the last write is not known, or the key is free
            columns = "(id, user_id, value, history)"
            return f"REPLACE INTO orders {columns} VALUES ({key}, {number}, {number}, '{number}')", {key: [number]}
        if kind == 0:
            return f"DELETE FROM orders WHERE id = {key}", {key: []}
        after = {key: [*before, number]}
        also = ""
        if kind == 1:
            free = [one for one in self._keys if not self.history.get(one) and one not in self.unsure]
            if left := [one for one in free if one not in taken]:
                other = self._random.choice(left)
                also, after = f"id = {other}, ", {key: [], other: after[key]}
        elif kind < 4:
            also = "user_id = user_id + 1, "
        return (
            f"UPDATE orders SET {also}value = {number}, history = CONCAT(history, ',{number}') WHERE id = {key}",
            after,
        )

    def lost(self, rows: dict[int, tuple[Any, ...]]) -> list[str]:
        """Acknowledged writes that the final rows (id → row) do not show."""
        found = []
        for key, numbers in self.history.items():
            if key in self.unsure:
                continue
            row = rows.get(key)
            if row is None and numbers:
                found.append(f"key {key}: no row instead of {numbers}")
            elif row is not None and (row[3].split(","), row[2]) != (
                [str(one) for one in numbers],
                max(numbers, default=None),
            ):
                found.append(f"key {key}: {row} instead of {numbers}")
        return found


def wait(condition: Callable[[], Any], what: str, seconds: float = SLOW) -> Any:
    return Migration.wait(condition, seconds, what)


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    """A process that does nothing for the time of the block."""
    os.kill(pid, signal.SIGSTOP)
    tasks = Path(f"/proc/{pid}/task")
    # The signal is sent; a thread that runs on another processor meets it later.
    wait(
        lambda: all((one / "stat").read_text("ascii").rpartition(") ")[2][0] == "T" for one in tasks.iterdir()),
        "it to be stopped",
    )
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


class Flow:
    """Table `orders` of one source over 2 databases × 2 tables: user_id % 2 and id % 2; its processes one by one.

    `more` goes to the config, `table` to the table in it, a line each; `columns` to the table itself: `, NAME TYPE …`,
    with defaults. `limit`: of a message, in bytes. `state`: where the state database is, if not at the first target;
    `kafka_more`: `, NAME: VALUE …` for its section.
    """

    def __init__(
        self,
        box: Sandbox,
        kafka: KafkaBroker,
        directory: Path,
        name: str,
        source: DatabaseServer,
        *,
        at: Forwarder | None = None,
        state: DatabaseServer | None = None,
        addresses: list[DatabaseServer] | None = None,
        publish: str = "",
        consume: str = "",
        commit: str = "",
        more: str = "",
        columns: str = "",
        table: str = "",
        limit: int = 1_000_000,
        kafka_more: str = "",
        tiers: Sequence[float] = (0.5, 1),
        lease: float = 5,
    ) -> None:
        self.box = box
        self.name = name
        self.database = f"{name}_src"
        self.directory = directory
        source.execute(
            f"CREATE DATABASE {self.database}",
            f"CREATE TABLE {self.database}.orders (id BIGINT UNSIGNED NOT NULL PRIMARY KEY, user_id BIGINT NOT NULL,"
            f" value BIGINT NOT NULL, history MEDIUMTEXT NOT NULL{columns})",
        )
        target = box.targets
        self._state = state or target[0]

        def server(host: str, port: int, of: DatabaseServer) -> str:
            return f"host: {host}, port: {port}, user: {of.user}, password: '{of.password}', connect_timeout: 3"

        first = at or source
        others = ", ".join(f"'{one.host}:{one.port}'" for one in addresses or [])
        config = (
            f"name: {name}\n"
            f"state: {{{server(self._state.host, self._state.port, self._state)}, database: {name}_state}}\n"
            f"sources: [{{name: main, {server(first.host, first.port, source)}, addresses: [{others}]}}]\n"
            f"targets: [{{name: t0, {server(target[0].host, target[0].port, target[0])}}},"
            f" {{name: t1, {server(target[1].host, target[1].port, target[1])}}}]\n"
            f"databases: {{ds_0: {{target: t0, database: {name}_0}}, ds_1: {{target: t1, database: {name}_1}}}}\n"
            f"kafka: {{bootstrap: '{kafka.bootstrap}', partitions: 2, max_message_bytes: {limit}{kafka_more}}}\n"
            f"publish: {{flush_seconds: 0.2, heartbeat_seconds: 0.5{publish}}}\n"
            f"consume: {{merge_interval_seconds: 0.3, idle_seconds: 0.5{consume}}}\n"
            f"commit: {{idle_seconds: 0.5{commit}}}\n"
            f"delay: {{tiers_seconds: {list(tiers)}}}\nlease: {{seconds: {lease}}}\n"
            f"run_dir: {directory / 'run'}\n{more}"
            f"tables:\n  - name: {self.database}.orders\n{table}    sharding:\n"
            '      nodes: "ds_${0..1}.orders_${0..1}"\n'
            "      database: {column: user_id, algorithm: MOD, props: {sharding-count: 2}}\n"
            "      table: {column: id, algorithm: MOD, props: {sharding-count: 2}}\n"
        )
        self.migration = Migration(box, directory, config)
        self._children: list[Child] = []
        self._writers: list[Writer] = []

    # -- processes

    def child(self, label: str, *arguments: str, environment: Mapping[str, str] | None = None) -> Child:
        """Start one `migrate` process with a log of its own; `environment` is added to ours."""
        return self._child(label, self.migration.command(*arguments), environment or {})

    def held(self, label: str, where: str, held: Path, *arguments: str) -> Child:
        """As `child`, but it is held at its first call of a function, or of each of some; the file `held` is there
        then, until it is removed (`tests.flow.launcher`)."""
        line = launcher.command(self.migration, "hold", where, 1, *arguments)
        return self._child(label, line, {"HELD_AT": str(held)})

    def _child(self, label: str, line: list[str], environment: Mapping[str, str]) -> Child:
        child = Child(f"migrate {label}", self.directory / f"{label}.log", Path.cwd())
        child.start(line, {**self.migration.environment, **environment})
        self._children.append(child)
        return child

    def refused(self, *arguments: str, code: int = 3, seconds: float = SLOW) -> str:
        """What a command says that ends with this exit code."""
        ended = self.migration.run(*arguments, timeout=seconds)
        said = ended.stdout + ended.stderr
        assert ended.returncode == code, (arguments, said)
        return said

    def writer(
        self, connect: Callable[[], Any], first: int, rows: int = 1, keys: int = 40, pause: float = 0.002
    ) -> Writer:
        """Start a writer of the source's table; `close` ends it, so that it cannot disturb later tests."""
        writer = Writer(connect, first, keys, rows, pause)
        self._writers.append(writer)
        writer.start()
        return writer

    def children(self, label: str) -> list[Child]:
        """Those that were started under a label."""
        return [child for child in self._children if child.name == f"migrate {label}"]

    def start_targets(self) -> None:
        """The processes behind the topic."""
        for process in _BEHIND:
            self.child(process, process)
        self.close_copy()

    def start_reverse(self) -> None:
        """Its processes, labelled back-…, up to where they have nothing left to do."""
        self.migration.do("--reverse", "init")
        for source in ("t0", "t1"):
            self.child(f"back-{source}", "--reverse", "publish", "--source", source)
        for process in _BEHIND:
            self.child(f"back-{process}", "--reverse", process)
        self.migration.ask("--reverse", "drain", "--timeout", str(SLOW))

    def put_applications_at(self, side: str) -> None:
        """What a cutover leaves, without one: the switch, and the roles of both sides."""
        self.state(
            f"UPDATE application_switch SET side = '{side}', version = version + 1 WHERE migration = '{self.name}'"
        )
        role = "UPDATE _migrate_role SET role = '{}', version = version + 1, writes = writes + 1 WHERE migration = '{}'"
        at_target, at_source = ("active", "standby") if side == "target" else ("standby", "active")
        for number, server in enumerate(self.box.targets):
            server.execute(role.format(at_target, self.name), database=f"{self.name}_{number}")
        self.box.source.execute(role.format(at_source, f"{self.name}-reverse"), database=self.database)

    def close_copy(self) -> None:
        """Say that no copy will insert: as after a full copy of an empty table."""
        for number in range(TABLES):
            self.box.targets[number].execute(
                "REPLACE INTO _migrate_chunk_fence (migration, source, table_schema, table_name, chunk, attempt,"
                f" closed) VALUES ('{self.name}', 'main', '{self.database}', 'orders', -1, 1, 1)",
                database=f"{self.name}_{number}",
            )
        self.state(
            "INSERT INTO phase (migration, source, table_schema, table_name, phase)"
            f" VALUES ('{self.name}', 'main', '{self.database}', 'orders', 'copied')"
            " ON DUPLICATE KEY UPDATE phase = 'copied'"
        )

    def state(self, statement: str) -> None:
        self._state.execute(statement, database=f"{self.name}_state")

    def state_of(self, question: str) -> Any:
        """Rows of the state database."""
        return self._state.query(question, database=f"{self.name}_state")

    def nobody_switches(self) -> None:
        """The next one need not wait until the lease of a cutover that was killed runs out."""
        self.state("UPDATE lease SET expires = NOW(6) - INTERVAL 1 SECOND WHERE name = 'cutover'")

    def stop(self) -> None:
        """Every process, in its own time."""
        for child in self._children:
            child.stop(SLOW)

    def close(self) -> None:
        for writer in self._writers:
            writer.end()
        for child in self._children:
            child.kill()
        self.migration.stop()

    def position(self) -> dict[str, Any]:
        """The stored position, by column, but for what each transaction of the publisher counts; empty while there is
        none."""
        connection = self._state.connect(f"{self.name}_state", cursorclass=pymysql.cursors.DictCursor)
        with closing(connection), connection.cursor() as cursor:
            cursor.execute("SELECT * FROM position")
            row: Any = cursor.fetchone()
            return {name: value for name, value in (row or {}).items() if name not in ("writes", "updated")}

    def fill(self, source: DatabaseServer, rows: int) -> None:
        """Rows with even ids from 2 on; `rows` is a multiple of 500."""
        for start in range(0, rows, 500):
            source.execute(
                "INSERT INTO orders WITH RECURSIVE seq (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM seq WHERE n < 500)"
                f" SELECT 2 * (n + {start}), n, n, 'copied' FROM seq",
                database=self.database,
            )

    def chunks(self, state: str) -> int:
        """How many chunks of the copy are planned, copying or done."""
        sql = f"SELECT COUNT(*) FROM copy_detail WHERE state = '{state}'"
        return int(self._state.query(sql, database=f"{self.name}_state")[0][0])

    def drain(self, seconds: float = SLOW) -> None:
        self.migration.ask("drain", "--timeout", str(seconds))

    @contextmanager
    def kept_up(self) -> Iterator[None]:
        """As a supervisor does: what ends of the processes behind the topic is started again. A client that lost its
        broker for seconds may end its process."""
        ended, over = dict(zip(_BEHIND, map(self._last, _BEHIND), strict=True)), threading.Event()

        def watch() -> None:
            while not over.wait(0.2):
                for process, child in ended.items():
                    if not child.running:
                        ended[process] = self.child(f"{process}_on", process)

        watching = threading.Thread(target=watch, daemon=True)
        watching.start()
        try:
            yield
        finally:
            over.set()
            watching.join()

    def _last(self, label: str) -> Child:
        return self.children(label)[-1]

    # -- oracles

    def source_rows(self, source: DatabaseServer) -> dict[int, tuple[Any, ...]]:
        return {row[0]: row for row in rows_in_utc(source, f"{self.database}.orders")}

    def differences(self, source: DatabaseServer) -> list[str]:
        """Every row that is not exactly where and as it shall be; read with the servers' own clients."""
        wanted = self.source_rows(source)
        found: list[str] = []
        for database in range(TABLES):
            for table in range(TABLES):
                for row in rows_in_utc(self.box.targets[database], f"{self.name}_{database}.orders_{table}"):
                    expected = wanted.get(row[0])
                    if expected is None:
                        found.append(f"extra or twice {row[0]} in {database}.{table}")
                    elif (expected[1] % TABLES, row[0] % TABLES) != (database, table):
                        found.append(f"misplaced {row[0]} in {database}.{table}")
                    elif wanted.pop(row[0]) != row:
                        found.append(f"different {row[0]}: {row} against {expected}")
        return found + [f"missing {key}" for key in wanted]
