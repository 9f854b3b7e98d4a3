"""Generated columns whose value depends on the session that writes the row, found by trying.

A target computes generated columns by itself, in the service's sessions. Where the expression looks at the session
(its time zone, division precision, language, week), the source has stored another value than the target would. Each
expression is computed by the server itself under several settings of one session, over made-up rows and over some of
the table's own; where two settings give two values, the column depends on it (MySQL manual, "CREATE TABLE and Generated
Columns"; MariaDB documentation, "Generated (Virtual and Persistent/Stored) Columns").
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pymysql

from migrate.model.table import Column, Kind, Table
from migrate.mysql.connection import Connection
from migrate.mysql.quoting import quote, quote_all
from migrate.mysql.quoting import table as quoted

VARIED: Mapping[str, tuple[str | int, ...]] = {
    "time_zone": ("+12:45", "-11:15"),
    "div_precision_increment": (0, 9),
    "lc_time_names": ("de_DE",),
    "default_week_format": (1, 3, 6),
    "block_encryption_mode": ("aes-256-cbc",),
    "default_regex_flags": ("EXTENDED,DOTALL", "MULTILINE"),
}
"""Values that differ from what sessions state (`session_settings`), by variable; a server may lack some."""
MODES = (
    *("PAD_CHAR_TO_FULL_LENGTH", "NO_UNSIGNED_SUBTRACTION", "TIME_TRUNCATE_FRACTIONAL", "TIME_ROUND_FRACTIONAL"),
    *("ALLOW_INVALID_DATES", "NO_ZERO_DATE", "NO_ZERO_IN_DATE", "ERROR_FOR_DIVISION_BY_ZERO", "HIGH_NOT_PRECEDENCE"),
)
"""Of sql_mode, what decides values when an expression is computed (both manuals, "Server SQL Modes"). Tried where the
server's own global mode has one that sessions of ours have not: with all of them harmless columns would be refused."""
_ROWS = 100  # of the table's own
_MADE_UP = 24
_NAMED = re.compile(r"\s*(`(?:[^`]|``)+`)")
_CHECKED = re.compile(r"\s*(?:CONSTRAINT )?`((?:[^`]|``)+)`")
_CHECK = " CHECK ("
_QUOTES = "'`\""
_OPENING = re.compile(r" (?:GENERATED ALWAYS )?AS \(")
_LITERAL = re.compile(r"'(?:[^'\\]|\\.|'')*'|\b\d+(?:\.\d+)?\b")
_UNIX = (1772330400, 1772366400, 1767225599, 39657600, 2114380800)
"""Seconds since 1970 near the ends of days and years, so that zones put them into others."""
_DAYS = ("2026-03-01", "2026-12-31", "2027-01-01", "1971-02-28", "2037-01-04")
_TEXTS = ("'7'", "'abc'", "'2026-01-04 23:30:00'", "'{\"a\": 7}'", "'22'")
_NUMBERS = ("7", "22", "1", "3", "1000")


@dataclass(frozen=True, slots=True)
class Expression:
    """A generated column, a unique key on an expression or a check: what it is computed from, whether that is kept."""

    column: str  # or the name of the key, or the check
    text: str
    stored: bool
    key: bool = False  # or a check: no column


def expressions(statement: str, table: Table) -> list[Expression]:
    """Of all generated columns. statement: SHOW CREATE TABLE's, as `show_create_whole` gives it."""
    lines = {named[1]: line for line in statement.split("\n") if (named := _NAMED.match(line)) is not None}
    found = []
    for column in table.columns:
        line = lines.get(quote(column.name), "")
        opening = _OPENING.search(line, len(quote(column.name))) if column.generated else None
        if opening is not None:
            end = _closing(line, opening.end())
            stored = re.match(r" (?:STORED|PERSISTENT)\b", line[end + 1 :]) is not None
            found.append(Expression(column.name, line[opening.end() : end], stored))
    return found


def unique_keys(connection: Connection, table: Table) -> list[Expression]:
    """Of all parts of unique keys that are expressions, which MySQL alone has (MySQL manual, "CREATE INDEX Statement",
    "Functional Key Parts"). Raises the driver's error."""
    if connection.flavour != "mysql":
        return []
    rows = connection.query(
        "SELECT INDEX_NAME, EXPRESSION FROM information_schema.STATISTICS"
        " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND NON_UNIQUE = 0 AND EXPRESSION IS NOT NULL",
        (table.database, table.name),
    )
    return [Expression(str(name), unescaped(str(text)), stored=True, key=True) for name, text in rows]


def checks(statement: str) -> list[Expression]:
    """Of the CHECK constraints that are enforced, by name; MariaDB has some on their column's line, and calls them by
    the column. statement: as `expressions` has it."""
    found = []
    for line in statement.split("\n"):
        named = _CHECKED.match(line)
        if named is not None and (start := _outside(line, _CHECK, named.end())):
            end = _closing(line, start)
            if "NOT ENFORCED" not in line[end:]:
                found.append(Expression(named[1].replace("``", "`"), line[start:end], stored=True, key=True))
    return found


def _outside(line: str, wanted: str, at: int) -> int:
    """Behind the first such text that is in no quotes and no parentheses; 0 where there is none."""
    while at < len(line):
        if line.startswith(wanted, at):
            return at + len(wanted)
        if line[at] == "(":
            at = _closing(line, at + 1)
        elif line[at] in _QUOTES:
            at = _quoted_to(line, at)
        at += 1
    return 0


def unescaped(text: str) -> str:
    """MySQL's catalog has an expression as in a string: a backslash before each quote and backslash."""
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)


def _closing(line: str, start: int) -> int:
    """Where the parenthesis closes that was opened before `start`."""
    depth, at = 1, start
    while at < len(line):
        character = line[at]
        if character in _QUOTES:
            at = _quoted_to(line, at)
        depth += (character == "(") - (character == ")")
        if not depth:
            return at
        at += 1
    return len(line)


def _quoted_to(line: str, at: int) -> int:
    """Where the quotes close that open at `at`."""
    mark, at = line[at], at + 1
    while at < len(line) and line[at] != mark:
        at += 2 if line[at] == "\\" and mark != "`" else 1
    return at


def dependent(connection: Connection, table: Table, of: Sequence[Expression]) -> dict[str, list[str]]:
    """The variables that each column's value depends on, by column; only those that depend on any.

    The session's own settings are as before when it returns. Raises the driver's error.
    """
    found: dict[str, list[str]] = {}
    with connection.snapshot():
        before = {one.column: _computed(connection, table, one) for one in of}
        for name, values in _varied(connection) if of else ():
            ((own,),) = connection.query(f"SELECT @@SESSION.{name}")
            try:
                for value in values:
                    connection.query(f"SET SESSION {name} = %s", [value])
                    for one in of:
                        named = found.setdefault(one.column, [])
                        if name not in named and _computed(connection, table, one) != before[one.column]:
                            named.append(name)
            finally:
                connection.query(f"SET SESSION {name} = %s", [own])
    return {column: names for column, names in found.items() if names}


def _varied(connection: Connection) -> Iterator[tuple[str, tuple[str | int, ...]]]:
    names = ", ".join(f"'{name}'" for name in VARIED)
    here = {str(row[0]).lower() for row in connection.query(f"SHOW SESSION VARIABLES WHERE Variable_name IN ({names})")}
    yield from ((name, values) for name, values in VARIED.items() if name in here)
    ((theirs, ours),) = connection.query("SELECT @@GLOBAL.sql_mode, @@SESSION.sql_mode")
    has = [one for one in str(ours).split(",") if one]
    if more := [one for one in MODES if one in str(theirs).split(",") and one not in has]:
        yield "sql_mode", (",".join([*has, *more]),)


def _computed(connection: Connection, table: Table, one: Expression) -> list[object]:
    """What the expression gives: of some rows of the table, and of the made-up ones, each by itself where it fails."""
    kept = one.text.replace("%", "%%") if one.key else _kept(table.by_name[one.column], one.text.replace("%", "%%"))
    text = f"HEX(CONCAT({kept}))"
    base = [column for column in table.columns if one.key or column.name != one.column]
    names = ", ".join(quote(column.name) for column in base)
    rows = (
        f"SELECT {names} FROM {quoted(table.database, table.name)} ORDER BY {quote_all(table.key)} LIMIT {_ROWS}"
        if names
        else "SELECT 1"
    )
    found = _tried(connection, f"SELECT {text} FROM ({rows}) AS _rows")
    made = [f"SELECT {fields}" for fields in _made_up(base, one.text)]
    whole = _tried(connection, f"SELECT {text} FROM ({' UNION ALL '.join(made)}) AS _rows")
    if whole and isinstance(whole[0], int):
        whole = [value for row in made for value in _tried(connection, f"SELECT {text} FROM ({row}) AS _rows")]
    return found + whole


def _kept(column: Column, text: str) -> str:
    """The expression's value as a column of this type keeps it: what is rounded away makes no difference."""
    if column.kind is Kind.DECIMAL:
        return f"CAST({text} AS {_decimal(column)})"
    if column.kind is Kind.INT:
        return f"CAST({text} AS {'UNSIGNED' if 'unsigned' in column.type.lower() else 'SIGNED'})"
    return f"CAST({text} AS DATE)" if column.kind is Kind.DATE else text


def _tried(connection: Connection, sql: str) -> list[object]:
    """The values; the error's number instead, where there is one."""
    try:
        return [row[0] for row in connection.query(sql)]
    except pymysql.MySQLError as error:
        return [error.args[0] if error.args else 0]


def _made_up(columns: Sequence[Column], text: str) -> Iterator[str]:
    """Rows of values that the types have, and of what the expression compares with, so that it takes all branches."""
    literals = [one for found in dict.fromkeys(_LITERAL.findall(text)) for one in _near(found)][:24]
    for row in range(_MADE_UP):
        fields = []
        for number, column in enumerate(columns):
            turn = row + number * (row // 5)
            literal = literals[turn % len(literals)] if literals and row % 2 else None
            fields.append(f"{_value(column, turn, literal)} AS {quote(column.name)}")
        yield (", ".join(fields) or "1").replace("'%'", "'%%'")


def _near(literal: str) -> tuple[str, ...]:
    """A literal and its neighbours, so that comparisons with it come out each way."""
    return (literal, str(int(literal) + 1), str(int(literal) - 1)) if literal.isdigit() else (literal,)


def _value(column: Column, turn: int, literal: str | None) -> str:
    """A literal of about the column's type."""
    number = _NUMBERS[turn % 5]
    day = _DAYS[turn % 5]
    kind = column.kind
    if kind is Kind.TIMESTAMP:
        return f"FROM_UNIXTIME({_UNIX[turn % 5]})"
    if kind is Kind.DATETIME:
        return f"CAST('{day} 23:30:00' AS DATETIME(6))"
    if kind is Kind.DATE:
        return f"CAST('{day}' AS DATE)"
    if kind is Kind.TIME:
        return "CAST('23:30:00' AS TIME(6))"
    if kind in (Kind.INT, Kind.BIT, Kind.YEAR):
        sign = "UNSIGNED" if "unsigned" in column.type.lower() or kind is not Kind.INT else "SIGNED"
        return f"CAST({literal if literal and literal.lstrip('-').isdigit() else number} AS {sign})"
    if kind is Kind.DECIMAL:
        return f"CAST({literal if literal and literal[0].lstrip('-').isdigit() else number} AS {_decimal(column)})"
    if kind in (Kind.FLOAT, Kind.DOUBLE):
        return f"({literal if literal and literal[0].lstrip('-').isdigit() else number} + 0e0)"
    if kind is Kind.GEOMETRY:
        return f"ST_GeomFromText('POINT({number} 2)')"
    quoted_literal = literal if literal and literal[0] == "'" else f"'{literal}'" if literal else None
    value = (quoted_literal or _TEXTS[turn % 5]).replace("%", "%%")
    if kind in (Kind.TEXT, Kind.RAWTEXT, Kind.ENUM, Kind.SET) and column.charset:
        return f"CONVERT({value} USING {column.charset})"
    if kind is Kind.BINARY:
        return f"CAST({value} AS BINARY)"
    return value


def _decimal(column: Column) -> str:
    found = re.match(r"decimal\(\d+,\d+\)", column.type.lower())
    return found[0] if found else "DECIMAL(20,6)"
