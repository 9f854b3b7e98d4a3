"""What stands at a shard table beside its columns: rows and bytes, foreign keys, triggers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from migrate.ddl.definition import Definition
from migrate.mysql.connection import Connection
from migrate.mysql.foreign_keys import foreign_keys
from migrate.mysql.quoting import printed

_ENGINE_TABLES = {"mariadb": "INNODB_SYS_TABLES", "mysql": "INNODB_TABLES"}


@dataclass(frozen=True, slots=True)
class Surroundings:
    """rows, bytes: as the server estimates them. parents, children: foreign keys of the table, and of others that refer
    to it, as `name: columns`; of_others: the children that are of other tables. triggers: their names and bodies. Those
    that the account may not see are missing."""

    rows: int
    bytes: int
    parents: tuple[tuple[str, tuple[str, ...]], ...] = ()
    children: tuple[tuple[str, tuple[str, ...]], ...] = ()
    triggers: tuple[tuple[str, str], ...] = ()
    of_others: tuple[str, ...] = ()

    def in_the_way(self, touched: Iterable[str]) -> list[str]:
        """What a statement would break, or be refused for. touched: quoted names of the columns that it changes."""
        names = {name[1:-1].replace("``", "`").lower() for name in touched}
        found = [
            f"foreign key {name} uses column {column}"
            for name, columns in (*self.parents, *self.children)
            for column in columns
            if column.lower() in names
        ]
        found += [
            f"trigger {name} may use column {column}"
            for name, body in self.triggers
            for column in sorted(names)
            if re.search(rf"(?<![\w$]){re.escape(column)}(?![\w$])", body, re.IGNORECASE)
        ]
        return found

    def keys_in_the_way(self, before: Definition, after: Definition) -> list[str]:
        """Foreign keys whose columns a key begins with before the statement, and none afterwards: no server takes
        that, and a trial has no table that refers to it.
        """
        left = {name.lower() for name in after.columns}
        wanted = [(name, [printed(one) for one in columns]) for name, columns in (*self.parents, *self.children)]
        return [
            f"foreign key {name} uses key {key}"
            for name, columns in wanted
            if {column.lower() for column in columns} <= left  # else `in_the_way` names the column
            and (key := before.key_leading(columns)) is not None
            and after.key_leading(columns) is None
        ]


def look(connection: Connection, database: str, table: str, definition: Definition) -> Surroundings:
    """Raises the driver's error."""
    row = connection.one(
        "SELECT TABLE_ROWS, DATA_LENGTH + INDEX_LENGTH FROM information_schema.TABLES"
        " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
        [database, table],
    )
    rows, size = row if row is not None else (0, 0)
    children: dict[str, list[str]] = {}
    of_others: dict[str, None] = {}
    for schema, child, name, column in connection.query(
        "SELECT TABLE_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, REFERENCED_COLUMN_NAME"
        " FROM information_schema.KEY_COLUMN_USAGE WHERE REFERENCED_TABLE_SCHEMA = %s AND REFERENCED_TABLE_NAME = %s"
        " ORDER BY ORDINAL_POSITION",
        [database, table],
    ):
        told = f"{name} of {schema}.{child}"
        children.setdefault(told, []).append(str(column))
        if (schema, child) != (database, table):
            of_others[told] = None
    triggers = connection.query(
        "SELECT TRIGGER_NAME, ACTION_STATEMENT FROM information_schema.TRIGGERS"
        " WHERE EVENT_OBJECT_SCHEMA = %s AND EVENT_OBJECT_TABLE = %s ORDER BY TRIGGER_NAME",
        [database, table],
    )
    own = foreign_keys(definition.create(table), database)
    return Surroundings(
        int(rows or 0),
        int(size or 0),
        tuple((one.name, one.columns) for one in own),
        tuple((name, tuple(columns)) for name, columns in children.items()),
        tuple((str(name), str(body)) for name, body in triggers),
        tuple(of_others),
    )


def engine_number(connection: Connection, database: str, table: str) -> str:
    """The number that InnoDB gave the table, another one after a TRUNCATE; "" where the account may not see it, and of
    a table with partitions, or with letters beyond ASCII in its name.

    MySQL manual, "The INFORMATION_SCHEMA INNODB_TABLES Table"; MariaDB documentation, "INNODB_SYS_TABLES". Raises the
    driver's error.
    """
    held = f"SELECT TABLE_ID FROM information_schema.{_ENGINE_TABLES[connection.flavour]} WHERE NAME = %s"
    row = connection.one(held, [f"{_as_file(database)}/{_as_file(table)}"])
    return "" if row is None else str(row[0])


def _as_file(name: str) -> str:
    """A name as InnoDB has it (MySQL manual, "Mapping of Identifiers to File Names"); of ASCII alone."""
    return "".join(f"@{ord(one):04x}" if one.isascii() and not (one.isalnum() or one == "_") else one for one in name)


def charset(connection: Connection, database: str) -> tuple[str, str]:
    """Character set and collation of a database. Raises the driver's error."""
    row = connection.one(
        "SELECT DEFAULT_CHARACTER_SET_NAME, DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA"
        " WHERE SCHEMA_NAME = %s",
        [database],
    )
    return ("utf8mb4", "utf8mb4_bin") if row is None else (str(row[0]), str(row[1]))
