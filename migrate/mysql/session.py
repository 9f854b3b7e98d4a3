"""A session is given everything that its statements depend on, in one statement (`session_settings.STATED`).

Which variables a server has, and which of them an account may set, the server says at the first session; that is
remembered by process. A variable that cannot be set stays as it is, and preflight judges its value (`other_values`).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import pymysql

from migrate.mysql.errors import number
from migrate.mysql.session_settings import COMPILED, MARIADB, MYSQL, MYSQL_5, MYSQL_SWITCHES, STATED, Setting

_NOT_SETTABLE = frozenset({1193, 1227, 1229, 1231, 1238, 1621, 1651})
"""Unknown, not allowed to this account, global only, not this value, read-only, read-only for sessions, switched off
when the server started."""
_UNKNOWN = 1193
_UNQUOTED = frozenset({"system_versioning_asof", "timestamp"})
"""DEFAULT is a word there, not a text: no historical rows, the time that it is."""

_FIRST = frozenset(
    {"sql_mode", "sql_select_limit", "sql_big_selects", "sql_safe_updates", "max_execution_time", "max_statement_time"}
    | {"max_session_mem_used", "tmp_disk_table_size", "max_tmp_session_space_usage"}
)
"""What could end the question for the others early, on the servers that have it."""

if TYPE_CHECKING:
    Raw: TypeAlias = pymysql.connections.Connection[Any]


@dataclass(frozen=True, slots=True)
class _Known:
    """What a server lets an account set: literals by variable; and the others, with the error's number."""

    values: Mapping[str, str]
    refused: Mapping[str, int]


_known: dict[Hashable, _Known] = {}


def kind_of(version: str) -> str:
    """MARIADB, MYSQL, or MYSQL_5 for one before 8.0, by the version that a server greets with."""
    if "mariadb" in version.lower():
        return MARIADB
    return MYSQL_5 if version.startswith("5.") else MYSQL


def state_session(raw: Raw, more: Mapping[str, object]) -> Mapping[str, int]:
    """Set the session's variables.

    Args: raw: a new session. more: further variables, or other values; None is NULL.
    Returns: the variables of the list that this account cannot set here, with the error's number.
    Raises: the driver's error, for `more` too.
    """
    key = (raw.host, raw.port, raw.user, raw.get_server_info())  # type: ignore[no-untyped-call]
    for attempt in range(2):
        known = _known.get(key)
        if known is None:
            known = _known[key] = _learn(raw)
        others = {name: raw.escape(value, raw.encoders) for name, value in more.items()}
        try:
            _set(raw, {**known.values, **others})
        except pymysql.MySQLError as error:
            if attempt or number(error) not in _NOT_SETTABLE:
                raise
            del _known[key]  # another server, or the account's privileges changed
            continue
        return known.refused
    raise AssertionError("the second attempt returns or raises")


def other_values(shown: Mapping[str, str], settings: Mapping[str, Setting]) -> list[Setting]:
    """Those settings whose variable has another value than stated, of those shown.

    Args: shown: values as SHOW VARIABLES writes them, by variable.
    """
    judged = [settings[name] for name in shown if name in settings and settings[name].value is not COMPILED]
    return [one for one in judged if not _is(shown[one.name].lower(), one)]


def settings_of(version: str) -> dict[str, Setting]:
    """What is stated on a server of this version, by variable; it may lack some."""
    kind = kind_of(version)
    return {one.name: one for one in STATED if kind in one.on}


def _is(shown: str, setting: Setting) -> bool:
    words = {"on": "1", "yes": "1", "off": "0", "no": "0", "no_chain": "0", "null": ""}
    values = str(setting.value).lower(), *setting.also
    return shown in values or words.get(shown) in values


def _learn(raw: Raw) -> _Known:
    """Ask the server which variables it has, and try those that not every account may set."""
    version = str(raw.get_server_info())  # type: ignore[no-untyped-call]
    settings = settings_of(version)
    _first(raw, {name: _literal(raw, name, one.value) for name, one in settings.items() if name in _FIRST})
    compiled = _compiled(raw, [name for name, one in settings.items() if one.value is COMPILED], kind_of(version))
    there = _there(raw, settings)
    literals = {
        name: _literal(raw, name, compiled[name] if one.value is COMPILED else one.value)
        for name, one in settings.items()
        if name in there and (one.value is not COMPILED or name in compiled)
    }
    try:
        _set(raw, literals)
        return _Known(literals, {})
    except pymysql.MySQLError as error:
        if number(error) not in _NOT_SETTABLE:
            raise
    denied: dict[str, int] = {}
    for name, literal in literals.items():
        try:
            _set(raw, {name: literal})
        except pymysql.MySQLError as error:
            if number(error) not in _NOT_SETTABLE:
                raise
            denied[name] = number(error)
    return _Known({name: literal for name, literal in literals.items() if name not in denied}, denied)


def _first(raw: Raw, values: Mapping[str, str]) -> None:
    try:
        _set(raw, values)
        return
    except pymysql.MySQLError as error:
        if number(error) != _UNKNOWN:
            raise
    for name, literal in values.items():  # MySQL before 5.7.8 has no max_execution_time
        try:
            _set(raw, {name: literal})
        except pymysql.MySQLError as error:
            if number(error) != _UNKNOWN:
                raise


def _there(raw: Raw, settings: Mapping[str, Setting]) -> set[str]:
    names = ", ".join(f"'{name}'" for name in settings)
    return {str(row[0]).lower() for row in _rows(raw, f"SHOW SESSION VARIABLES WHERE Variable_name IN ({names})")}


def _compiled(raw: Raw, names: list[str], kind: str) -> dict[str, str]:
    """The values that the server was built with (MariaDB's manual, "information_schema.SYSTEM_VARIABLES")."""
    if kind != MARIADB:
        ((switches,),) = _rows(raw, "SELECT @@GLOBAL.optimizer_switch")
        here = [switch.split("=")[0] for switch in switches.split(",")]
        return {"optimizer_switch": ",".join(f"{one}={MYSQL_SWITCHES[one]}" for one in here if one in MYSQL_SWITCHES)}
    wanted = ", ".join(f"'{name}'" for name in names)
    sql = (
        "SELECT VARIABLE_NAME, DEFAULT_VALUE FROM information_schema.SYSTEM_VARIABLES"
        f" WHERE VARIABLE_NAME IN ({wanted})"
    )
    return {name.lower(): value for name, value in _rows(raw, sql)}


def _rows(raw: Raw, sql: str) -> list[tuple[Any, ...]]:
    with raw.cursor() as cursor:
        cursor.execute(sql)
        return [tuple(_text(value) for value in row) for row in cursor.fetchall()]


def _text(value: object) -> str:
    """Sessions for raw results give bytes."""
    return value.decode("utf-8") if isinstance(value, bytes) else "" if value is None else str(value)


def _literal(raw: Raw, name: str, value: str | int | None) -> str:
    if name in _UNQUOTED:
        return str(value)
    if name == "enforce_storage_engine":
        return "NULL"
    if value == "":
        return "LEFT('x', 0)"  # MariaDB reads '' as NULL in mode EMPTY_STRING_IS_NULL, which may be the global one
    return str(raw.escape(value, raw.encoders))


def _set(raw: Raw, values: Mapping[str, str]) -> None:
    with raw.cursor() as cursor:
        cursor.execute("SET " + ", ".join(f"SESSION {name} = {literal}" for name, literal in values.items()))
