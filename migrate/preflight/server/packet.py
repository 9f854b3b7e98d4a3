"""max_allowed_packet: a row that a source could store must be writable at the target."""

from __future__ import annotations

from migrate.mysql.catalog import show_variables
from migrate.mysql.connection import Connection
from migrate.preflight.result import Result, Verdict

_NAME = "max_allowed_packet"


def allowed(connection: Connection) -> int:
    """Bytes of the longest statement or row."""
    return int(show_variables(connection, _NAME)[_NAME])


def check_target(connection: Connection, sources: int) -> list[Result]:
    """sources: the largest one of the sources."""
    here = allowed(connection)
    if here >= sources:
        return [Result("packet", connection.name, Verdict.PASS, f"{connection.name}: {_NAME} is {here:,} bytes")]
    message = (
        f"{connection.name}: {_NAME} is {here:,} bytes, a source has {sources:,}: its largest rows would be refused"
    )
    return [Result("packet", connection.name, Verdict.PROBLEM, message, f"SET GLOBAL {_NAME} = {sources}, for good")]
