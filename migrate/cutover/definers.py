"""Whom `revoke` does not stop: who comes by a routine, view, event or trigger that writes with its definer's rights.

MySQL manual, "Stored Object Access Control"; MariaDB knowledge base, "Stored Routine Privileges", "CREATE VIEW".
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from migrate.cutover import privileges
from migrate.cutover.account_grants import named
from migrate.cutover.left_server import LeftServer, escaped
from migrate.model.words import some

_TOLD = 5
_SERVERS_OWN = "('mysql', 'sys', 'performance_schema', 'information_schema')"
_OBJECTS = (
    "SELECT 'routine', ROUTINE_SCHEMA, ROUTINE_NAME, DEFINER FROM information_schema.ROUTINES"
    f" WHERE SECURITY_TYPE = 'DEFINER' AND ROUTINE_SCHEMA NOT IN {_SERVERS_OWN}"
    " UNION ALL SELECT 'view', TABLE_SCHEMA, TABLE_NAME, DEFINER FROM information_schema.VIEWS"
    f" WHERE SECURITY_TYPE = 'DEFINER' AND IS_UPDATABLE = 'YES' AND TABLE_SCHEMA NOT IN {_SERVERS_OWN}"
    " UNION ALL SELECT 'event', EVENT_SCHEMA, EVENT_NAME, DEFINER FROM information_schema.EVENTS"
    " WHERE STATUS = 'ENABLED'"
    " UNION ALL SELECT 'trigger', TRIGGER_SCHEMA, TRIGGER_NAME, DEFINER FROM information_schema.TRIGGERS"
    f" WHERE TRIGGER_SCHEMA NOT IN {_SERVERS_OWN} AND TRIGGER_SCHEMA NOT IN (%s)"
)
"""Those that the account of the config may see; triggers of the databases themselves fire for who is stopped."""


def told(server: LeftServer, accounts: Sequence[str], databases: Collection[str]) -> str:
    """What a person should know of them; "" for nothing. accounts: that lose their writes. Raises ServerError."""
    stopped = {named(text) for text in accounts}
    found: dict[tuple[str, str], list[str]] = {}
    names = ", ".join(f"'{escaped(name)}'" for name in sorted(databases))
    for kind, schema, name, definer in server.query(_OBJECTS % names):
        user, _, host = str(definer).rpartition("@")
        if (user, host) not in stopped:
            found.setdefault((user, host), []).append(f"{kind} {schema}.{name} ('{user}'@'{host}')")
    writing = [
        one
        for account, objects in sorted(found.items())
        if privileges.may_write(server, {account, *privileges.roles_of(server, {account})}, databases)
        for one in objects
    ]
    if not writing:
        return ""
    return (
        f"'{server.name}': revoke does not stop what runs with the rights of an account that may still write:"
        f" {some(writing, _TOLD)}; nothing may call them from the switch on, as an application or the event"
        " scheduler does"
    )
