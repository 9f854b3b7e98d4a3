"""Which key tells a table's rows apart; why none does; and the statement that gives the table one, for its server.

Everything goes by that key: partitions, look-up, chunks, comparison. So its columns hold whole values, are never NULL,
and are written by the application, not computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from migrate.model.errors import PreflightError
from migrate.model.table import Column
from migrate.mysql.capabilities import Capability, can
from migrate.mysql.connection import Connection
from migrate.mysql.quoting import printed, printed_table, quote


class NoSuchKey(PreflightError):  # noqa: N818 - what it says is what is so
    """A table has no unique key of the columns that were asked for."""


@dataclass(frozen=True, slots=True)
class KeyPart:
    """column: None for an expression; prefix: how many characters of it count, None for all."""

    column: str | None
    prefix: int | None = None

    @property
    def whole(self) -> str:
        """The column's name; "" for a prefix or an expression."""
        return self.column if self.column is not None and self.prefix is None else ""

    def __str__(self) -> str:
        if self.column is None:
            return "an expression"
        return self.column if self.prefix is None else f"{self.column}({self.prefix})"


UniqueKeys = dict[str, tuple[KeyPart, ...]]
"""By index name, the primary key first."""


def among(names: Sequence[str]) -> str:
    """The condition that a name is one of these. MariaDB looks a single table up, and reads all for a list of one."""
    return "= %s" if len(names) == 1 else f"IN ({', '.join(['%s'] * len(names))})"


def unique_parts(connection: Connection, database: str, names: Sequence[str]) -> dict[str, list[tuple[Any, ...]]]:
    """The parts of the unique keys of some tables, by table, as `unique_keys` takes them."""
    rows = connection.query(
        "SELECT TABLE_NAME, INDEX_NAME, COLUMN_NAME, SUB_PART, INDEX_TYPE FROM information_schema.STATISTICS"
        f" WHERE TABLE_SCHEMA = %s AND TABLE_NAME {among(names)} AND NON_UNIQUE = 0"
        " ORDER BY TABLE_NAME, INDEX_NAME <> 'PRIMARY', INDEX_NAME, SEQ_IN_INDEX",
        (database, *names),
    )
    found: dict[str, list[tuple[Any, ...]]] = {}
    for name, *part in rows:
        found.setdefault(str(name), []).append(tuple(part))
    return found


def unique_keys(
    connection: Connection, database: str, name: str, rows: Sequence[tuple[Any, ...]] | None = None
) -> UniqueKeys:
    """rows: of `unique_parts`; None: they are asked for.

    Raises PreflightError for MariaDB's unique keys by hash, of long columns or with USING HASH.
    """
    if rows is None:
        rows = unique_parts(connection, database, [name]).get(name, ())
    keys: UniqueKeys = {}
    for index, column, prefix, _ in rows:
        part = KeyPart(None if column is None else str(column), None if prefix is None else int(prefix))
        keys[str(index)] = (*keys.get(str(index), ()), part)
    if hashed := [key for key in keys if any(index == key and kind == "HASH" for index, _, _, kind in rows)]:
        drops = ", ".join(f"DROP INDEX {printed(key)}" for key in hashed)
        raise PreflightError(
            f"{connection.name}: table {database}.{name} has unique keys by hash ({', '.join(hashed)}): the log has a"
            " hidden column for each",
            hint=f"take it out of the config, or {_alter((database, name))} {drops}, and after the switch add them"
            " again; a key over fewer bytes and without USING HASH can stay",
        )
    return keys


def _alter(table: tuple[str, str]) -> str:
    return f"ALTER TABLE {printed_table(*table)}"


def choose(
    connection: Connection,
    table: tuple[str, str],
    columns: Sequence[Column],
    uniques: UniqueKeys,
    wanted: Sequence[str] | None,
) -> tuple[str, ...]:
    """The key's columns. wanted: those that the config names, if any.

    Raises: NoSuchKey for one that was asked for; PreflightError when there is none, or several that could be it.
    """
    where = f"{connection.name}: table {'.'.join(table)}"
    faults = {index: _fault(parts, columns) for index, parts in uniques.items()}
    usable = {index: names(parts) for index, parts in uniques.items() if not faults[index]}
    if wanted is not None:
        for index, parts in uniques.items():
            if {part.column for part in parts} == set(wanted):
                if index in usable:
                    return usable[index]
                raise NoSuchKey(
                    f"{where}: ({', '.join(wanted)}) is no key that tells rows apart: {_named(index)} {faults[index]}",
                    hint=f"name another one in tables[].key, or {statement(connection, table, columns, uniques)}",
                )
        raise NoSuchKey(
            f"{where}: ({', '.join(wanted)}) is not a NOT NULL unique key",
            hint="name the columns of the primary key or of a unique key without NULL in tables[].key",
        )
    if "PRIMARY" in usable:
        return usable["PRIMARY"]
    if len(usable) == 1:
        return next(iter(usable.values()))
    if usable:
        what = "no primary key" if "PRIMARY" not in uniques else f"a primary key that {faults['PRIMARY']}"
        several = "; ".join(f"({', '.join(key)})" for key in usable.values())
        raise PreflightError(
            f"{where} has {what} and several unique keys", hint=f"choose one in tables[].key: {several}"
        )
    told = "has no primary key and no NOT NULL unique key"
    if faults:
        told = "has no key that tells rows apart: "
        told += "; ".join(f"{_named(index)} {fault}" for index, fault in faults.items())
    raise PreflightError(f"{where} {told}", hint=statement(connection, table, columns, uniques))


def names(parts: Sequence[KeyPart]) -> tuple[str, ...]:
    return tuple(part.whole for part in parts)


def _named(index: str) -> str:
    return "the primary key" if index == "PRIMARY" else f"unique key {index}"


def _fault(parts: Sequence[KeyPart], columns: Sequence[Column]) -> str:
    """Why a unique key is not one to go by; empty when it is."""
    by_name = {column.name: column for column in columns}
    if partial := [str(part) for part in parts if part.column is not None and part.prefix is not None]:
        return f"is on a prefix, {', '.join(partial)}"
    if any(part.column is None for part in parts):
        return "is on an expression"
    found = [by_name[name] for name in names(parts) if name in by_name]
    if generated := [column.name for column in found if column.generated]:
        return f"has generated columns, {', '.join(generated)}"
    if nullable := [column.name for column in found if column.nullable]:
        return f"takes NULL, in {', '.join(nullable)}"
    return ""


def statement(connection: Connection, table: tuple[str, str], columns: Sequence[Column], uniques: UniqueKeys) -> str:
    """The ALTER TABLE that gives a table a key on this server, and what it costs there."""
    on = _alter(table)
    kind = "UNIQUE KEY" if "PRIMARY" in uniques else "PRIMARY KEY"
    counted = connection.one(
        "SELECT COLUMN_NAME FROM information_schema.COLUMNS"
        " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND EXTRA LIKE '%%auto_increment%%'",
        table,
    )
    if counted is not None:  # a table has one such column only
        column = printed(str(counted[0]))
        return f"{on} ADD {kind} ({column}); it rebuilds the table, and fails where values stand twice"
    there = {column.name.lower() for column in columns}
    name = next(name for number in range(len(there) + 1) if (name := f"row_id{number or ''}") not in there)
    hidden = can(connection, Capability.INVISIBLE_COLUMNS)
    seen = "hidden from SELECT *" if hidden else "SELECT * and INSERT without column names meet it"
    return (
        f"{on} ADD COLUMN {quote(name)} BIGINT UNSIGNED NOT NULL AUTO_INCREMENT {'INVISIBLE ' * hidden}{kind};"
        f" {seen}, 8 bytes a row; it rebuilds the table, writes to it wait, and replicas may number rows otherwise"
    )
