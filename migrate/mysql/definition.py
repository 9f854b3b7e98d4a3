"""A source table's own definition, turned into one for a physical target table.

Works on the lines of SHOW CREATE TABLE, which both servers print one definition a line. Foreign keys stay behind: over
shards they cannot hold, and at a target they would fire and order what the source has already fired and ordered.
Names of check constraints go too, as MySQL wants them unique in a schema, and names them by the table.
"""

from __future__ import annotations

import re
import zlib
from contextlib import suppress
from itertools import count
from typing import Any

import pymysql

from migrate.model.errors import Code, StopError
from migrate.mysql import unprinted
from migrate.mysql.catalog import OF_OLD_TIMES
from migrate.mysql.connection import HARMLESS, Connection
from migrate.mysql.errors import number, text
from migrate.mysql.quoting import quote, table

_FOREIGN_KEY = re.compile(r"^\s*CONSTRAINT `(?:[^`]|``)+` FOREIGN KEY ")
_CHECK = re.compile(r"^(\s*)CONSTRAINT `(?:[^`]|``)+` CHECK ")
_NAMELESS_CHECK = re.compile(r"^(\s*)CHECK ", re.MULTILINE)
_LONGEST_NAME = 64
_AUTO_INCREMENT = re.compile(r" AUTO_INCREMENT=\d+")
_QUOTED = re.compile(rb"`(?:[^`]|``)++(?:`|\Z)|(_[a-z0-9]+)?'((?:[^'\\]|\\.?|'')*+)(?:'|\Z)", re.S)
_STORAGE = re.compile(
    r"( /\*!\d+ TABLESPACE `(?:[^`]|``)++`(?: STORAGE \w+)? \*/| TABLESPACE = `(?:[^`]|``)++`"
    r"| (?:DATA|INDEX) DIRECTORY ?= ?'(?:[^'\\]|\\.|'')*+'| /\*!\d+ ENCRYPTION='\w*' \*/"
    r"| `?ENCRYPT(?:ED|ION_KEY_ID)`?=(?:'\w*'|\w+))"
    r"|`(?:[^`]|``)++(?:`|\Z)|'(?:[^'\\]|\\.?|'')*+(?:'|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_OLD_TIME = re.compile(
    rf"^([ \t]*+`(?:[^`]|``)+` (?:datetime|timestamp|time)(?:\([1-6]\))?){re.escape(OF_OLD_TIMES)}", re.MULTILINE
)
_ESCAPED = re.compile(rb"\\(.)|''", re.S)
_NAMED = re.compile(r"'(?:[^'\\]|\\.|'')*'|(`(?:[^`]|``)*`)", re.S)
"""Texts, and names, which are the first group. What is read of a definition goes line by line."""
_EMPTY = frozenset({1030, *HARMLESS})
"""Says only that the engine refused, of a number that stands elsewhere."""
_ESCAPES = {b"0": b"\0", b"b": b"\b", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"Z": b"\x1a", b"%": b"\\%", b"_": b"\\_"}
"""MySQL manual, "String Literals", table 11.1; any other character stands for itself."""


def show_create(connection: Connection, database: str, name: str) -> str:
    """The server's CREATE TABLE statement, without foreign keys and the auto-increment counter."""
    return strip(printed(connection, database, name))


def printed(connection: Connection, database: str, name: str) -> str:
    """SHOW CREATE TABLE as the server prints it; what MariaDB prints there as bytes of no character set is hexadecimal,
    and in which format it stores moments is left out.

    Raises: StopError when it cannot be read; the driver's error.
    """
    rows = _as_stored(connection, f"SHOW CREATE TABLE {table(database, name)}")
    if not rows:
        raise StopError(
            f"{connection.name}: no definition of {database}.{name}",
            hint="check that it is a table",
            code=Code.DEFINITION,
        )
    try:
        text = readable(bytes(rows[0][1]))
    except UnicodeDecodeError as error:
        raise StopError(
            f"{connection.name}: the definition of {database}.{name} is not UTF-8 ({error.reason})",
            hint="leave the table out, or remove such bytes from its names, comments and expressions",
            code=Code.DEFINITION,
        ) from None
    if any("\n" in found[1] for found in _NAMED.finditer(text) if found[1]):
        raise StopError(
            f"{connection.name}: the definition of {database}.{name} has a name with a line end",
            hint="leave the table out, or give the column, key or constraint another name",
            code=Code.DEFINITION,
        )
    return unprinted.restored(connection, database, name, _OLD_TIME.sub(r"\1", text))


def _as_stored(connection: Connection, statement: str) -> list[tuple[Any, ...]]:
    """MySQL prints the literals of expressions in their own character sets, and converts all of it for the session:
    what is not UTF-8 there, or has four bytes, becomes question marks."""
    if connection.flavour != "mysql":
        return connection.query_bytes(statement)
    (before,) = connection.one("SELECT @@SESSION.character_set_results") or (None,)
    if before is None:
        return connection.query_bytes(statement)
    connection.execute("SET SESSION character_set_results = NULL")
    try:
        return connection.query_bytes(statement)
    finally:
        if connection.open:
            connection.execute("SET SESSION character_set_results = %s", [before])


def readable(statement: bytes) -> str:
    """A CREATE TABLE statement as text: literals that are not UTF-8, as a binary default's, are written X'…'.

    Raises UnicodeDecodeError where such bytes stand outside of literals.
    """
    return _QUOTED.sub(_hexadecimal, statement).decode("utf-8")


def _hexadecimal(quoted: re.Match[bytes]) -> bytes:
    introducer, literal = quoted.group(1) or b"", quoted.group(2)
    try:
        quoted.group().decode("utf-8")
    except UnicodeDecodeError:
        if literal is not None:
            space = b" " if introducer else b""  # else it would be a part of the name
            return introducer + space + b"X'%s'" % _ESCAPED.sub(_meant, literal).hex().encode()
    return quoted.group()


def _meant(escaped: re.Match[bytes]) -> bytes:
    sign = escaped.group(1)
    return b"'" if sign is None else _ESCAPES.get(sign, sign)


def strip(statement: str) -> str:
    """See `show_create`."""
    head, *lines = statement.split("\n")
    end = next((number for number, line in enumerate(lines) if line.startswith(")")), None)
    if end is None:
        raise StopError("SHOW CREATE TABLE ended without its closing parenthesis", code=Code.DEFINITION)
    kept = [_CHECK.sub(r"\1CHECK ", line.rstrip(",")) for line in lines[:end] if not _FOREIGN_KEY.match(line)]
    options, comment, text = lines[end].partition(" COMMENT='")
    tail = _AUTO_INCREMENT.sub("", options) + comment + text
    return "\n".join([head, ",\n".join(kept), tail, *lines[end + 1 :]])  # partitions follow behind


def show_create_whole(connection: Connection, database: str, name: str) -> str:
    """The server's CREATE TABLE statement with its foreign keys, without the auto-increment counter."""
    return whole(printed(connection, database, name))


def whole(statement: str) -> str:
    """See `show_create_whole`."""
    head, closing, tail = statement.rpartition("\n)")
    options, comment, text = tail.partition(" COMMENT='")
    return head + closing + _AUTO_INCREMENT.sub("", options) + comment + text


def create_as(statement: str, name: str) -> str:
    """The statement for a table of another name; '%' is doubled for the driver.

    Where MySQL's names of checks, TABLE_chk_1, would be too long (error 1059), they get shorter ones.
    """
    match = re.match(r"^CREATE TABLE `(?:[^`]|``)+`", statement)
    if match is None:
        raise StopError("SHOW CREATE TABLE did not start with CREATE TABLE", code=Code.DEFINITION)
    return f"CREATE TABLE {quote(name)}" + _named_checks(statement[match.end() :], name).replace("%", "%%")


def anywhere(statement: str) -> str:
    """A CREATE TABLE statement without what says in which files of its server the table is: its tablespace, directories
    and encryption, of partitions too. They make no difference to what it is."""
    head, closing, tail = statement.partition("\n)")
    return head + closing + _STORAGE.sub(lambda found: "" if found[1] else found[0], tail)


def refusal(connection: Connection, error: pymysql.MySQLError) -> str:
    """What a server says of a definition that it has just refused, whole: no row's value is in it. Some errors name
    nothing, and what was wrong is a warning beside them (MariaDB's 1005, MySQL's 1031)."""
    said = {} if number(error) == 0 else {str(error.args[1]): number(error)}
    with suppress(pymysql.MySQLError, OSError):
        said |= {str(words): int(code) for _, code, words in connection.query("SHOW WARNINGS") if code not in _EMPTY}
    return "; ".join(f"{words} (error {code})" for words, code in [*said.items()][:3]) or text(error)


def _named_checks(definition: str, table: str) -> str:
    """definition: what stands behind the table's name."""
    checks = len(_NAMELESS_CHECK.findall(definition))
    if len(f"{table}_chk_{checks}") <= _LONGEST_NAME:
        return definition
    short, numbers = f"{table[:40]}_{zlib.crc32(table.encode()):08x}", count(1)

    def named(check: re.Match[str]) -> str:
        return f"{check[1]}CONSTRAINT {quote(f'{short}_chk_{next(numbers)}').replace('%%', '%')} CHECK "

    return _NAMELESS_CHECK.sub(named, definition)
