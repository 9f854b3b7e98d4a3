"""Who may write at a server: accounts, their roles, and what either is granted, by the server's own tables.

An account is a (user, host); a role of MariaDB, which has no host, a (name, "").
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from migrate.cutover.left_server import LeftServer, escaped
from migrate.mysql.capabilities import Capability, can

_PUBLIC = ("PUBLIC", "")
_NAME = "`(?:[^`]|``)*`|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|[^@,\\s]+"
_ROLE = re.compile(rf"({_NAME})(?:@({_NAME}))?")


def members(server: LeftServer, accounts: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Accounts that may act as these, where these are roles of a MySQL server."""
    if server.acts.flavour == "mariadb" or not can(server.acts, Capability.ROLES):
        return []  # MariaDB's roles have no host, and are no accounts here
    edges = server.query("SELECT FROM_USER, FROM_HOST, TO_USER, TO_HOST FROM mysql.role_edges")
    found: list[tuple[str, str]] = []
    of = {*accounts}
    while of:
        of = {(str(to), str(at)) for user, host, to, at in edges if (user, host) in of} - {*found}
        found += sorted(of)
    return found


def alike(server: LeftServer, users: Iterable[str]) -> set[tuple[str, str]]:
    """All accounts, as (user, host), of these names; a role of MariaDB is none."""
    names = ", ".join(f"'{escaped(user)}'" for user in users)
    rows = server.query(f"SELECT User, Host FROM mysql.user WHERE User IN ({names}) AND Host <> ''")
    return {(str(user), str(host)) for user, host in rows}


def roles_of_all(server: LeftServer) -> set[tuple[str, str]]:
    """The roles that every account has without a grant of it, as `roles_of` names them.

    MariaDB knowledge base, "GRANT", "TO PUBLIC"; MySQL 8.4 manual, "mandatory_roles".
    """
    if not can(server.acts, Capability.ROLES):
        return set()
    if server.acts.flavour == "mariadb":  # whose PUBLIC is there once something was granted to it
        found = {_PUBLIC} if server.query("SELECT 1 FROM mysql.user WHERE User = 'PUBLIC' AND Host = ''") else set()
    else:
        ((text_,),) = server.query("SELECT @@GLOBAL.mandatory_roles")
        found = {_role(one) for one in _ROLE.finditer(str(text_ or ""))}
    return found | {*roles_of(server, found)}


def roles_of(server: LeftServer, accounts: Collection[tuple[str, str]]) -> dict[tuple[str, str], tuple[str, str]]:
    """The roles that these accounts may act by, each with one that has it; (role, "") on MariaDB."""
    if not can(server.acts, Capability.ROLES):
        return {}
    if server.acts.flavour == "mariadb":
        rows = server.query("SELECT Role, '', User, Host FROM mysql.roles_mapping")
    else:
        rows = server.query("SELECT FROM_USER, FROM_HOST, TO_USER, TO_HOST FROM mysql.role_edges")
    edges = [((str(role), str(at)), (str(to), str(host))) for role, at, to, host in rows]
    found: dict[tuple[str, str], tuple[str, str]] = {}
    of = {*accounts}
    while of:
        more = {role: to for role, to in edges if to in of and role not in found}
        found |= more
        of = {*more}
    return found


def may_write(server: LeftServer, accounts: Collection[tuple[str, str]], databases: Collection[str]) -> list[str]:
    """What these accounts and roles, as (user, host), may write in databases, "'user'@'host' on WHAT", by the
    tables in which the server keeps its privileges: no grant is read as text, the server matches the names.

    MySQL manual and MariaDB knowledge base, "INFORMATION_SCHEMA SCHEMA_PRIVILEGES Table" and those beside it. Shows
    others' privileges to who may read the database `mysql`.
    """
    holders_ = {f"'{user}'@'{host}'" for user, host in accounts}
    names = [f"'{escaped(name)}'" for name in sorted(databases)]
    ((folds,),) = server.query("SELECT @@GLOBAL.lower_case_table_names")  # these tables compare as if it always did
    schema = "TABLE_SCHEMA" if str(folds) != "0" else "CONVERT(TABLE_SCHEMA USING utf8mb4) COLLATE utf8mb4_bin"
    like = " OR ".join(f"{name} LIKE {schema}" for name in names)
    of = "PRIVILEGE_TYPE IN ('INSERT', 'UPDATE', 'DELETE')"
    single = f"{of} AND {schema} IN ({', '.join(names)})"
    rows = server.query(
        f"SELECT GRANTEE, '*.*' FROM information_schema.USER_PRIVILEGES WHERE {of}"
        f" UNION SELECT GRANTEE, TABLE_SCHEMA FROM information_schema.SCHEMA_PRIVILEGES WHERE {of} AND ({like})"
        f" UNION SELECT GRANTEE, CONCAT_WS('.', TABLE_SCHEMA, TABLE_NAME) FROM"
        f" information_schema.TABLE_PRIVILEGES WHERE {single}"
        f" UNION SELECT GRANTEE, CONCAT_WS('.', TABLE_SCHEMA, TABLE_NAME) FROM"
        f" information_schema.COLUMN_PRIVILEGES WHERE {single}"
    )
    return sorted(f"{holder} on {what}" for holder, what in rows if str(holder) in holders_)


def _role(found: re.Match[str]) -> tuple[str, str]:
    return _unquoted(found[1]), _unquoted(found[2] or "%")


def _unquoted(name: str) -> str:
    mark = name[0]
    return name[1:-1].replace(mark * 2, mark) if mark in "`'\"" else name
