"""The source's binlog: on, ROW, FULL (rule 12)."""

from __future__ import annotations

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
