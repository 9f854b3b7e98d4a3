"""Statements on a real source, and what a reader makes of the log they leave."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field

from migrate.model.coordinate import Coordinate
from migrate.model.table import Table
from migrate.mysql.catalog import collation_charsets, load_table
from migrate.mysql.connection import connect
from migrate.mysql.readable import BinlogPosition, log_end, visible_position
from migrate.publish.emit import Image, Transaction
from migrate.publish.log.binlog import FLAG_ARTIFICIAL, BinlogReader, Event
from migrate.publish.own_writes import OwnWrites
from migrate.publish.reader import TransactionReader
from migrate.publish.schema.schema import Schema
from migrate.publish.schema.token_cursor import Name
from migrate.settings import Source
from sandbox.database import DatabaseServer
from tests.helpers import service_tables

DATABASE = "reader_test"
SIDE = OwnWrites(frozenset({"ours", "ours-reverse"}), "ours-reverse", "active", frozenset({DATABASE}))


@dataclass
class Collected:
    """A sink that keeps what it is given."""

    rows_: list[tuple[str, Transaction, int, list[tuple[Image | None, Image | None]]]] = field(default_factory=list)
    boundaries: list[tuple[str, int]] = field(default_factory=list)
    roles: list[tuple[str, Coordinate]] = field(default_factory=list)
    begun: int = 0

    marks: dict[str, int] = field(default_factory=dict)
    whole: bool = True  # nothing of a transaction goes on before its end

    def begin(self, *, whole: bool) -> None:
        self.begun += 1
        self.marks = {"": len(self.rows_)}

    def savepoint(self, name: str) -> None:
        self.marks[name] = len(self.rows_)

    def rolled_back(self, name: str) -> bool:
        if self.whole:
            del self.rows_[self.marks[name] :]
        return self.whole

    def rows(
        self, table: Table, transaction: Transaction, event: int, rows: Iterable[tuple[Image | None, Image | None]]
    ) -> None:
        self.rows_.append((table.name, transaction, event, list(rows)))

    def role(self, role: str, since: Coordinate, gtid: str, at: int) -> None:
        self.roles.append((role, since))

    def boundary(self, file: str, pos: int, event_time: int, gtid: str | None) -> bool:
        self.boundaries.append((file, pos))
        return True

    @property
    def keys(self) -> list[str | None]:
        return [
            image[0] for _, _, _, rows in self.rows_ for before, after in rows for image in (before or after,) if image
        ]


def reader(
    tables: Mapping[Name, Table], charsets: Mapping[int, str], file: str, sink: Collected, *, mariadb: bool
) -> TransactionReader:
    """Of selected tables, whose definitions stay as they are."""
    schema = Schema.fixed(dict(tables), charsets, mariadb=mariadb)
    return TransactionReader("main", 1, file, schema, charsets, sink, SIDE, mariadb=mariadb)


class Log:
    """Statements on a source, and what the reader makes of the log they leave."""

    def __init__(self, server: DatabaseServer) -> None:
        self.server = server
        self.source = Source(
            name="main", host=server.host, port=server.port, user=server.user, password=server.password, server_id=4711
        )
        self.connection = connect(self.source, "source 'main'")
        server.execute(f"DROP DATABASE IF EXISTS {DATABASE}", f"CREATE DATABASE {DATABASE}")
        server.execute(
            "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(50))",
            "CREATE TABLE other (id INT PRIMARY KEY)",
            *service_tables(),
            database=DATABASE,
        )
        table = load_table(self.connection, "main", DATABASE, "t")
        self.tables = {(DATABASE, "t"): table}
        self.charsets = collation_charsets(self.connection)

    def start(self) -> BinlogPosition:
        return visible_position(self.connection, list(self.tables), threading.Event())

    def run(self, *statements: str, sink: Collected | None = None) -> Collected:
        """Execute in one session, then read the log from before to after."""
        start = self.start()
        self.server.execute(*statements, database=DATABASE)
        return self.read(start, log_end(self.connection), sink)

    def read(self, start: BinlogPosition, end: BinlogPosition, sink: Collected | None = None) -> Collected:
        collected = sink or Collected()
        reader = self.reader(start, collected)
        binlog = BinlogReader(self.source, 4711, 1.0, start.file, start.pos)
        binlog.open()
        try:
            for event in binlog.events():
                reader.follow([event])
                if collected.boundaries and collected.boundaries[-1] >= (end.file, end.pos):
                    return collected
        finally:
            binlog.close()
        raise AssertionError("the log ended early")

    def reader(self, start: BinlogPosition, sink: Collected) -> TransactionReader:
        return reader(self.tables, self.charsets, start.file, sink, mariadb=self.connection.flavour == "mariadb")

    def events(self, *statements: str) -> tuple[BinlogPosition, list[Event]]:
        """Execute in one session; where the log was before, and its events since then."""
        start = self.start()
        self.server.execute(*statements, database=DATABASE)
        end = log_end(self.connection)
        found: list[Event] = []
        binlog = BinlogReader(self.source, 4711, 1.0, start.file, start.pos)
        binlog.open()
        with closing(binlog):
            for event in binlog.events():
                found.append(event)
                if event.end == end.pos and not event.flags & FLAG_ARTIFICIAL:
                    return start, found
        raise AssertionError("the log ended early")
