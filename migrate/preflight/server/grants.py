"""What the accounts may do: the least that docs/grants.md lists, by name where it is missing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pymysql

from migrate.mysql import grants
from migrate.mysql.capabilities import Capability, can
from migrate.mysql.catalog import SCRATCH
from migrate.mysql.connection import Connection
from migrate.mysql.errors import explain
from migrate.mysql.grants import OPTION, Grants
from migrate.mysql.kill import procedure
from migrate.preflight.result import Result, Verdict
from migrate.target.routing import Plan

ROWS = ("SELECT", "INSERT", "UPDATE", "DELETE")
SHADOW = ("CREATE", "ALTER", "DROP", "INDEX", "SELECT", "INSERT", "REFERENCES")
ALTERS = ("ALTER", "INDEX", "CREATE", "DROP", "INSERT", "TRIGGER")
EMPTIES = ("DROP", "TRIGGER")
TRIES = ("CREATE", "ALTER", "INDEX", "DROP", "SELECT", "INSERT")
_LOCK = "LOCK TABLES"
_SEES = "TRIGGER"
_PREPARED = "XA_RECOVER_ADMIN"
_CLOSES = {"mariadb": "READ ONLY ADMIN", "mysql": "SYSTEM_VARIABLES_ADMIN"}
_ENDS = {"mariadb": "CONNECTION ADMIN", "mysql": "CONNECTION_ADMIN"}
_NEVER = ("ALL PRIVILEGES", "SUPER", "FILE")
OTHER_STOPS = "where nobody may, as at a managed server, cutover.stop: revoke, application or hook"


@dataclass(frozen=True, slots=True)
class Needs:
    """What an account needs: on *.*, and by database."""

    everywhere: tuple[str, ...] = ()
    databases: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __or__(self, other: Needs) -> Needs:
        databases = {
            name: _both(self.databases.get(name, ()), other.databases.get(name, ()))
            for name in (*self.databases, *other.databases)
        }
        return Needs(_both(self.everywhere, other.everywhere), databases)


def of_source(flavour: str, databases: Iterable[str]) -> Needs:
    """To replicate, and on MySQL to lock tables of these databases for the first position."""
    if flavour == "mariadb":
        return Needs(("REPLICATION SLAVE", "BINLOG MONITOR"))
    return Needs(("REPLICATION SLAVE", "REPLICATION CLIENT"), dict.fromkeys(databases, (_LOCK,)))


def of_cutover(flavour: str, databases: Collection[str], stop: str, ends_by: str = "") -> Needs:
    """To stop writes at a side, to end who holds on, to lock its tables, and to see the triggers that fire for what the
    other way writes there then. stop: as `cutover.stop`. ends_by: the procedure that ends sessions, where there is one.
    """
    everywhere = ["PROCESS"]
    if stop == "read_only" or (stop == "revoke" and not ends_by):  # it also lets MySQL's write in spite of read_only
        everywhere.append(_ENDS[flavour])
    needed: dict[str, tuple[str, ...]] = dict.fromkeys(databases, (_LOCK, _SEES))
    if stop == "read_only":
        everywhere.append(_CLOSES[flavour])
    elif stop == "revoke":
        needed = {**dict.fromkeys(databases, (_LOCK, _SEES, *ROWS[1:], OPTION)), "mysql": ("SELECT",)}
    return Needs(tuple(everywhere), needed)


def cutover_at(connection: Connection, databases: Collection[str], stop: str) -> Needs:
    """`of_cutover` at a server. Raises pymysql.MySQLError."""
    return of_cutover(connection.flavour, databases, stop, procedure(connection))


def check_ways(connection: Connection, stop: str) -> list[Result]:
    """A note where `cutover.stop` is not open to the account; and where sessions are ended by a managed server's
    procedure, or cannot be. Raises pymysql.MySQLError."""
    held = grants.read(connection)
    found: list[Result] = []
    closes = held.lacking_everywhere(grants.words(connection, [_CLOSES[connection.flavour]]))
    if stop == "read_only" and closes:
        told = f"{connection.name}: cutover.stop: read_only needs {closes[0]}"
        found.append(Result("grants", connection.name, Verdict.NOTE, told, OTHER_STOPS))
    return found + _ending(connection, held)


def _ending(connection: Connection, held: Grants) -> list[Result]:
    lacks = held.lacking_everywhere(grants.words(connection, [_ENDS[connection.flavour]]))
    if not lacks:
        return []
    if by := procedure(connection):
        told, mend = f"a cutover ends sessions by {by}, as the account lacks {lacks[0]}", ""
    else:
        told = f"without {lacks[0]} a cutover cannot end sessions: one that keeps tables locked ends the cutover"
        mend = f"GRANT {lacks[0]} ON *.* TO {held.account}"
    return [Result("grants", connection.name, Verdict.NOTE, f"{connection.name}: {told}", mend)]


def of_applied(migration: str, plan: Plan, target: str) -> Needs:
    """To bring statements of the sources to a target's tables (`ddl: apply`), and to try them first."""
    wanted: dict[str, tuple[str, ...]] = {}
    empties = False
    for planned in plan.tables.values():
        columns, truncates = planned.ddl.columns == "apply", planned.ddl.truncate == "apply"
        for place in planned.places if columns or truncates else ():
            if place.database.target == target:
                name, privileges = place.database.database, ALTERS if columns else EMPTIES
                wanted[name] = _both(wanted.get(name, ()), privileges)
                empties |= truncates
    trial = {f"{SCRATCH}{migration}": TRIES} if wanted else {}
    return Needs(("PROCESS",) if empties else (), {**wanted, **trial})


def of_triggers(databases: Collection[str]) -> Needs:
    """To see the triggers of these databases: the servers show them to nobody else."""
    return Needs(databases=dict.fromkeys(databases, (_SEES,)))


def check(connection: Connection, needs: Needs, told: str) -> list[Result]:
    """Everything that is missing, at once. told: what may be done where nothing is."""
    try:
        held = grants.read(connection)
    except pymysql.MySQLError as error:
        explained = explain(error, connection.name)
        return [Result("grants", connection.name, Verdict.UNKNOWN, explained.message, explained.given)]
    found: list[Result] = []
    if missing := held.lacking_everywhere(grants.words(connection, needs.everywhere)):
        names = ", ".join(missing)
        message = f"{connection.name}: grant {names} is missing"
        mend = f"GRANT {names} ON *.* TO {held.account}"
        found.append(Result("grants", connection.name, Verdict.PROBLEM, message, mend))
    found += _lacking(connection, held, needs.databases)
    return found or [Result("grants", connection.name, Verdict.PASS, f"{connection.name}: {told}")]


def check_prepared(connection: Connection) -> list[Result]:
    """A note where MySQL does not tell this account of prepared XA transactions: rows of one that outlived a restart of
    the server, and is committed after its chunk was copied, would be missed (MySQL manual, "XA Transaction States")."""
    if not can(connection, Capability.XA_RECOVER_ADMIN):
        return []
    held = grants.read(connection)
    if not held.lacking_everywhere([_PREPARED]):
        return []
    message = f"{connection.name}: this account cannot see prepared XA transactions, which a copy does not see either"
    mend = f"GRANT {_PREPARED} ON *.* TO {held.account}; or make sure that applications use no XA"
    return [Result("grants", connection.name, Verdict.NOTE, message, mend)]


def check_excess(connection: Connection) -> list[Result]:
    """A note where the account may do what no part of the service needs: whoever learns its password could too.
    Raises pymysql.MySQLError."""
    held = grants.read(connection)
    needed = grants.words(connection, [_CLOSES[connection.flavour]])  # SUPER, on MySQL before 8.0
    more = [one for one in _NEVER if one in held.everywhere and one not in needed]
    if not more:
        return []
    told = f"{connection.name}: {held.account} may do more than the service needs: {', '.join(more)} on *.*"
    return [Result("grants", connection.name, Verdict.NOTE, told, "use an account with the grants of docs/grants.md")]


def check_databases(connection: Connection, wanted: Mapping[str, Sequence[str]]) -> list[Result]:
    """wanted: by database, what the account needs on it."""
    told = f"the account has the grants that are needed in {', '.join(sorted(wanted))}"
    return check(connection, Needs(databases=wanted), told)


def _lacking(connection: Connection, held: Grants, wanted: Mapping[str, Sequence[str]]) -> list[Result]:
    results = []
    for database in sorted(wanted):
        missing = held.lacking(database, wanted[database])
        if not missing:
            continue
        told = f"{connection.name}: {held.account} lacks {', '.join(missing)} on database {database}"
        verdict = Verdict.PROBLEM
        if held.unclear(database, missing):
            told, verdict = (
                f"{told}, unless single grants or revokes, which are not looked at, say otherwise",
                Verdict.NOTE,
            )
        mend = held.mend(database, missing)
        results.append(Result("grants", f"{connection.name}, {database}", verdict, told, mend))
    return results


def _both(first: Sequence[str], second: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *second)))
