"""What several test modules need: configs as mappings, tables without a server, sessions on the real ones."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from pymysql.constants import COMMAND

from migrate.model.table import Column, Kind, Table
from migrate.mysql.catalog import load_table
from migrate.mysql.connection import Connection, connect
from migrate.settings import Server, Settings, parse
from migrate.state.database import sql_steps
from migrate.target.routing import Plan
from sandbox.database import DatabaseServer
from tests.waiting import until

_numbers = itertools.count(1)
SHARDING: dict[str, Any] = {
    "nodes": "ds_${0..1}.t_${0..1}",
    "database": {"column": "shard", "algorithm": "INLINE", "props": {"algorithm-expression": "ds_${shard % 2}"}},
    "table": {"column": "shard", "algorithm": "INLINE", "props": {"algorithm-expression": "t_${shard.intdiv(2) % 2}"}},
}
"""Four places by `shard`: 0 is ds_0.t_0, 1 is ds_1.t_0, 2 is ds_0.t_1, 3 is ds_1.t_1."""

TABLE_WAITERS = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting for table%lock'"
"""How many sessions of a server wait for a lock on a table."""


@contextmanager
def sleeping(server: DatabaseServer, sessions: int) -> Iterator[None]:
    """Sessions that each run a statement."""
    with ExitStack() as stack:
        ids: list[int] = []
        for _ in range(sessions):
            raw: Any = stack.enter_context(server.connect())
            ids.append(raw.thread_id())
            raw._execute_command(COMMAND.COM_QUERY, "SELECT SLEEP(3000)")  # sent, and not waited for
        wanted = f"SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID IN ({', '.join(map(str, ids))})"
        until(lambda: server.query(f"{wanted} AND COMMAND = 'Query'")[0][0] >= sessions, "the sessions to run")
        try:
            yield
        finally:
            server.execute(*(f"KILL {one}" for one in ids))
            until(lambda: not server.query(wanted)[0][0], "the sessions to end")
            stack.pop_all()  # they are gone


def unique(prefix: str) -> str:
    """A name that no other test of this run uses."""
    return f"{prefix}_{os.getpid()}_{next(_numbers)}"


def raw_settings(**changes: Any) -> dict[str, Any]:
    """A smallest valid config as a mapping; `changes` replaces whole sections."""
    server = {"host": "127.0.0.1", "port": 3306, "user": "u", "password": "not-a-sample"}
    raw: dict[str, Any] = {
        "name": "m",
        "state": dict(server),
        "sources": [{"name": "s", **server}],
        "targets": [{"name": "t0", **server}, {"name": "t1", **server, "port": 3307}],
        "databases": {
            "ds_0": {"target": "t0", "database": "d0"},
            "ds_1": {"target": "t1", "database": "d1"},
        },
        "kafka": {"bootstrap": "127.0.0.1:1"},
        "tables": [{"name": "shop.t", "sharding": SHARDING}],
    }
    return {**raw, **changes}


def make_settings(**changes: Any) -> Settings:
    return parse(raw_settings(**changes), {})


def int_column(name: str, **more: Any) -> Column:
    return Column(name, "int(11)", Kind.INT, nullable=False, **more)


def text_column(name: str, **more: Any) -> Column:
    return Column(name, "varchar(20)", Kind.TEXT, "utf8mb4", "utf8mb4_general_ci", nullable=False, **more)


def plain_table(*, key: tuple[str, ...] = ("id",), unique_keys: tuple[tuple[str, ...], ...] = ()) -> Table:
    """shop.t of source s, that `SHARDING` fits."""
    columns = (int_column("id"), int_column("shard"), text_column("v"))
    return Table("s", "shop", "t", columns, key, unique_keys)


def plan_of(*tables: Table, settings: Settings | None = None) -> Plan:
    return Plan(settings or make_settings(), {table.id: table for table in tables})


def service_tables(*migrations: str) -> list[str]:
    """Statements that make the service's tables in a target database, standby for each of these streams."""
    role = "INSERT INTO _migrate_role (migration, role, version) VALUES"
    made = [part for _, parts in sql_steps("target") for part in parts]
    return made + [f"{role} ('{name}', 'standby', 1)" for name in migrations]


def address(server: DatabaseServer, **changes: Any) -> dict[str, Any]:
    """host, port, user, password, as a config names a server."""
    found = {"host": server.host, "port": server.port, "user": server.user, "password": server.password}
    return {**found, **changes}


def server_of(server: DatabaseServer, **changes: Any) -> Server:
    found = address(server, **changes)
    return Server(**{**found, "password": SecretStr(found["password"])})


@contextmanager
def session(
    server: DatabaseServer, database: str | None = None, port: int | None = None, **more: Any
) -> Iterator[Connection]:
    """One of the service's own sessions on a server, or on what stands at another port for it."""
    connection = connect(
        server_of(server, **({} if port is None else {"port": port})),
        f"target '{server.name}'",
        database=database,
        **more,
    )
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def scratch(server: DatabaseServer, prefix: str, options: str = "CHARACTER SET utf8mb4") -> Iterator[str]:
    """A database that lives as long as the block."""
    name = unique(prefix)
    server.execute(f"CREATE DATABASE {name} {options}")
    try:
        yield name
    finally:
        server.execute(f"DROP DATABASE IF EXISTS {name}")


@contextmanager
def globally(server: DatabaseServer, name: str, value: str | int) -> Iterator[None]:
    """A global variable with another value, which sessions that begin in the block take over."""
    before = server.query(f"SELECT @@GLOBAL.{name}")[0][0]
    server.execute(f"SET GLOBAL {name} = {value!r}")
    try:
        yield
    finally:
        server.execute(f"SET GLOBAL {name} = {'NULL' if before is None else repr(before)}")


def catalog_table(connection: Connection, database: str, name: str, key: tuple[str, ...] | None = None) -> Table:
    """The table as the catalog has it, as source 's' would."""
    return load_table(connection, "s", database, name, key)


def row_of(table: Table, *values: str | None, **named: str | None) -> Mapping[str, str | None]:
    return {**dict(zip((column.name for column in table.columns), values, strict=False)), **named}


def rows_in_utc(server: DatabaseServer, table: str) -> tuple[tuple[Any, ...], ...]:
    """Every row, its times in UTC whatever the server's time zone is."""
    connection = server.connect(init_command="SET SESSION time_zone = '+00:00'")
    with closing(connection), connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {table}")
        return tuple(cursor.fetchall())


def memory_mb(pid: int, which: str = "VmHWM") -> float:
    """VmHWM: the most memory of a process that was resident at once; VmRSS: now (proc(5))."""
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    return int(status.split(f"{which}:")[1].split()[0]) / 1024


def log_end(server: DatabaseServer) -> tuple[str, int]:
    """File and position at the end of a server's binlog."""
    sql = "SHOW MASTER STATUS" if server.flavour == "mariadb" else "SHOW BINARY LOG STATUS"
    file, pos = server.query(sql)[0][:2]
    return str(file), int(pos)
