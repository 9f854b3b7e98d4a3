"""sql_mode: the service's sessions set their own; what the servers' is matters to applications after the switch."""

from __future__ import annotations

from collections.abc import Iterable

import pymysql

from migrate.mysql.catalog import show_variables
from migrate.mysql.connection import Connection
from migrate.mysql.errors import number
from migrate.preflight.result import Result, Verdict

_WRONG_VALUE = 1231  # ER_WRONG_VALUE_FOR_VAR


def of(connection: Connection) -> frozenset[str]:
    """The modes of new sessions at the server."""
    return frozenset(filter(None, show_variables(connection, "sql_mode").get("sql_mode", "").split(",")))


def check_target(connection: Connection, sources: frozenset[str]) -> list[Result]:
    """sources: the modes of the sources. A note where applications would meet others at the target."""
    here = of(connection)
    if here == sources:
        return [Result("sql_mode", connection.name, Verdict.PASS, f"{connection.name}: sql_mode is as at the source")]
    more, less = sorted(here - sources), sorted(sources - here)
    parts = [
        f"{', '.join(names)} only at {where}" for names, where in ((more, "the target"), (less, "the source")) if names
    ]
    message = f"{connection.name}: sql_mode differs, which applications meet after the switch: {'; '.join(parts)}"
    unknown = _unknown(connection, less)
    wanted = ",".join(sorted(sources - unknown))
    mend = f"SET GLOBAL sql_mode = '{wanted}', for good, if they rely on it" if here != sources - unknown else ""
    if unknown:
        told = f"this server does not have {', '.join(sorted(unknown))}"
        mend = f"{mend}; {told}" if mend else f"{told}, and has the others"
    return [Result("sql_mode", connection.name, Verdict.NOTE, message, mend)]


def _unknown(connection: Connection, names: Iterable[str]) -> frozenset[str]:
    """Those modes that the server does not take, as it says itself: MySQL and MariaDB do not have the same ones."""
    ((before,),) = connection.query("SELECT @@SESSION.sql_mode")
    found = set()
    try:
        for name in names:
            try:
                connection.query("SET SESSION sql_mode = %s", [name])  # it may warn that modes belong together
            except pymysql.MySQLError as error:
                if number(error) != _WRONG_VALUE:
                    raise
                found.add(name)
    finally:
        connection.query("SET SESSION sql_mode = %s", [before])
    return frozenset(found)
