"""The source's binlog: on, ROW, FULL (invariant full-images), and with every change of the selected databases."""

from __future__ import annotations

from collections.abc import Collection

from migrate.mysql import capabilities, grants, left_out
from migrate.mysql.catalog import show_variables
from migrate.mysql.connection import Connection
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
    found = left_out.filtered(connection, databases), left_out.replicated(connection)
    problems = [Result("binlog", connection.name, Verdict.PROBLEM, one.told, one.mend) for one in found if one]
    return problems if found[1] else problems + _not_shown(connection)


def _not_shown(connection: Connection) -> list[Result]:
    """Where it would not log what it replicates, and whether it does is not shown."""
    if not left_out.leaves_replicated_out(connection) or left_out.channels(connection) is not None:
        return []
    name = capabilities.logs_replicated(connection)
    told = f"{connection.name} has {name} OFF, and whether it is a replica is not shown to this account: its binlog"
    told += " would lack what it replicates"
    grant = f"GRANT {_SEES_CHANNELS[connection.flavour]} ON *.* TO {grants.read(connection).account}"
    seen = f"make sure that it is none, or {grant} for the time of preflight"
    mend = f"{name} = ON in the server's option file, and restart it; or take the server that it replicates for source"
    return [Result("binlog", connection.name, Verdict.NOTE, told, f"{seen}; if it is: {mend}")]
