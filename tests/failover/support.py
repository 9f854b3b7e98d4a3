"""A migration under faults: writers that note what was acknowledged, an address that can be switched, two oracles.

The oracles use none of the service's code: rows by primary key over all shards, and the ledger of acknowledged writes.
"""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pymysql
from confluent_kafka import Consumer, TopicPartition

from sandbox.broker import KafkaBroker
from sandbox.database import DatabaseServer
from sandbox.demo.migration import Migration
from sandbox.ports import HOST, free_port
from sandbox.process import Child
from sandbox.stack import Sandbox

SLOW = 120.0  # seconds that a condition may take on a machine under load
TABLES = 2  # databases, and tables in each


class Forwarder:
    """An address whose server can be switched, as a virtual IP or a proxy is; None: nothing answers there."""

    def __init__(self, upstream: DatabaseServer | None) -> None:
        self.host, self.port = HOST, free_port()
        self._upstream = upstream
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listener = socket.create_server((self.host, self.port))
        threading.Thread(target=self._accept, daemon=True).start()

    def switch(self, upstream: DatabaseServer | None) -> None:
        """Lead to another server from now on; what is open is cut."""
        with self._lock:
            self._upstream = upstream
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
    """Inserts, updates, moves between shards and deletes, each a transaction; notes what the server acknowledged.

    Every write carries a number used once and appends it to `history`. A write without an answer may or may not be
    there: its outcome is `unsure` until the key is written again.
    """

    def __init__(self, connect: Callable[[], Any], database: str, first: int, keys: int = 40) -> None:
        super().__init__(daemon=True)
        self._connect = connect
        self._database = database
        self._keys = range(first, first + keys)
        self._random = random.Random(first)  # noqa: S311 - which row to write
        self._stop_asked = threading.Event()
        self._number = first * 1_000_000
        self.acknowledged: dict[int, int | None] = {}  # key → number of its last write; None: deleted
        self.history: dict[int, list[int]] = {}  # key → acknowledged numbers since its insert, in order
        self.unsure: dict[int, set[int | None]] = {}
        self.writes = 0

    def run(self) -> None:
        while not self._stop_asked.is_set():
            with suppress(pymysql.MySQLError, OSError), closing(self._connect()) as connection:
                while not self._stop_asked.is_set():
                    self._write(connection)
                    time.sleep(0.002)
            self._stop_asked.wait(0.1)

    def end(self) -> None:
        """Write no more, and do not wait for an answer."""
        self._stop_asked.set()

    def stop(self) -> None:
        self.end()
        self.join(SLOW)
        assert not self.is_alive()

    def wait_for(self, writes: int) -> None:
        """Until that many more writes were acknowledged."""
        wanted = self.writes + writes
        wait(lambda: self.writes >= wanted, f"{writes} more writes")

    def _write(self, connection: Any) -> None:
        key = self._random.choice(self._keys)
        self._number += 1
        number, kind = self._number, self._random.randrange(10)
        there = self.acknowledged.get(key) is not None and key not in self.unsure
        deletes = there and kind == 0
        if deletes:
            statement = f"DELETE FROM orders WHERE id = {key}"
        elif there and kind < 4:
            statement = (
                f"UPDATE orders SET user_id = user_id + 1, value = {number}, history = CONCAT(history, ',{number}')"
                f" WHERE id = {key}"
            )
        elif there:
            statement = f"UPDATE orders SET value = {number}, history = CONCAT(history, ',{number}') WHERE id = {key}"
        else:  # whatever is there: the outcome of the last write is not known, or the key is free
            statement = f"REPLACE INTO orders VALUES ({key}, {number}, {number}, '{number}')"
        self.unsure.setdefault(key, set()).add(None if deletes else number)
        with connection.cursor() as cursor:
            cursor.execute(statement)
        del self.unsure[key]
        self.acknowledged[key] = None if deletes else number
        self.history[key] = [] if deletes else [*(self.history.get(key, []) if there else []), number]
        self.writes += 1

    def lost(self, rows: dict[int, tuple[Any, ...]]) -> list[str]:
        """Acknowledged writes that the final rows (id → row) do not show."""
        found = []
        for key, number in self.acknowledged.items():
            if key in self.unsure:
                continue
            row = rows.get(key)
            if (None if row is None else row[2]) != number:
                found.append(f"key {key}: {row} instead of {number}")
            elif row is not None and [int(word) for word in row[3].split(",")] != self.history[key]:
                found.append(f"key {key}: history {row[3]} instead of {self.history[key]}")
        return found


def wait(condition: Callable[[], Any], what: str, seconds: float = SLOW) -> Any:
    return Migration.wait(condition, seconds, what)


def late_messages(kafka: KafkaBroker, topic: str) -> int:
    """Messages in the topic with rows at or below a coordinate that an earlier one of their partition carries."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "oracle", "enable.auto.commit": False})
    late = 0
    with closing(consumer):
        for partition in consumer.list_topics(topic, timeout=SLOW).topics[topic].partitions:
            end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=SLOW)[1]
            consumer.assign([TopicPartition(topic, partition, 0)])
            highest: tuple[int, ...] = ()
            offset = 0
            while offset < end:
                for message in consumer.consume(500, 1.0):
                    assert message.error() is None, message.error()
                    offset = int(message.offset() or 0) + 1
                    pos = json.loads(message.value() or b"{}")["pos"]
                    place = (pos["inc"], pos["file"], pos["tx"])
                    late += (*place, pos["rows"][0]) <= highest
                    highest = max(highest, (*place, pos["rows"][-1]))
    return late


class Flow:
    """Table `orders` of one source over 2 databases × 2 tables: user_id % 2 and id % 2; its processes one by one."""

    def __init__(
        self,
        box: Sandbox,
        kafka: KafkaBroker,
        directory: Path,
        name: str,
        source: DatabaseServer,
        *,
        at: Forwarder | None = None,
        addresses: list[DatabaseServer] | None = None,
        more: str = "",
    ) -> None:
        self.box = box
        self.name = name
        self.database = f"{name}_src"
        self.directory = directory
        source.execute(
            f"CREATE DATABASE {self.database}",
            f"CREATE TABLE {self.database}.orders (id BIGINT UNSIGNED NOT NULL PRIMARY KEY, user_id BIGINT NOT NULL,"
            " value BIGINT NOT NULL, history MEDIUMTEXT NOT NULL)",
        )
        target = box.targets

        def server(host: str, port: int, of: DatabaseServer) -> str:
            return f"host: {host}, port: {port}, user: {of.user}, password: '{of.password}', connect_timeout: 3"

        first = at or source
        others = ", ".join(f"'{one.host}:{one.port}'" for one in addresses or [])
        config = (
            f"name: {name}\n"
            f"state: {{{server(target[0].host, target[0].port, target[0])}, database: {name}_state}}\n"
            f"sources: [{{name: main, {server(first.host, first.port, source)}, addresses: [{others}]}}]\n"
            f"targets: [{{name: t0, {server(target[0].host, target[0].port, target[0])}}},"
            f" {{name: t1, {server(target[1].host, target[1].port, target[1])}}}]\n"
            f"databases: {{ds_0: {{target: t0, database: {name}_0}}, ds_1: {{target: t1, database: {name}_1}}}}\n"
            f"kafka: {{bootstrap: '{kafka.bootstrap}', partitions: 2}}\n"
            "publish: {flush_seconds: 0.2, heartbeat_seconds: 0.5}\n"
            "consume: {merge_interval_seconds: 0.3, idle_seconds: 0.5}\ncommit: {idle_seconds: 0.5}\n"
            "delay: {tiers_seconds: [0.5, 1]}\nlease: {seconds: 3}\n"
            f"run_dir: {directory / 'run'}\n{more}"
            f"tables:\n  - name: {self.database}.orders\n    sharding:\n"
            '      nodes: "ds_${0..1}.orders_${0..1}"\n'
            "      database: {column: user_id, algorithm: MOD, props: {sharding-count: 2}}\n"
            "      table: {column: id, algorithm: MOD, props: {sharding-count: 2}}\n"
        )
        self.migration = Migration(box, directory, config)
        self._children: list[Child] = []
        self._writers: list[Writer] = []

    # -- processes

    def child(self, label: str, *arguments: str) -> Child:
        """Start one `migrate` process with a log of its own."""
        child = Child(f"migrate {label}", self.directory / f"{label}.log", Path.cwd())
        child.start(self.migration.command(*arguments), self.migration.environment)
        self._children.append(child)
        return child

    def writer(self, connect: Callable[[], Any], first: int) -> Writer:
        """Start a writer of the source's table; `close` ends it, so that it cannot disturb later tests."""
        writer = Writer(connect, self.database, first)
        self._writers.append(writer)
        writer.start()
        return writer

    def start_targets(self) -> None:
        """The processes behind the topic."""
        for process in ("consume", "commit", "requeue"):
            self.child(process, process)
        self.close_copy()

    def close_copy(self) -> None:
        """Say that no copy will insert: as after a full copy of an empty table."""
        for number in range(TABLES):
            self.box.targets[number].execute(
                "REPLACE INTO _migrate_chunk_fence (migration, source, table_schema, table_name, chunk, attempt,"
                f" closed) VALUES ('{self.name}', 'main', '{self.database}', 'orders', -1, 1, 1)",
                database=f"{self.name}_{number}",
            )
        self.state(
            "REPLACE INTO phase (migration, source, table_schema, table_name, phase)"
            f" VALUES ('{self.name}', 'main', '{self.database}', 'orders', 'copied')"
        )

    def state(self, statement: str) -> None:
        self.box.targets[0].execute(statement, database=f"{self.name}_state")

    def close(self) -> None:
        for writer in self._writers:
            writer.end()
        for child in self._children:
            child.kill()
        self.migration.stop()

    def position(self) -> dict[str, Any]:
        """The stored position, by column; empty while there is none."""
        connection = self.box.targets[0].connect(f"{self.name}_state", cursorclass=pymysql.cursors.DictCursor)
        with closing(connection), connection.cursor() as cursor:
            cursor.execute("SELECT * FROM position")
            row: Any = cursor.fetchone()
            return dict(row or {})

    def drain(self) -> None:
        self.migration.ask("drain", "--timeout", str(SLOW))

    # -- oracles

    def source_rows(self, source: DatabaseServer) -> dict[int, tuple[Any, ...]]:
        return {row[0]: row for row in source.query("SELECT * FROM orders", database=self.database)}

    def differences(self, source: DatabaseServer) -> list[str]:
        """Every row that is not exactly where and as it shall be; read with the servers' own clients."""
        wanted = self.source_rows(source)
        found: list[str] = []
        for database in range(TABLES):
            for table in range(TABLES):
                rows = self.box.targets[database].query(f"SELECT * FROM {self.name}_{database}.orders_{table}")
                for row in rows:
                    expected = wanted.get(row[0])
                    if expected is None:
                        found.append(f"extra or twice {row[0]} in {database}.{table}")
                    elif (expected[1] % TABLES, row[0] % TABLES) != (database, table):
                        found.append(f"misplaced {row[0]} in {database}.{table}")
                    elif wanted.pop(row[0]) != row:
                        found.append(f"different {row[0]}: {row} against {expected}")
        return found + [f"missing {key}" for key in wanted]
