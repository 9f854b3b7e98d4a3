"""What the account of a connection may do, as the server shows it (MySQL manual, "SHOW GRANTS Statement")."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from migrate.mysql.connection import Connection

_NAME = r"\*|`(?:[^`]|``)+`"
_GRANT = re.compile(
    rf"^GRANT (?P<what>.+?) ON (?P<database>{_NAME})\.(?P<table>{_NAME}) TO .*?(?P<option> WITH GRANT OPTION.*)?$",
    re.I | re.S,
)
_ALIASES = {
    "REPLICATION SLAVE": {"REPLICATION REPLICA"},
    "BINLOG MONITOR": {"REPLICATION CLIENT"},
    "READ ONLY ADMIN": {"READ_ONLY ADMIN"},
}
_OF_SUPER = frozenset({"REPLICATION CLIENT", "CONNECTION_ADMIN", "SYSTEM_VARIABLES_ADMIN"})
"""What SUPER stands for: MySQL's words. On MariaDB that depends on the version, and it is not counted on."""
OPTION = "GRANT OPTION"
WRITES_WHEN_READ_ONLY = {"mariadb": "READ ONLY ADMIN", "mysql": "CONNECTION_ADMIN"}
"""By flavour, what lets an account write where read_only is set (the manuals, "read_only")."""
_SIGNS = re.compile(r"\\.|.", re.S)
_ALL = "ALL PRIVILEGES"
_WHOLE = frozenset({"LOCK TABLES", "EVENT", "CREATE ROUTINE", "ALTER ROUTINE", "EXECUTE", "CREATE TEMPORARY TABLES"})
"""Privileges that no grant on a table gives (MySQL manual, "Privileges Provided by MySQL")."""


@dataclass(frozen=True, slots=True)
class Grants:
    """account: 'user'@'host', quoted. everywhere: privileges on *.*."""

    account: str
    everywhere: frozenset[str]
    _databases: tuple[tuple[str, frozenset[str]], ...]  # as the names stand in the grants, with wildcards
    _single: frozenset[str]  # databases with grants on single tables
    _uncertain: bool  # something is taken away in a part, or comes by roles that are not shown

    def lacking(self, database: str, wanted: Iterable[str]) -> list[str]:
        """What the account lacks on a whole database, of those wanted; in their order."""
        held = set(self.everywhere)
        for name, privileges in self._databases:
            if covers(name, database):
                held |= privileges
        return [one for one in wanted if one not in held and (one == OPTION or _ALL not in held)]

    def lacking_everywhere(self, wanted: Iterable[str]) -> list[str]:
        """What the account lacks on *.*, of those wanted, in their order and by the words of the server's flavour."""
        held = self.everywhere
        if _ALL in held:
            return []
        return [
            one
            for one in wanted
            if one not in held and not _ALIASES.get(one, set()) & held and not (one in _OF_SUPER and "SUPER" in held)
        ]

    def unclear(self, database: str, wanted: Iterable[str]) -> bool:
        """Whether it may have more of these on a database than `lacking` sees, or less."""
        return self._uncertain or (database in self._single and not _WHOLE.issuperset(wanted))


def read(connection: Connection) -> Grants:
    """Of the connection's own account, with the roles that are active. Raises pymysql.MySQLError."""
    ((account,),) = connection.query("SELECT CURRENT_USER()")
    lines = [str(line) for (line,) in connection.query("SHOW GRANTS")]
    if connection.flavour == "mysql":
        ((roles,),) = connection.query("SELECT CURRENT_ROLE()")
        if str(roles) != "NONE":
            using = f"SHOW GRANTS FOR CURRENT_USER() USING {roles}"
            lines = [str(line) for (line,) in connection.query(using.replace("%", "%%"))]
    everywhere: set[str] = set()
    databases: list[tuple[str, frozenset[str]]] = []
    single: set[str] = set()
    uncertain = False
    for line in lines:
        found = _GRANT.match(line)
        if found is None:
            uncertain = uncertain or line.upper().startswith("REVOKE")
            continue
        database, table = found["database"], found["table"]
        what = frozenset(part.strip().upper() for part in found["what"].split(","))
        what |= {OPTION} if found["option"] else set()
        if database == "*":
            everywhere |= what
        elif table == "*":
            databases.append((database, what))
        else:
            single.add(_unquoted(database))
    user, _, host = str(account).rpartition("@")
    return Grants(f"'{user}'@'{host}'", frozenset(everywhere), tuple(databases), frozenset(single), uncertain)


def covers(name: str, database: str) -> bool:
    """Whether a database's name as it stands in a grant, with its quotes, takes this one: _ and % are wildcards."""
    if name == "*":
        return True
    wild = {"_": ".", "%": ".*"}
    signs = _SIGNS.findall(_unquoted(name))
    return re.fullmatch("".join(wild.get(one) or re.escape(one[-1]) for one in signs), database, re.S) is not None


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
