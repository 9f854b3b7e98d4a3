"""What the account of a connection may do, as the server shows it (MySQL manual, "SHOW GRANTS Statement")."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from migrate.mysql.capabilities import Capability, can
from migrate.mysql.catalog import show_variables
from migrate.mysql.connection import Connection

_NAME = r"\*|`(?:[^`]|``)+`"
GRANT = re.compile(
    rf"^GRANT (?P<what>.+?) ON (?P<database>{_NAME})\.(?P<table>{_NAME}) TO (?P<to>.*?)"
    r"(?P<option> WITH GRANT OPTION.*)?$",
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
_WILD = ("_", "%")
_LONGEST = 64  # a database's name, as MariaDB counts
_FARTHEST = 127  # place of a wildcard that MySQL tells from others
_ACCOUNT, _ROLE, _PUBLIC = "account", "role", "PUBLIC"


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of mysql.db: what its holder may do in the databases that a name takes."""

    holder: str
    name: str  # without quotes, with its wildcards
    privileges: frozenset[str]
    rank: tuple[int, ...] = ()  # of the rows that take a database, the lowest counts

    def gives(self, privilege: str) -> bool:
        return _gives(self.privileges, privilege)


@dataclass(frozen=True, slots=True)
class Grants:
    """account: 'user'@'host', quoted. everywhere: privileges on *.*."""

    account: str
    everywhere: frozenset[str]
    _rows: tuple[_Row, ...]
    _single: Mapping[str, frozenset[str]]  # by database, what grants on single tables of it give
    _uncertain: bool  # something is taken away in a part, or comes by roles that are not shown
    _literal: bool  # names have no wildcards

    def lacking(self, database: str, wanted: Iterable[str]) -> list[str]:
        """What the account lacks on a whole database, of those wanted; in their order."""
        held = self._counting(database).values()
        return [
            one
            for one in wanted
            if not _gives(self.everywhere, one) and not any(all(row.gives(one) for row in rows) for rows in held)
        ]

    def mend(self, database: str, missing: Sequence[str]) -> str:
        """The statement that gives what is missing on a database, by the name that counts for it: one that is more
        specific would put what was granted by that name out of force. Several, with "; ", where several may count."""
        names = [row.name for row in self._counting(database).get(_ACCOUNT, ())] or [self._exactly(database)]
        plain = ", ".join(one for one in missing if one != OPTION) or "USAGE"
        option = f" WITH {OPTION}" if OPTION in missing else ""
        quoted = (name.replace("`", "``") for name in names)
        return "; ".join(f"GRANT {plain} ON `{name}`.* TO {self.account}{option}" for name in quoted)

    def _counting(self, database: str) -> dict[str, list[_Row]]:
        """By holder the row that counts for a database; several where the server's choice is not known."""
        found: dict[str, list[_Row]] = defaultdict(list)
        for row in self._rows:
            if row.name == database if self._literal else _takes(row.name, database):
                found[row.holder].append(row)
        return {
            holder: [row for row in rows if row.rank == min(one.rank for one in rows)] for holder, rows in found.items()
        }

    def _exactly(self, database: str) -> str:
        return database if self._literal else database.replace("_", "\\_").replace("%", "\\%")

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
        """Whether it may have all of these where they are needed on a database, although `lacking` does not see it, or
        less than it sees: by single tables, of which each has to be given by one at least."""
        given = self._single.get(database, frozenset())
        return self._uncertain or all(one not in _WHOLE and _gives(given, one) for one in wanted)


def read(connection: Connection) -> Grants:
    """Of the connection's own account, with the roles that are active. Raises pymysql.MySQLError."""
    ((account,),) = connection.query("SELECT CURRENT_USER()")
    lines = [str(line) for (line,) in connection.query("SHOW GRANTS")]
    with_roles = False
    if connection.flavour == "mysql" and can(connection, Capability.ROLES):
        ((roles,),) = connection.query("SELECT CURRENT_ROLE()")
        if with_roles := str(roles) != "NONE":
            using = f"SHOW GRANTS FOR CURRENT_USER() USING {roles}"
            lines = [str(line) for (line,) in connection.query(using.replace("%", "%%"))]
    everywhere: set[str] = set()
    rows: list[_Row] = []
    single: dict[str, frozenset[str]] = defaultdict(frozenset)
    uncertain = False
    for line in lines:
        found = GRANT.match(line)
        if found is None:
            uncertain = uncertain or line.upper().startswith("REVOKE")
            continue
        database, table = found["database"], found["table"]
        what = frozenset(part.strip().upper() for part in found["what"].split(","))
        what |= {OPTION} if found["option"] else set()
        if database == "*":
            everywhere |= what
        elif table == "*":
            rows.append(_Row(_holder(found["to"]), _unquoted(database), what))
        else:
            single[_unquoted(database)] |= {part.partition("(")[0].strip() for part in what}
    literal = show_variables(connection, "partial_revokes").get("partial_revokes", "OFF") == "ON"
    user, _, host = str(account).rpartition("@")
    return Grants(
        f"'{user}'@'{host}'",
        frozenset(everywhere),
        tuple(_ranked(rows, connection.flavour, with_roles)),
        single,
        uncertain,
        literal,
    )


def words(connection: Connection, wanted: Iterable[str]) -> tuple[str, ...]:
    """Privileges by the words of the server: MySQL before 8.0 has SUPER for what it has names for since."""
    if connection.flavour != "mysql" or can(connection, Capability.DYNAMIC_PRIVILEGES):
        return tuple(wanted)
    return tuple(dict.fromkeys("SUPER" if one in _OF_SUPER and "_" in one else one for one in wanted))


def covers(name: str, database: str) -> bool:
    """Whether a database's name as it stands in a grant, with its quotes, takes this one: _ and % are wildcards."""
    return name == "*" or _takes(_unquoted(name), database)


def _takes(name: str, database: str) -> bool:
    wild = {"_": ".", "%": ".*"}
    signs = _SIGNS.findall(name)
    return re.fullmatch("".join(wild.get(one) or re.escape(one[-1]) for one in signs), database, re.S) is not None


def _gives(privileges: frozenset[str], wanted: str) -> bool:
    return wanted in privileges or (wanted != OPTION and _ALL in privileges)


# -- which row counts: of several that take a database the servers go by one, they do not add them up


def _ranked(rows: Sequence[_Row], flavour: str, with_roles: bool) -> list[_Row]:
    """MariaDB looks once for the account, once for its role with all that this one inherits, once for PUBLIC. MySQL
    adds up the account's and its roles' rows of the same name, and takes the first in the order that it shows them."""
    if with_roles:
        return [replace(row, rank=(number,)) for number, row in enumerate(rows)]
    added: dict[tuple[str, str], frozenset[str]] = {}
    for row in rows:
        added[row.holder, row.name] = added.get((row.holder, row.name), frozenset()) | row.privileges
    rank = _rank_mariadb if flavour == "mariadb" else _rank_mysql
    return [_Row(holder, name, what, rank(name)) for (holder, name), what in added.items()]


def _rank_mysql(name: str) -> tuple[int, ...]:
    """By the first wildcard's place, names without and later ones first (manual, "Access Control, Stage 2")."""
    place = 0
    for sign in _SIGNS.findall(_bytes(name)):
        if sign in _WILD:
            return (-min(place, _FARTHEST - 1),)
        place += len(sign)
    return (-_FARTHEST,)


def _rank_mariadb(name: str) -> tuple[int, ...]:
    """By how many names a pattern can take, then by the first wildcard's place (MariaDB, sql/sql_acl_getsort.ic)."""
    signs = _SIGNS.findall(_bytes(name))
    signs = [sign for before, sign in zip(["", *signs], signs, strict=False) if (before, sign) != ("%", "%")]
    many, one = signs.count("%"), signs.count("_")
    first = next((place for place, sign in enumerate(signs) if sign in _WILD), 0)
    room = _LONGEST - (len(signs) - many) if many else 0
    return (2 * room + 1, many, one, first) if room > one else (2 * one, room, many, first)


def _bytes(name: str) -> str:
    """One sign for each byte, as the servers count."""
    return name.encode().decode("latin-1")


def _holder(to: str) -> str:
    if to.startswith(_PUBLIC):
        return _PUBLIC
    return _ACCOUNT if re.match(r"[`'](?:[^`']|``)*[`']@", to) else _ROLE


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
