"""A source table's own definition, turned into one for a physical target table.

Works on the lines of SHOW CREATE TABLE, which both servers print one definition a line. Foreign keys stay behind: over
shards they cannot hold, and at a target they would fire and order what the source has already fired and ordered.
Names of check constraints go too: MySQL wants them unique in a schema.
"""

from __future__ import annotations

import re

from migrate.model.errors import StopError
from migrate.mysql.connection import Connection
from migrate.mysql.quoting import quote, table

_FOREIGN_KEY = re.compile(r"^\s*CONSTRAINT `(?:[^`]|``)+` FOREIGN KEY ")
_CHECK = re.compile(r"^(\s*)CONSTRAINT `(?:[^`]|``)+` CHECK ")
_AUTO_INCREMENT = re.compile(r" AUTO_INCREMENT=\d+")


def show_create(connection: Connection, database: str, name: str) -> str:
    """The server's CREATE TABLE statement, without foreign keys and the auto-increment counter."""
    row = connection.one(f"SHOW CREATE TABLE {table(database, name)}")
    if row is None:
        raise StopError(f"{connection.name}: no definition of {database}.{name}")
    return strip(str(row[1]))


def strip(statement: str) -> str:
    """See `show_create`."""
    head, *lines = statement.split("\n")
    end = next((number for number, line in enumerate(lines) if line.startswith(")")), None)
    if end is None:
        raise StopError("SHOW CREATE TABLE ended without its closing parenthesis")
    kept = [_CHECK.sub(r"\1CHECK ", line.rstrip(",")) for line in lines[:end] if not _FOREIGN_KEY.match(line)]
    options, comment, text = lines[end].partition(" COMMENT='")
    tail = _AUTO_INCREMENT.sub("", options) + comment + text
    return "\n".join([head, ",\n".join(kept), tail, *lines[end + 1 :]])  # partitions follow behind


def show_create_whole(connection: Connection, database: str, name: str) -> str:
    """The server's CREATE TABLE statement with its foreign keys, without the auto-increment counter."""
    row = connection.one(f"SHOW CREATE TABLE {table(database, name)}")
    if row is None:
        raise StopError(f"{connection.name}: no definition of {database}.{name}")
    head, closing, tail = str(row[1]).rpartition("\n)")
    options, comment, text = tail.partition(" COMMENT='")
    return head + closing + _AUTO_INCREMENT.sub("", options) + comment + text


def create_as(statement: str, name: str) -> str:
    """The statement for a table of another name; '%' is doubled for the driver."""
    match = re.match(r"^CREATE TABLE `(?:[^`]|``)+`", statement)
    if match is None:
        raise StopError("SHOW CREATE TABLE did not start with CREATE TABLE")
    return f"CREATE TABLE {quote(name)}" + statement[match.end() :].replace("%", "%%")
