"""Whom `read_only` does not stop: accounts and roles that may write all the same, by the server's tables of privileges.

MySQL manual, "read_only"; MariaDB knowledge base, "READ ONLY ADMIN" and "MDEV-29596" (from 10.11 on SUPER is none).
"""

from __future__ import annotations

from collections.abc import Sequence

from migrate.cutover.account_grants import named
from migrate.cutover.left_server import LeftServer
from migrate.model.errors import PreflightError
from migrate.model.words import some
from migrate.mysql.capabilities import Capability, can

_PRIVILEGES: dict[str, tuple[str, ...]] = {
    "mysql": ("SUPER", "CONNECTION_ADMIN"),
    "mariadb": ("READ_ONLY ADMIN", "READ ONLY ADMIN"),
}
_SERVERS_OWN = ("'mysql.session'@'localhost'", "'mysql.sys'@'localhost'", "'mysql.infoschema'@'localhost'")
_TOLD = 5


def of(server: LeftServer) -> list[str]:
    """'user'@'host' of each, but for the service's own account and the server's. Raises ServerError.

    Others' privileges are shown to who may read the database `mysql`; nobody else is known then.
    """
    wanted = _PRIVILEGES[server.acts.flavour]
    if server.acts.flavour == "mariadb" and not can(server.acts, Capability.SUPER_WITHOUT_READ_ONLY):
        wanted += ("SUPER",)
    rows = server.query(
        "SELECT DISTINCT GRANTEE FROM information_schema.USER_PRIVILEGES WHERE PRIVILEGE_TYPE IN"
        f" ({', '.join(repr(one) for one in wanted)}) ORDER BY 1"
    )
    ((user, _, host),) = [str(account).rpartition("@") for (account,) in server.query("SELECT CURRENT_USER()")]
    own = {f"'{user}'@'{host}'", *_SERVERS_OWN}
    return [str(grantee) for (grantee,) in rows if str(grantee) not in own]


def told(server: LeftServer, accounts: Sequence[str]) -> str:
    """What a person should know of them; "" for nothing.

    accounts: of the applications, where `cutover.accounts` says. Raises: PreflightError where one of those is among
    them; ServerError.
    """
    found = of(server)
    applications = [f"'{user}'@'{host}'" for user, host in map(named, accounts)]
    if among := [one for one in applications if one in found]:
        raise PreflightError(
            f"'{server.name}': {', '.join(among)} (cutover.accounts) can write in spite of read_only",
            hint="revoke SUPER, CONNECTION_ADMIN and READ ONLY ADMIN from it, or use cutover.stop: revoke",
        )
    if not found:
        return ""
    return f"'{server.name}': read_only does not stop {some(found, _TOLD)}: applications must not use these accounts"
