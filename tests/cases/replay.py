"""All cases of a flavour in one migration, live, with an oracle of its own that uses none of the service's code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pymysql

from sandbox import snippet
from sandbox.broker import KafkaBroker
from sandbox.database import DatabaseServer
from sandbox.stack import Sandbox
from tests.cases.case import Case, cases
from tests.forked import Migration
from tests.helpers import globally, unique

_GLOBALS: Mapping[str, str | int] = {
    "sql_select_limit": 500,
    "sql_safe_updates": 1,
    "autocommit": 0,
    "lc_messages": "de_DE",
}
"""What the service's sessions must not take over, at every server."""
_ROW_METADATA = {"mariadb": "NO_LOG", "mysql": "MINIMAL"}
"""The servers' own default of binlog_row_metadata; the sandbox has FULL."""
_BYTES = frozenset({"char", "varchar", "text", "mediumtext", "longtext", "blob", "longblob", "binary", "varbinary"})
_NUMBERED = frozenset({"enum", "set", "bit"})


class Replay:
    """One migration of every case that is not refused; its tables keep their names in one target database."""

    def __init__(self, box: Sandbox, kafka: KafkaBroker, directory: Path, named: str = "") -> None:
        """named: how the cases' names begin."""
        self.box = box
        usable = [case for case in cases(str(box.flavour)) if not case.refused and not case.open]
        self.cases = [case for case in usable if case.name.startswith(named)]
        name = unique("cases")
        self.source, self.target = f"{name}_src", f"{name}_target"
        box.source.execute(f"CREATE DATABASE {self.source}")
        servers = snippet.config(box).replace("state: {", f"state: {{database: {name}_state, ", 1)
        entries = (
            f"  - {{name: {self.source}.{table}, ddl: {case.ddl}, sharding: {{nodes: ds_0.{table}}}}}\n"
            for case in self.cases
            for table in case.tables
        )
        config = (
            f"name: {name}\n{servers}kafka: {{bootstrap: '{kafka.bootstrap}', partitions: 2}}\n"
            f"databases: {{ds_0: {{target: target1, database: {self.target}}}}}\n"
            "publish: {flush_seconds: 0.2, heartbeat_seconds: 0.5}\n"
            "consume: {merge_interval_seconds: 0.3, idle_seconds: 0.5}\ncommit: {idle_seconds: 0.5}\n"
            "delay: {tiers_seconds: [0.5, 1]}\nverify: {recheck_seconds: 0.5}\n"
            f"run_dir: {directory / 'run'}\ntables:\n{''.join(entries)}"
        )
        self.migration = Migration(box, directory, config)
        self._sessions: dict[str, pymysql.connections.Connection[Any]] = {}

    @contextmanager
    def running(self) -> Iterator[None]:
        """Prepared, initialised under unusual globals, published; the cases' sessions began before."""
        with ExitStack() as stack:
            for case in self.cases:
                self._sessions[case.name] = stack.enter_context(closing(self.box.source.connect(self.source)))
            self.write("prepare")
            source = self.box.source
            stack.enter_context(globally(source, "binlog_row_metadata", _ROW_METADATA[str(self.box.flavour)]))
            for server in (source, *self.box.targets):
                for name, value in _GLOBALS.items():
                    stack.enter_context(globally(server, name, value))
            self.migration.do("preflight")
            self.migration.do("init")
            stack.callback(self.migration.stop)
            self.migration.begin()
            yield

    def write(self, *phases: str) -> None:
        """What the cases' applications write then."""
        for case in self.cases:
            for phase, sql in case.statements(*phases):
                if phase == "target":
                    self.at_target(sql)
                else:
                    self.as_application(case.name, sql)

    def as_application(self, case: str, *statements: str) -> None:
        """In a case's own session."""
        with self._sessions[case].cursor() as cursor:
            for sql in statements:
                cursor.execute(sql)

    def at_target(self, *statements: str) -> None:
        """By hand, in a session with the usual settings."""
        usual = ("SET SESSION sql_safe_updates = 0, autocommit = 1",)
        self.box.targets[0].execute(*usual, *statements, database=self.target)

    def rows(self, table: str) -> tuple[tuple[Any, ...], ...]:
        """Of the target's."""
        return rows_of(self.box.targets[0], self.target, table)

    def differences(self, case: Case) -> list[str]:
        """Rows and columns of the case's tables that are not at both sides."""
        found = []
        for table in case.tables:
            sides = (self.box.source, self.source), (self.box.targets[0], self.target)
            for what in (rows_of, _columns):
                ours, theirs = (what(server, database, table) for server, database in sides)
                found += [f"{table}: only at the source: {str(row)[:300]}" for row in ours if row not in theirs]
                found += [f"{table}: only at the target: {str(row)[:300]}" for row in theirs if row not in ours]
                found += [f"{table}: {len(ours)} rows and {len(theirs)}"] if len(ours) != len(theirs) else []
        return found


def _columns(server: DatabaseServer, database: str, table: str) -> tuple[tuple[Any, ...], ...]:
    sql = (
        "SELECT COLUMN_NAME, REPLACE(COLUMN_TYPE, ' /* mariadb-5.3 */', ''), COLLATION_NAME, IS_NULLABLE,"
        " COLUMN_DEFAULT, EXTRA"
        " FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION"
    )
    return _read(server, sql, (database, table))


def rows_of(server: DatabaseServer, database: str, table: str) -> tuple[tuple[Any, ...], ...]:
    types = (
        "SELECT COLUMN_NAME, DATA_TYPE FROM information_schema.COLUMNS"
        " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION"
    )
    columns = _read(server, types, (database, table))
    fields = ", ".join(_exact(str(name), str(kind).lower()) for name, kind in columns)
    return tuple(sorted(_read(server, f"SELECT {fields} FROM {database}.{table}"), key=repr))


def _exact(name: str, kind: str) -> str:
    if kind in _NUMBERED:
        return f"CAST(`{name}` AS UNSIGNED)"
    if kind in _BYTES:
        return f"HEX(`{name}`)"
    if kind in ("float", "double"):
        return f"`{name}` * 1e0"
    return f"HEX(CAST(`{name}` AS {'BINARY' if kind == 'point' else 'CHAR'}))"


def _read(server: DatabaseServer, sql: str, arguments: tuple[str, ...] = ()) -> tuple[tuple[Any, ...], ...]:
    begun = "SET SESSION time_zone = '+00:00', sql_select_limit = 18446744073709551615, autocommit = 1"
    with closing(server.connect(init_command=begun)) as connection, connection.cursor() as cursor:
        cursor.execute(sql, arguments or None)
        return tuple(cursor.fetchall())
