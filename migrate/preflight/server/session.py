"""What the service's sessions state, and what a server does not let this account state.

A variable that cannot be set has the server's value. Where a result would depend on that, it is to be the stated one.
"""

from __future__ import annotations

from migrate.mysql.capabilities import Capability, can
from migrate.mysql.connection import Connection
from migrate.mysql.session import other_values, settings_of
from migrate.mysql.session_settings import Setting
from migrate.preflight.result import Result, Verdict

_OF_KEYS = frozenset({"sql_generate_invisible_primary_key", "sql_require_primary_key"})
"""Tables with a primary key do not mind."""


def check(connection: Connection, *, makes: bool) -> list[Result]:
    """makes: whether tables are made there. Problems, by variable; notes where only some tables mind."""
    found = _unset(connection) if connection.unset else {}
    settings = {name: one for name, one in settings_of(connection.greeting).items() if not one.unset}
    wrong = [one for one in other_values(found, settings) if makes or not one.makes]
    if not wrong:
        told = f"{connection.name}: sessions state all that their statements depend on"
        return [Result("session", connection.name, Verdict.PASS, told)]
    return [_told(connection, one, found[one.name]) for one in wrong]


def _unset(connection: Connection) -> dict[str, str]:
    names = [*connection.unset]
    marks = ", ".join(["%s"] * len(names))
    rows = connection.query(f"SHOW SESSION VARIABLES WHERE Variable_name IN ({marks})", names)
    return {str(name).lower(): str(value) for name, value in rows}


def _told(connection: Connection, setting: Setting, value: str) -> Result:
    number = connection.unset[setting.name]
    wanted = setting.value if isinstance(setting.value, int) else f"'{setting.value}'"
    grant = "SESSION_VARIABLES_ADMIN" if can(connection, Capability.DYNAMIC_PRIVILEGES) else "SUPER"
    return Result(
        "session",
        connection.name,
        Verdict.NOTE if setting.name in _OF_KEYS else Verdict.PROBLEM,
        f"{connection.name}: {setting.name} is {value or 'empty'}, and this account cannot set it (error {number}):"
        f" {setting.why}",
        f"SET GLOBAL {setting.name} = {wanted}, or GRANT {grant} ON *.* to the account",
    )
