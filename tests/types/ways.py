"""The matrix's values on their two ways to a target: through the stream's processes, and through the copy.

The oracle is each server's own answer to `Case.exact`, asked with plain PyMySQL.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from migrate.chunks.chosen_tables import chosen_tables
from migrate.chunks.mark import ChunkMark
from migrate.chunks.sessions import Sessions, forget
from migrate.copy.table_copy import Attempt, ChunkResult, TableCopy
from migrate.copy.tasks import CopyJob, WriteChunk, read_chunk
from migrate.settings import Settings, load
from migrate.state import database
from migrate.target.routing import PlannedTable
from sandbox import snippet
from sandbox.broker import KafkaBroker
from sandbox.database import DatabaseServer
from sandbox.stack import Sandbox
from tests.forked import Migration
from tests.helpers import globally, unique
from tests.types.matrix import Case, Value

SESSION = ("SET NAMES utf8mb4", "SET sql_mode = 'ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO'")
SOURCE_ZONE, TARGET_ZONE, MACHINE_ZONE = "+05:30", "-08:00", "Pacific/Chatham"
"""The servers' default time zones and that of the service's processes; sessions that insert say theirs."""

UPDATED, DELETED = 1000, 2000
"""Keys: a row as it was inserted, one updated from another row's values, one inserted and deleted."""

Rows = Mapping[int, tuple[object, ...]]


@dataclass(frozen=True)
class Wide:
    """A table with a column for each case, and rows that bring all their values."""

    name: str
    cases: Sequence[Case]
    columns: Sequence[str]
    generated: Mapping[str, str] = field(default_factory=dict)  # definitions of further columns, by what they show
    key: str = "id"
    zones: Sequence[str] = ("+00:00",)

    @property
    def create(self) -> str:
        columns = "".join(f", {quoted(column)} {case.type}" for column, case in self._pairs)
        more = "".join(f", {definition}" for definition in self.generated.values())
        return f"CREATE TABLE {self.name} ({quoted(self.key)} INT PRIMARY KEY{columns}{more})"

    @property
    def _pairs(self) -> Iterator[tuple[str, Case]]:
        return zip(self.columns, self.cases, strict=True)

    @property
    def rows(self) -> int:
        """One for each value of the case with most of them, and one of NULLs."""
        return max(len(case.labelled) for case in self.cases) + 1

    @staticmethod
    def value(case: Case, row: int) -> Value:
        """What a case has in a row: NULL, if it may, in row 0, its values in turn in the others."""
        if row == 0 and "NOT NULL" not in case.type:
            return Value("null", "NULL")
        return case.labelled[(row - 1) % len(case.labelled)]

    def changes(self) -> Iterator[str]:
        """Statements that fill the table, each row in a session of one of the zones."""
        names = ", ".join(map(quoted, (self.key, *self.columns)))
        for row in range(self.rows):
            yield f"SET time_zone = '{self.zones[row % len(self.zones)]}'"
            mine = [self.value(case, row).sql for case in self.cases]
            former = [self.value(case, (row or self.rows) - 1).sql for case in self.cases]
            sets = ", ".join(f"{quoted(column)} = {value}" for column, value in zip(self.columns, former, strict=True))
            for key in (row, UPDATED + row, DELETED + row):
                yield f"INSERT INTO {self.name} ({names}) VALUES ({key}, {', '.join(mine)})"
            yield f"UPDATE {self.name} SET {sets} WHERE {quoted(self.key)} = {UPDATED + row}"

    def read(self, server: DatabaseServer, schema: str) -> Rows:
        """What the server says of each row: an exact expression a column, the generated ones behind."""
        more = [f"HEX(CAST({definition.split()[0]} AS BINARY))" for definition in self.generated.values()]
        fields = ", ".join([*(case.exact.format(quoted(column)) for column, case in self._pairs), *more])
        with closing(server.connect(schema)) as connection, connection.cursor() as cursor:
            for statement in (*SESSION, "SET time_zone = '+00:00'", "SET group_concat_max_len = 100000000"):
                cursor.execute(statement)
            cursor.execute(f"SELECT {quoted(self.key)}, {fields} FROM {self.name}")  # no arguments: % is %
            return {int(key): tuple(values) for key, *values in cursor.fetchall()}


def quoted(column: str) -> str:
    """Not the service's own quoting, which is under test."""
    return "`" + column.replace("`", "``") + "`"


def wide_tables(cases: Sequence[Case]) -> list[Wide]:
    """All cases, as many to a table as a row of both servers takes."""
    groups: list[list[Case]] = [[]]
    room = 0
    for case in cases:
        weight = _weight(case.type.upper())
        if room < weight or len(groups[-1]) == 40:
            groups.append([])
            room = 7000
        groups[-1].append(case)
        room -= weight
    named = enumerate(group for group in groups if group)
    return [Wide(f"w{number}", group, [f"c{index}" for index in range(len(group))]) for number, group in named]


def _weight(type_: str) -> int:
    """About the bytes a column takes inside a page of InnoDB; tables with huge columns are filled by them."""
    if "16000)" in type_ or "60000)" in type_:
        return 7000
    length = int(type_.split("(")[1].split(")")[0]) if type_.startswith(("CHAR(", "VARCHAR(", "BINARY(", "VARB")) else 8
    return min(length * 4, 1020) if length < 256 else 300


@dataclass
class Ways:
    """One migration of tables whose rows went by the stream; `copied` brings them again, by the copy."""

    box: Sandbox
    tables: Sequence[Wide]
    source: str
    target: str
    migration: Migration

    def truth(self, table: Wide) -> Rows:
        return table.read(self.box.source, self.source)

    def found(self, table: Wide) -> Rows:
        return table.read(self.box.targets[0], self.target)

    def checksums(self) -> dict[str, tuple[object, object]]:
        """CHECKSUM TABLE at source and target: over the bytes in which the server holds the rows.

        Not of tables with virtual columns, for which MariaDB gives another number each time it is asked.
        """
        return {
            table.name: (
                self.box.source.query(f"CHECKSUM TABLE {self.source}.{table.name}")[0][1],
                self.box.targets[0].query(f"CHECKSUM TABLE {self.target}.{table.name}")[0][1],
            )
            for table in self.tables
            if not table.generated
        }

    @property
    def settings(self) -> Settings:
        return load(self.migration.config, self.migration.environment)

    def empty(self) -> None:
        """No rows in the target's tables."""
        self.box.targets[0].execute(*(f"DELETE FROM {table.name}" for table in self.tables), database=self.target)

    def copy(self) -> None:
        """Empty the target's tables, and fill them by the copy's own functions, without Spark."""
        self.empty()
        settings = self.settings
        state, sessions = database.engine(settings.state), Sessions(settings)
        try:
            with machine_zone():
                for planned in chosen_tables(settings, state, None):
                    copy = TableCopy(settings, planned, state, sessions)
                    assert copy.begin()
                    while wave := copy.wave(1):
                        copy.settle([_copied(settings, planned, attempt) for attempt in wave])
                    copy.finish()
        finally:
            sessions.close()
            state.dispose()
            forget()


def _copied(settings: Settings, planned: PlannedTable, attempt: Attempt) -> ChunkResult:
    job = CopyJob(settings, planned)
    writer = WriteChunk(job, attempt)
    for item in read_chunk(job, attempt):
        if isinstance(item, ChunkMark):
            writer.mark(item)
        else:
            writer.rows(0, (b"".join(item.lines), len(item.lines)))
    return writer.result()


@contextmanager
def machine_zone() -> Iterator[None]:
    """This process in another time zone."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = MACHINE_ZONE
    time.tzset()
    try:
        yield
    finally:
        del os.environ["TZ"]
        if before is not None:
            os.environ["TZ"] = before
        time.tzset()


@contextmanager
def streamed(box: Sandbox, kafka: KafkaBroker, directory: Path, tables: Sequence[Wide]) -> Iterator[Ways]:
    """Tables at a source, changed while the service streams them to a target; it has stopped when this gives them."""
    token = unique(f"types_{box.flavour}")
    source, target = f"{token}_src", f"{token}_to"
    with ExitStack() as stack:
        stack.enter_context(globally(box.source, "time_zone", SOURCE_ZONE))
        stack.enter_context(globally(box.targets[0], "time_zone", TARGET_ZONE))
        _fresh(box.source, source)
        box.source.execute(*SESSION, *(table.create for table in tables), database=source)
        migration = Migration(box, directory, _config(box, kafka, directory, tables, token))
        migration.environment |= {"TZ": MACHINE_ZONE}
        migration.do("init")
        migration.begin()
        try:
            with closing(box.source.connect(source, autocommit=False)) as connection, connection.cursor() as cursor:
                for statement in (*SESSION, *(change for table in tables for change in table.changes())):
                    cursor.execute(statement)
                    if statement.startswith("UPDATE"):
                        connection.commit()
                migration.ask("drain", "--timeout", "120")
                for table in tables:  # once the rows are there: a delete that finds nothing would come again later
                    cursor.execute(f"DELETE FROM {table.name} WHERE {quoted(table.key)} >= {DELETED}")
                connection.commit()
            migration.ask("drain", "--timeout", "120")
        finally:
            migration.stop()
        yield Ways(box, tables, source, target, migration)


def _fresh(server: DatabaseServer, name: str) -> None:
    server.execute(f"DROP DATABASE IF EXISTS {name}", f"CREATE DATABASE {name} CHARACTER SET utf8mb4")


def _config(box: Sandbox, kafka: KafkaBroker, directory: Path, tables: Sequence[Wide], token: str) -> str:
    servers = snippet.config(box).replace("state: {", f"state: {{database: {token}_state, ", 1)
    listed = "".join(
        f"  - {{name: {token}_src.{table.name}, sharding: {{nodes: ds_0.{table.name}}}}}\n" for table in tables
    )
    return (
        f"name: {token}\n{servers}kafka: {{bootstrap: '{kafka.bootstrap}', max_message_bytes: 8000000}}\n"
        f"databases: {{ds_0: {{target: target1, database: {token}_to}}}}\n"
        "publish: {flush_seconds: 0.2, heartbeat_seconds: 0.5}\n"
        "consume: {merge_interval_seconds: 0.3, idle_seconds: 0.5}\ncommit: {idle_seconds: 0.5}\n"
        f"run_dir: {directory / 'run'}\ntables:\n{listed}"
    )
