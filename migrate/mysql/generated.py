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
from contextlib import contextmanager
from typing import NamedTuple
from weakref import WeakKeyDictionary

import pymysql

from migrate.model.table import Column, Kind, Table
from migrate.mysql import made_up
from migrate.mysql.connection import Connection
from migrate.mysql.errors import number
from migrate.mysql.expressions import Expression
from migrate.mysql.made_up import decimal_of
from migrate.mysql.quoting import printed, quote, quote_all
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
"""Of sql_mode, what decides values when an expression is computed (both manuals, "Server SQL Modes"). A column is
refused for those that our sessions have not, and the server's global mode has, or a routine, a trigger or an event of
its users. The others that its value depends on are a note: for them harmless columns would be refused."""
_OF_PROGRAMS = (
    "SELECT SQL_MODE FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA NOT IN ({0})"
    " UNION SELECT SQL_MODE FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA NOT IN ({0})"
    " UNION SELECT SQL_MODE FROM information_schema.EVENTS WHERE EVENT_SCHEMA NOT IN ({0})"
).format("'sys', 'mysql', 'information_schema', 'performance_schema'")
"""They run in the mode that they were made in."""
_programs: WeakKeyDictionary[Connection, frozenset[str]] = WeakKeyDictionary()
"""Their modes, asked once a session: a server with many tables takes long to list its triggers."""
_LITERALS = "default_collation_for_utf8mb4"
"""By what MySQL compares texts that an expression has in quotes, where no column says it."""
_ROWS = 100  # of the table's own
_NO_SUCH_VALUE = 1231
_LOOKS = re.compile(
    r"\b(?:from_unixtime|unix_timestamp|convert_tz|monthname|dayname|date_format|week|yearweek|aes_\w+)\b|/", re.I
)
"""What in an expression may look at the session, where no row gives a value that says whether it does."""

_ZONE = "time_zone"
_BY_NO_ZONE = (
    r"\bunix_timestamp\(\s*{0}\s*\)",
    r"\bisnull\(\s*{0}\s*\)",
    r"{0}\s+is\s+(?:not\s+)?null\b",
    r"{0}\s*(?:<=>|[<>=!]+)\s*{0}(?!\s*[-+*/])",
    r"\btimestampdiff\(\s*(?:second|microsecond)\s*,\s*{0}\s*,\s*{0}\s*\)",
)
"""What reads a TIMESTAMP, `{{0}}`, alike in all time zones."""
_MAKES_MOMENT = re.compile(r"\bfrom_unixtime\(", re.I)

_LIKE = re.compile(r"\blike\s+(?:(?:_\w+\s*)?('(?:[^'\\]|\\.|'')*'))?(?P<escape>\s+escape\b)?", re.I)
"""A comparison by pattern, as SHOW CREATE TABLE prints it: the literal, and whether it says what escapes."""


class TrialOutcome(NamedTuple):
    """dependent: the variables that a value depends on, by column. unknown: those of which no row gave a value, and
    whose expression has what may look at the session. by_mode: those that depend on a sql_mode which nobody is known to
    have, and on which."""

    dependent: dict[str, list[str]]
    unknown: list[str]
    by_mode: dict[str, list[str]]


def tried(connection: Connection, table: Table, of: Sequence[Expression]) -> TrialOutcome:
    """Compute these under other settings.

    The session's own settings are as before when it returns. Raises the driver's error.
    """
    if not of:
        return TrialOutcome({}, [], {})
    found: dict[str, list[str]] = {}
    with connection.snapshot():
        before = {one.column: _computed(connection, table, one) for one in of}
        for name, values in _varied(connection):
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
        by_mode = _by_mode(connection, table, [one for one in of if not found.get(one.column)], before)
    for one in of:
        if _reads_moment(table, one.text) and _ZONE not in (named := found.setdefault(one.column, [])):
            named.append(_ZONE)
    if _no_escapes(connection):
        for one in of:
            if _escapes(one.text) and "sql_mode" not in (named := found.setdefault(one.column, [])):
                named.append("sql_mode")
    dependent = {column: names for column, names in found.items() if names}
    silent = {column for column, values in before.items() if not any(isinstance(value, str) for value in values)}
    silent -= dependent.keys()
    unknown = [one.column for one in of if one.column in silent and _may_look(one)]
    told = {*dependent, *unknown}
    return TrialOutcome(dependent, unknown, {name: modes for name, modes in by_mode.items() if name not in told})


def _no_escapes(connection: Connection) -> bool:
    """Whether patterns of MySQL's applications have no escape character. In that mode the printed expression itself
    would be read otherwise, so it is not tried (MySQL manual, "LIKE"). MariaDB's patterns always have one."""
    return connection.flavour == "mysql" and "NO_BACKSLASH_ESCAPES" in str(
        connection.query("SELECT @@GLOBAL.sql_mode")[0][0]
    )


def _escapes(text: str) -> bool:
    """Whether an expression has a pattern that may have a backslash, and does not say what escapes."""
    return any(not like["escape"] and (like[1] is None or "\\" in like[1]) for like in _LIKE.finditer(text))


def _reads_moment(table: Table, text: str) -> bool:
    """Whether an expression reads a TIMESTAMP, or makes one of a number, by more than whether it is NULL, its seconds
    or another one: in each time zone it reads another one, whatever few values a trial has."""
    moments = [re.escape(printed(column.name)) for column in table.columns if column.kind is Kind.TIMESTAMP]
    rest = text
    if moments:
        one = f"(?:{'|'.join(moments)})"
        for alike in _BY_NO_ZONE:
            rest = re.sub(alike.format(one), " ", rest, flags=re.I)
    return _MAKES_MOMENT.search(rest) is not None or any(re.search(moment, rest) for moment in moments)


def _may_look(one: Expression) -> bool:
    return _LOOKS.search(one.text) is not None


def _varied(connection: Connection) -> Iterator[tuple[str, tuple[str | int, ...]]]:
    here = _here(connection, *VARIED, _LITERALS)
    yield from ((name, values) for name, values in VARIED.items() if name in here)
    if _LITERALS in here:
        ((theirs, ours),) = connection.query(f"SELECT @@GLOBAL.{_LITERALS}, @@SESSION.{_LITERALS}")
        if theirs != ours:
            yield _LITERALS, (theirs,)
    has, theirs = _modes(connection)
    if more := [one for one in MODES if one in theirs and one not in has]:
        yield "sql_mode", (",".join([*has, *more]),)


def _here(connection: Connection, *names: str) -> set[str]:
    """Those of these variables that the server has."""
    named = ", ".join(f"'{name}'" for name in names)
    rows = connection.query(f"SHOW SESSION VARIABLES WHERE Variable_name IN ({named})")
    return {str(row[0]).lower() for row in rows}


def _modes(connection: Connection) -> tuple[list[str], set[str]]:
    """Of the session, and of all that is known to write at the server."""
    ((theirs, ours),) = connection.query("SELECT @@GLOBAL.sql_mode, @@SESSION.sql_mode")
    programs = _programs.get(connection)
    if programs is None:
        rows = connection.query(_OF_PROGRAMS)
        programs = _programs[connection] = frozenset(one for row in rows for one in str(row[0]).split(","))
    return [one for one in str(ours).split(",") if one], {*str(theirs).split(","), *programs}


def _by_mode(
    connection: Connection, table: Table, of: Sequence[Expression], before: Mapping[str, list[object]]
) -> dict[str, list[str]]:
    """Which of MODES that nobody is known to have values depend on, by column: all at once, then each for those."""
    has, theirs = _modes(connection)
    further = [mode for mode in MODES if mode not in theirs and mode not in has and _takes(connection, has, mode)]
    found: dict[str, list[str]] = {}
    for modes in (further, *([mode] for mode in further)):
        with _in_mode(connection, has, modes):
            others = [one for one in of if _computed(connection, table, one) != before[one.column]]
        if modes is further:
            of = others
        else:
            for one in others:
                found.setdefault(one.column, []).extend(modes)
    return found


def _takes(connection: Connection, has: Sequence[str], mode: str) -> bool:
    try:
        with _in_mode(connection, has, [mode]):
            return True
    except pymysql.MySQLError as error:
        if number(error) != _NO_SUCH_VALUE:
            raise
        return False


@contextmanager
def _in_mode(connection: Connection, has: Sequence[str], more: Sequence[str]) -> Iterator[None]:
    connection.query("SET SESSION sql_mode = %s", [",".join([*has, *more])])
    try:
        yield
    finally:
        connection.query("SET SESSION sql_mode = %s", [",".join(has)])


def _computed(connection: Connection, table: Table, one: Expression) -> list[object]:
    """What the expression gives: of some rows of the table, and of the made-up ones, each by itself where it fails."""
    value = one.text.replace("%", "%%")
    text = f"HEX(CONCAT({value if one.key else kept(table.by_name[one.column], value)}))"
    base = [column for column in table.columns if one.key or column.name != one.column]
    names = ", ".join(quote(column.name) for column in base)
    rows = (
        f"SELECT {names} FROM {quoted(table.database, table.name)} ORDER BY {quote_all(table.key)} LIMIT {_ROWS}"
        if names
        else "SELECT 1"
    )
    found = _tried(connection, f"SELECT {text} FROM ({rows}) AS _rows")
    made = [f"SELECT {fields}" for fields in made_up.rows(base, one.text)]
    whole = _tried(connection, f"SELECT {text} FROM ({' UNION ALL '.join(made)}) AS _rows")
    if whole and isinstance(whole[0], int):
        whole = [value for row in made for value in _tried(connection, f"SELECT {text} FROM ({row}) AS _rows")]
    return found + whole


def kept(column: Column, text: str) -> str:
    """The expression's value as a column of this type keeps it: what is rounded away makes no difference."""
    if column.kind is Kind.DECIMAL:
        return f"CAST({text} AS {decimal_of(column)})"
    if column.kind is Kind.INT:
        return f"CAST({text} AS {'UNSIGNED' if 'unsigned' in column.type.lower() else 'SIGNED'})"
    return f"CAST({text} AS DATE)" if column.kind is Kind.DATE else text


def _tried(connection: Connection, sql: str) -> list[object]:
    """The values; the error's number instead, where there is one."""
    try:
        return [row[0] for row in connection.query(sql)]
    except pymysql.MySQLError as error:
        return [error.args[0] if error.args else 0]
