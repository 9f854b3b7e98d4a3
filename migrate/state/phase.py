"""Where each table's full copy stands, and the rule it was begun under."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.mysql import insert

from migrate.model.table import Table, TableId
from migrate.state import columns, compared
from migrate.state.compared import Because
from migrate.state.database import metadata, put_all

_AT_ONCE = 200
"""Rows in a statement."""


class Phase(StrEnum):
    CREATED = "created"
    COPYING = "copying"
    COPIED = "copied"


table = sa.Table(
    "phase",
    metadata,
    *columns.of_table(key=True),
    sa.Column("phase", sa.String(16)),
    sa.Column("attempt", sa.Integer),
    sa.Column("rule_hash", sa.String(64)),
    sa.Column("base_hash", sa.String(64)),
    sa.Column("reopened", sa.Integer),
)


@dataclass(frozen=True, slots=True)
class TablePhase:
    phase: Phase
    attempt: int
    rule_hash: str


UNKNOWN = TablePhase(Phase.CREATED, 0, "")
"""Of a table that has no row."""


def key_of(definition: Table) -> dict[str, object]:
    return {"source": definition.source, "table_schema": definition.database, "table_name": definition.name}


def get(connection: sa.Connection, migration: str, definition: Table) -> TablePhase:
    row = connection.execute(
        sa.select(table.c.phase, table.c.attempt, table.c.rule_hash).where(
            table.c.migration == migration,
            table.c.source == definition.source,
            table.c.table_schema == definition.database,
            table.c.table_name == definition.name,
        )
    ).one_or_none()
    return TablePhase(Phase(row[0]), int(row[1]), row[2]) if row else UNKNOWN


def stages(connection: sa.Connection, migration: str, *, lock: bool = False) -> dict[TableId, TablePhase]:
    """As `get`, of every table that has a row. lock: none of them changes until the transaction ends."""
    wanted = [table.c[name] for name in ("source", "table_schema", "table_name", "phase", "attempt", "rule_hash")]
    asked = sa.select(*wanted).where(table.c.migration == migration)
    rows = connection.execute(asked.with_for_update() if lock else asked)
    return {(row[0], row[1], row[2]): TablePhase(Phase(row[3]), int(row[4]), row[5]) for row in rows}


def put_rules(connection: sa.Connection, migration: str, rules: Mapping[TableId, tuple[TablePhase, str]]) -> None:
    """As `put` and `note_base`, of many tables in few statements. rules: the phase and the base hash of each."""
    rows = [
        {
            **columns.table_row(migration, id_),
            "phase": one.phase.value,
            "attempt": one.attempt,
            "rule_hash": one.rule_hash,
            "base_hash": base,
        }
        for id_, (one, base) in rules.items()
    ]
    later = {name: f"{{{name}}}" for name in ("phase", "attempt", "rule_hash", "base_hash")}
    for start in range(0, len(rows), _AT_ONCE):
        put_all(connection, table.name, rows[start : start + _AT_ONCE], later)
    if any(one.phase is not Phase.COPIED for one, _ in rules.values()):
        compared.forget(connection, migration, Because.RULES)


def lock(connection: sa.Connection, migration: str, definition: Table) -> TablePhase:
    """As `get`, with the row locked (and made, if it was not there) until the transaction ends."""
    values = {"phase": Phase.CREATED.value, "attempt": 0, "rule_hash": ""}
    row = {"migration": migration, **key_of(definition), **values}
    connection.execute(insert(table).values(row).on_duplicate_key_update(attempt=table.c.attempt))
    return get(connection, migration, definition)


def put(connection: sa.Connection, migration: str, definition: Table, phase: TablePhase) -> None:
    values = {"phase": phase.phase.value, "attempt": phase.attempt, "rule_hash": phase.rule_hash}
    row = {"migration": migration, **key_of(definition), **values}
    connection.execute(insert(table).values(row).on_duplicate_key_update(values))
    if phase.phase is not Phase.COPIED:
        compared.forget(connection, migration, Because.COPY, definition.full_name)


def put_copied(connection: sa.Connection, migration: str, definition: Table, attempt: int, rule_hash: str) -> None:
    """A run is done, and so is a copy that was opened again. Of a table that has a row."""
    values = {"phase": Phase.COPIED.value, "attempt": attempt, "rule_hash": rule_hash, "reopened": 0}
    connection.execute(sa.update(table).where(*_is(migration, definition)).values(values))


def attempt(connection: sa.Connection, migration: str, definition: Table) -> int | None:
    """The run of a table that began last, with its row locked until the transaction ends; None where there is none."""
    wanted = sa.select(table.c.attempt).where(*_is(migration, definition)).with_for_update()
    found = connection.execute(wanted).scalar()
    return None if found is None else int(found)


def reopened(connection: sa.Connection, migration: str, definition: Table) -> bool:
    """Whether a copy that was closed is open again, and the source has not been waited for since."""
    return bool(connection.execute(sa.select(table.c.reopened).where(*_is(migration, definition))).scalar())


def note_reopened(connection: sa.Connection, migration: str, definition: Table, is_so: bool) -> None:
    """Of a table that has a row."""
    connection.execute(sa.update(table).where(*_is(migration, definition)).values(reopened=int(is_so)))
    if is_so:
        compared.forget(connection, migration, Because.COPY, definition.full_name)


def _is(migration: str, definition: Table) -> list[sa.ColumnElement[bool]]:
    named = {"migration": migration, **key_of(definition)}
    return [table.c[name] == value for name, value in named.items()]


def reset(connection: sa.Connection, migration: str, definition: Table, rule_hash: str = "") -> None:
    """The copy is due again. A run that is under way is superseded."""
    before = lock(connection, migration, definition)
    put(connection, migration, definition, TablePhase(Phase.CREATED, before.attempt + 1, rule_hash))


def rule_hashes(connection: sa.Connection, migration: str) -> dict[TableId, str]:
    """The rule each table's copy was begun under, by (source, database, table)."""
    rows = connection.execute(
        sa.select(table.c.source, table.c.table_schema, table.c.table_name, table.c.rule_hash).where(
            table.c.migration == migration, table.c.rule_hash != ""
        )
    )
    return {(row[0], row[1], row[2]): row[3] for row in rows}


def rules_mark(migration: str) -> sa.ScalarSelect[Any]:
    """What is another once `rule_hashes` are, to be asked within a statement."""
    named = sa.func.concat_ws("/", table.c.source, table.c.table_schema, table.c.table_name, table.c.rule_hash)
    return sa.select(sa.func.sum(sa.func.crc32(named))).where(table.c.migration == migration).scalar_subquery()


def base_hashes(connection: sa.Connection, migration: str) -> dict[TableId, str]:
    """Each table's rule without its row conditions, by (source, database, table), where it was noted."""
    rows = connection.execute(
        sa.select(table.c.source, table.c.table_schema, table.c.table_name, table.c.base_hash).where(
            table.c.migration == migration, table.c.base_hash != ""
        )
    )
    return {(row[0], row[1], row[2]): row[3] for row in rows}


def note_base(connection: sa.Connection, migration: str, definition: Table, base_hash: str) -> None:
    """Of a table that has a row."""
    named = {"migration": migration, **key_of(definition)}
    connection.execute(
        sa.update(table).where(*(table.c[name] == value for name, value in named.items())).values(base_hash=base_hash)
    )


def every(connection: sa.Connection, migration: str, *, lock: bool = False) -> dict[TableId, Phase]:
    """lock: none of them changes until the transaction ends."""
    return {id_: one.phase for id_, one in stages(connection, migration, lock=lock).items()}
