"""A migration laid out on real servers as `migrate init` does it, without Kafka."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from migrate.chunks.mark import ChunkMark
from migrate.chunks.sessions import Sessions
from migrate.copy.table_copy import Attempt, ChunkResult
from migrate.copy.tasks import CopyJob, WriteChunk, read_chunk
from migrate.model.chunk import Chunk
from migrate.model.table import Table
from migrate.mysql import catalog, definition
from migrate.mysql.connection import Connection, connect
from migrate.mysql.quoting import quote
from migrate.settings import Settings, parse
from migrate.state import database, position, schema_history
from migrate.state import migration as migrations
from migrate.state.migration import Migration
from migrate.target.pool import connect_database
from migrate.target.routing import Plan, PlannedTable
from migrate.verify import checksum
from sandbox.database import DatabaseServer
from sandbox.stack import Sandbox
from tests.helpers import address, service_tables

_numbers = itertools.count(1)
DATABASES = 4
TABLES = 2

Rows = list[tuple[Any, ...]]


@dataclass
class Laid:
    """A migration whose state, target databases and physical tables exist, and whose incremental has "begun"."""

    box: Sandbox
    raw: Mapping[str, Any]  # the config file
    settings: Settings
    plan: Plan
    source: str  # database at the source

    @property
    def table(self) -> PlannedTable:
        return next(iter(self.plan.tables.values()))

    def state(self) -> sa.Engine:
        return database.engine(self.settings.state)

    def connect(self, place: int) -> Connection:
        """A session in the target database of a place of the first table."""
        return connect_database(self.settings, self.table.places[place].database)

    def target_rows(self, columns: str = "*", where: str = "1 = 1") -> dict[str, Rows]:
        """Rows of the first table by place, ordered by the server."""
        found: dict[str, Rows] = {}
        for index, place in enumerate(self.table.places):
            connection = self.connect(index)
            order = ", ".join(map(quote, self.table.table.key))
            found[str(place)] = connection.query(
                f"SELECT {columns} FROM {quote(place.table)} WHERE {where} ORDER BY {order}"
            )
            connection.close()
        return found

    def source_rows(self, columns: str = "*") -> Rows:
        name = f"{quote(self.source)}.{quote(self.table.table.name)}"
        return list(self.box.source.query(f"SELECT {columns} FROM {name}"))


def spread(column: str, table: str, databases: int = DATABASES, tables: int = TABLES) -> dict[str, Any]:
    """A sharding rule over `databases` × `tables` places by MOD of a numeric column."""
    expression = f"{table}_${{(({column} % {databases * tables}) / {databases}).intValue()}}"
    return {
        "nodes": f"ds_${{0..{databases - 1}}}.{table}_${{0..{tables - 1}}}",
        "database": {"column": column, "algorithm": "MOD", "props": {"sharding-count": databases}},
        "table": {"column": column, "algorithm": "INLINE", "props": {"algorithm-expression": expression}},
    }


def one_place(table: str) -> dict[str, Any]:
    return {"nodes": f"ds_0.{table}"}


def lay(
    box: Sandbox,
    run_dir: Path,
    create: str,
    sharding: Mapping[str, Any],
    *,
    table: str = "t",
    fill: Sequence[str] = (),
    extra: Mapping[str, Any] | None = None,
    source: str | None = None,
    more: Mapping[str, Any] | None = None,
) -> Laid:
    """Create `create` (with `{t}` for the table's name) and its rows at the source, then state and targets.

    With `source`, a database that is there already, nothing is created at the source. more: settings of the table.
    """
    token = f"m{next(_numbers)}"
    if source is None:
        source = f"src_{token}"
        _fresh(box.source, source)
        box.source.execute(create.replace("{t}", quote(table)), database=source)
        box.source.execute(*(statement.replace("{t}", quote(table)) for statement in fill), database=source)
    raw = _raw(box, run_dir, token, f"{source}.{table}", {"sharding": dict(sharding), **(more or {})}, extra or {})
    settings = parse(raw, {})
    _fresh(box.targets[0], settings.state.database)
    database.create(settings.state)
    connection = connect(settings.sources[0], "source")
    found = catalog.load_table(connection, "main", source, table)
    text = definition.show_create(connection, source, table)
    facts = catalog.server_facts(connection)
    connection.close()
    plan = Plan(settings, {("main", source, table): found})
    _targets(box, plan, text)
    _state(settings, found, facts)
    return Laid(box, raw, settings, plan, source)


def _fresh(server: DatabaseServer, name: str) -> None:
    server.execute(f"DROP DATABASE IF EXISTS {quote(name)}", f"CREATE DATABASE {quote(name)} CHARACTER SET utf8mb4")


def _raw(
    box: Sandbox, run_dir: Path, token: str, table: str, settings: Mapping[str, Any], extra: Mapping[str, Any]
) -> dict[str, Any]:
    targets = [{"name": f"t{index}", **address(server)} for index, server in enumerate(box.targets)]
    return {
        "name": token,
        "state": {**address(box.targets[0]), "database": f"{token}_state"},
        "sources": [{"name": "main", **address(box.source)}],
        "targets": targets,
        "databases": {
            f"ds_{index}": {"target": f"t{index % len(targets)}", "database": f"{token}_ds_{index}"}
            for index in range(DATABASES)
        },
        "kafka": {"bootstrap": "127.0.0.1:1"},
        "tables": [{"name": table, **settings}],
        "run_dir": str(run_dir),
        "copy": {"chunk_rows": 500, "master": "local[2]"},
        "verify": {"chunk_rows": 700, "master": "local[2]", "rechecks": 2, "recheck_seconds": 0.2},
        **extra,
    }


def _targets(box: Sandbox, plan: Plan, text: str) -> None:
    by_name = {f"t{index}": server for index, server in enumerate(box.targets)}
    for used in plan.used_databases:
        _fresh(by_name[used.target], used.database)
        connection = connect_database(plan.settings, used)
        for statement in service_tables(plan.settings.name):
            connection.query(statement.replace("%", "%%"))
        for planned in plan.tables.values():
            for place in planned.places:
                if place.database == used:
                    connection.query(definition.create_as(text, place.table))
        connection.close()


def _state(settings: Settings, found: Table, facts: catalog.ServerFacts) -> None:
    engine = database.engine(settings.state)
    with engine.begin() as connection:
        migrations.create(connection, Migration(settings.name, ()), "")
        schema_history.add(connection, settings.name, found, None)
        begun = position.Position("main", "127.0.0.1", facts.server_id, facts.uuid, 2, 1, "binlog.000001", 4)
        position.save(connection, settings.name, begun)
    engine.dispose()


def write_chunk(job: CopyJob, attempt: Attempt, after: Callable[[int], None] | None = None) -> ChunkResult:
    """Copy one chunk as a task does; the rule chooses by the first column that is carried.

    after: called with its place (index) once a row was given to the writer.
    """
    writer = WriteChunk(job, attempt)
    for item in read_chunk(job, attempt):
        if isinstance(item, ChunkMark):
            writer.mark(item)
        else:
            ids = [str(value.decode()) for value in item.carried[0] if value is not None]
            for place, line in zip(job.planned.rule.route_many([ids]), item.lines, strict=True):
                writer.rows(place, (line, 1))
                if after is not None:
                    after(place)
    return writer.result()


def alike(sessions: Sessions, planned: PlannedTable, chunk: Chunk | None = None) -> bool:
    """Whether a table and its places have one sum in one of the forms that are tried, so that no row is looked at."""
    wanted, flavours = chunk or Chunk(0, None, None), sessions.flavours([planned])
    for form in checksum.forms(planned.table, flavours, json_types=False):
        found, placed = checksum.target_total(sessions.targets, planned, wanted, form)
        if found == checksum.source_total(sessions.source, [planned], wanted, form)[0]:
            return placed is not False
    return False
