"""The source's binlog: on, ROW, FULL (invariant full-images), and with every change of the selected databases."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pymysql

from migrate.mysql import capabilities, grants
from migrate.mysql.catalog import show_variables
from migrate.mysql.connection import Connection
from migrate.mysql.errors import ACCESS_DENIED, number
from migrate.preflight.result import Result, Verdict

_TO_LAST = "in the server's option file too, and open sessions keep the old value until they are ended"
_WANTED = {
    "log_bin": ("ON", "start the server with log_bin"),
    "binlog_format": ("ROW", f"SET GLOBAL binlog_format = 'ROW'; {_TO_LAST}"),
    "binlog_row_image": ("FULL", f"SET GLOBAL binlog_row_image = 'FULL'; {_TO_LAST}"),
    "binlog_row_value_options": ("", f"SET GLOBAL binlog_row_value_options = ''; {_TO_LAST}"),
}
_OPTIONAL = frozenset({"binlog_row_value_options", "binlog_format"})
"""Absent on one of the flavours or in some versions; absent is as wanted."""


def check(connection: Connection) -> list[Result]:
    """One result for each setting that is not as needed, or one that passes."""
    found = show_variables(connection, *_WANTED)
    results = []
    for name, (wanted, mend) in _WANTED.items():
        if name not in found and name in _OPTIONAL:
            continue
        value = found.get(name, "absent")
        if value.upper() != wanted:
            shown = f"{name} is {value or chr(39) * 2}, needed is {wanted or chr(39) * 2}"
            results.append(Result("binlog", connection.name, Verdict.PROBLEM, f"{connection.name}: {shown}", mend))
            if name == "log_bin":
                break
    return results or [
        Result("binlog", connection.name, Verdict.PASS, f"{connection.name}: binlog is ROW with full images")
    ]


# -- what it leaves out

_SEES_CHANNELS = {"mariadb": "SLAVE MONITOR", "mysql": "REPLICATION CLIENT"}


def check_left_out(connection: Connection, databases: Collection[str]) -> list[Result]:
    """Selected databases that the binlog leaves out, and a replica whose binlog has its own changes alone; none where
    all is logged. Raises pymysql.MySQLError."""
    if show_variables(connection, "log_bin").get("log_bin") != "ON":
        return []  # told by `check`
    return _filtered(connection, databases) + _replicated(connection)


def _filtered(connection: Connection, databases: Collection[str]) -> list[Result]:
    """By the columns Binlog_Do_DB and Binlog_Ignore_DB. The second counts only where the first is empty (MySQL manual,
    "Evaluation of Database-Level Replication and Binary Logging Options")."""
    rows = _seen(connection, capabilities.log_status(connection))
    if rows is None:
        return []  # the account lacks what every source needs, which the check of grants tells
    logged, ignored = ({name for name in str(column or "").split(",") if name} for column in rows[0][2:4])
    option = "binlog_do_db" if logged else "binlog_ignore_db"
    left_out = sorted(set(databases) - logged if logged else ignored.intersection(databases))
    if not left_out:
        return []
    told = f"{connection.name}: {option} keeps changes of {', '.join(left_out)} out of the binlog"
    change = f"add {option} = NAME for each" if logged else f"take {option} out for them"
    mend = f"{change} in the server's option file, and restart it; or leave their tables out of the config"
    return [Result("binlog", connection.name, Verdict.PROBLEM, told, mend)]


def _replicated(connection: Connection) -> list[Result]:
    name = capabilities.logs_replicated(connection)
    if show_variables(connection, name).get(name, "ON") == "ON":
        return []
    channels = _seen(connection, capabilities.replica_status(connection))
    mend = f"{name} = ON in the server's option file, and restart it; or take the server that it replicates for source"
    if channels or (channels is None and _replicates(connection)):
        told = f"{connection.name} is a replica with {name} OFF: its binlog lacks what it replicates"
        return [Result("binlog", connection.name, Verdict.PROBLEM, told, mend)]
    if channels is not None:
        return []
    told = f"{connection.name} has {name} OFF, and whether it is a replica is not shown to this account: its binlog"
    told += " would lack what it replicates"
    grant = f"GRANT {_SEES_CHANNELS[connection.flavour]} ON *.* TO {grants.read(connection).account}"
    seen = f"make sure that it is none, or {grant} for the time of preflight"
    return [Result("binlog", connection.name, Verdict.NOTE, told, f"{seen}; if it is: {mend}")]


def _replicates(connection: Connection) -> bool:
    """Whether it replicates at this moment, as MariaDB shows to every account."""
    rows = connection.query("SHOW GLOBAL STATUS LIKE 'Slaves_running'")
    return any(str(value) != "0" for _, value in rows)


def _seen(connection: Connection, statement: str) -> Sequence[tuple[Any, ...]] | None:
    """Its rows; None where the account may not see them."""
    try:
        return connection.query(statement)
    except pymysql.MySQLError as error:
        if number(error) not in ACCESS_DENIED:
            raise
        return None
