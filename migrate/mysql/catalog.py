"""Tables as the server's catalog describes them (information_schema), and what the server can do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import pymysql

from migrate.model.errors import Code, PreflightError, StopError
from migrate.model.table import Column, Kind, Table
from migrate.mysql import key_choice
from migrate.mysql.capabilities import Capability, can
from migrate.mysql.connection import Connection
from migrate.mysql.errors import ACCESS_DENIED, number
from migrate.mysql.quoting import quote
from migrate.mysql.quoting import table as quoted_table

_KINDS = {
    "tinyint": Kind.INT,
    "smallint": Kind.INT,
    "mediumint": Kind.INT,
    "int": Kind.INT,
    "bigint": Kind.INT,
    "decimal": Kind.DECIMAL,
    "float": Kind.FLOAT,
    "double": Kind.DOUBLE,
    "bit": Kind.BIT,
    "enum": Kind.ENUM,
    "set": Kind.SET,
    "date": Kind.DATE,
    "datetime": Kind.DATETIME,
    "timestamp": Kind.TIMESTAMP,
    "time": Kind.TIME,
    "year": Kind.YEAR,
    "binary": Kind.BINARY,
    "varbinary": Kind.BINARY,
    "tinyblob": Kind.BINARY,
    "blob": Kind.BINARY,
    "mediumblob": Kind.BINARY,
    "longblob": Kind.BINARY,
    "vector": Kind.VECTOR,
    "json": Kind.JSON,
    "uuid": Kind.UUID,
    "inet4": Kind.INET,
    "inet6": Kind.INET,
}
_TEXT_TYPES = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
_GEOMETRY_TYPES = frozenset(
    {
        "geometry",
        "point",
        "linestring",
        "polygon",
        "multipoint",
        "multilinestring",
        "multipolygon",
        "geometrycollection",
        "geomcollection",
    }
)
_PLAIN_CHARSETS = frozenset({"utf8mb4", "utf8mb3", "utf8", "ascii"})
OF_OLD_TIMES = " /* mariadb-5.3 */"
"""Behind the types of moments that MariaDB stores in its older format (mysql56_temporal_format): they hold the same
values, each event of the log tells its format, and an ALTER at any server may change it."""
SCRATCH = "_migrate_trial_"
"""How the names of databases begin in which preflight tries what init will do; they are there for a moment."""


def base_tables(connection: Connection) -> list[tuple[str, str]]:
    """(database, table) of every table of the server that we may see; no views, nothing of the server's own."""
    rows = connection.query(
        "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES"
        " WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED')"
        " AND TABLE_SCHEMA NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')"
    )
    return [(str(database), str(name)) for database, name in rows if not str(database).startswith(SCRATCH)]


def kind_of(data_type: str, charset: str | None) -> Kind | None:
    """The kind of a column from information_schema's DATA_TYPE and CHARACTER_SET_NAME; None when unknown."""
    if data_type in _TEXT_TYPES:
        return Kind.TEXT if charset in _PLAIN_CHARSETS else Kind.RAWTEXT
    if data_type in _GEOMETRY_TYPES:
        return Kind.GEOMETRY
    return _KINDS.get(data_type)


def load_table(
    connection: Connection, source: str, database: str, name: str, key: Sequence[str] | None = None
) -> Table:
    """One base table from the catalog.

    Args: the server, the source's name, the table, and the key named in the config if any.
    Raises: as `CatalogTables.table`; the driver's error.
    """
    return CatalogTables.read(connection, database, [name]).table(source, name, key)


_Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class CatalogTables:
    """What the catalog says of some tables of one database, read by three statements, however many tables they are."""

    connection: Connection
    database: str
    tables: Mapping[str, _Row]  # by the server's name, its kind, engine and database
    columns: Mapping[str, Sequence[_Row]]
    uniques: Mapping[str, Sequence[_Row]]

    @classmethod
    def read(cls, connection: Connection, database: str, names: Sequence[str]) -> Self:
        """names: of the tables, at least one. Raises the driver's error."""
        where = f"TABLE_SCHEMA = %s AND TABLE_NAME {key_choice.among(names)}"
        arguments = (database, *names)
        tables = connection.query(
            f"SELECT TABLE_NAME, TABLE_TYPE, ENGINE, TABLE_SCHEMA FROM information_schema.TABLES WHERE {where}",
            arguments,
        )
        columns = connection.query(
            "SELECT TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, DATA_TYPE, CHARACTER_SET_NAME, COLLATION_NAME, EXTRA,"
            f" IS_NULLABLE FROM information_schema.COLUMNS WHERE {where} ORDER BY TABLE_NAME, ORDINAL_POSITION",
            arguments,
        )
        found = {str(name): more for name, *more in tables if len(names) == 1 or name in names}
        by_table: dict[str, list[_Row]] = {}
        for name, *column in columns:
            by_table.setdefault(str(name), []).append(tuple(column))
        uniques = key_choice.unique_parts(connection, database, names)
        return cls(connection, database, {name: tuple(more) for name, more in found.items()}, by_table, uniques)

    def table(self, source: str, name: str, key: Sequence[str] | None = None) -> Table:
        """One of them. source: the source's name; key: the one named in the config, if any.

        Raises: PreflightError when the table is missing, is no InnoDB base table, or has no usable key, NoSuchKey for
        one asked for; StopError when a column's type is not known, or its name has a line end.
        """
        connection, database = self.connection, self.database
        where = f"{connection.name}: table {database}.{name}"
        there = name if name in self.tables else next((one for one in self.tables if one.lower() == name.lower()), "")
        found = self.tables.get(there)
        if found is None:
            raise _missing(connection, database, name, where)
        kind, engine, schema = found
        if (schema, there) != (database, name):  # its log has its names, and nothing would match
            raise PreflightError(
                f"{where} is {schema}.{there} on the server, which does not tell upper from lower case",
                hint=f"write {schema}.{there} in the config, letter for letter",
            )
        if kind == "SYSTEM VERSIONED":
            raise PreflightError(
                f"{where} is system-versioned: the log mixes its history with its rows, a target would start its own",
                hint=f"take it out of the config, or ALTER TABLE {database}.{name} DROP SYSTEM VERSIONING",
            )
        if kind != "BASE TABLE":
            raise PreflightError(f"{where} is a {str(kind).lower()}, not a table", hint="take it out of the config")
        if str(engine).lower() != "innodb":
            raise PreflightError(f"{where} uses engine {engine}", hint=f"ALTER TABLE {database}.{name} ENGINE=InnoDB")
        columns = tuple(_column(row, where) for row in self.columns.get(name, ()))
        uniques = key_choice.unique_keys(connection, database, name, self.uniques.get(name, ()))
        chosen = key_choice.choose(connection, (database, name), columns, uniques, key)
        others = tuple(names for parts in uniques.values() if (names := key_choice.names(parts)) != chosen)
        return Table(source, database, name, columns, chosen, others)


def _missing(connection: Connection, database: str, name: str, where: str) -> PreflightError:
    """The catalog does not show a table: it is not there, or this account may not see it."""
    on = quoted_table(database, name)
    try:
        connection.query(f"SELECT 1 FROM {on} LIMIT 0")
    except pymysql.MySQLError as error:
        if number(error) in ACCESS_DENIED:
            user, _, host = str(connection.query("SELECT CURRENT_USER()")[0][0]).rpartition("@")
            grant = f"GRANT SELECT ON {on.replace('%%', '%')} TO '{user}'@'{host}'"
            return PreflightError(
                f"{where} is missing (or not visible to this user)",
                hint=f"{grant}; or fix tables[].name in the config, if there is no such table",
            )
    hint = "fix tables[].name in the config, or take the table out and run `migrate init`"
    if "." in name:
        hint += (
            f"; it is read as table {quote(name)} of database {quote(database)}: one of a database with a dot in its"
        )
        hint += " name can be migrated once it is in another database (RENAME TABLE)"
    return PreflightError(f"{where} is missing", hint=hint)


def _column(row: _Row, where: str) -> Column:
    name, column_type, data_type, charset, collation, extra, nullable = row
    kind = kind_of(str(data_type).lower(), charset)
    if kind is None:
        raise StopError(
            f"{where}, column {name}: type {column_type} is not known",
            hint="leave the table out",
            code=Code.DEFINITION,
        )
    if "\n" in str(name):
        raise StopError(
            f"{where} has a name with a line end: column {str(name)!r}",
            hint="leave the table out, or give the column another name",
            code=Code.DEFINITION,
        )
    generated = "GENERATED" in str(extra).upper() and "DEFAULT_GENERATED" not in str(extra).upper()
    told = str(column_type).removesuffix(OF_OLD_TIMES)
    return Column(name, told, kind, charset, collation, generated, str(nullable).upper() == "YES")


@dataclass(frozen=True, slots=True)
class ServerFacts:
    version: str
    flavour: str
    server_id: int
    uuid: str


def server_facts(connection: Connection) -> ServerFacts:
    """Who the server behind an address is. MariaDB has no server_uuid; its server_id stands in."""
    variables = show_variables(connection, "version", "server_id", "server_uuid")
    return ServerFacts(
        variables["version"], connection.flavour, int(variables["server_id"]), variables.get("server_uuid", "")
    )


def place(connection: Connection) -> tuple[str, int, str]:
    """Host name, port and data directory: what tells a server from another, by whatever address it is reached."""
    ((host, port, directory),) = connection.query("SELECT @@hostname, @@port, @@datadir")
    return str(host), int(str(port)), str(directory)


def show_variables(connection: Connection, *names: str) -> dict[str, str]:
    """Global variables by lower-case name; those the server does not have are absent."""
    marks = ", ".join(["%s"] * len(names))
    rows = connection.query(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({marks})", names)
    return {str(name).lower(): str(value) for name, value in rows}


def collation_charsets(connection: Connection) -> dict[int, str]:
    """Character set by collation id, as binlog metadata names collations."""
    if can(connection, Capability.COLLATIONS_OF_SEVERAL_CHARSETS):
        sql = (
            "SELECT ID, CHARACTER_SET_NAME FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY"
            " WHERE ID IS NOT NULL AND CHARACTER_SET_NAME IS NOT NULL"
        )
    else:
        sql = "SELECT ID, CHARACTER_SET_NAME FROM information_schema.COLLATIONS"
    return {int(number): str(charset) for number, charset in connection.query(sql)}


def collation_names(connection: Connection) -> dict[int, str]:
    """Collation by id, by the names that information_schema.COLUMNS has."""
    if can(connection, Capability.COLLATIONS_OF_SEVERAL_CHARSETS):
        sql = (
            "SELECT ID, FULL_COLLATION_NAME FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY"
            " WHERE ID IS NOT NULL"
        )
    else:
        sql = "SELECT ID, COLLATION_NAME FROM information_schema.COLLATIONS"
    return {int(number): str(name) for number, name in connection.query(sql)}
