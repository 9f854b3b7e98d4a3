"""What a server's binlog leaves out: everything, databases, or what the server replicates."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import pymysql
from pymysql.cursors import DictCursor

from migrate.mysql import capabilities
from migrate.mysql.catalog import show_variables
from migrate.mysql.connection import Connection
from migrate.mysql.errors import ACCESS_DENIED, number

NO_LOG = "start it with log_bin; what it wrote meanwhile is in no log: after that `migrate verify`, all tables"


class LogGap(NamedTuple):
    """In words, with the server's name; and what mends it."""

    told: str
    mend: str


def of(connection: Connection, databases: Collection[str]) -> LogGap | None:
    """None where all is logged, as far as the account is shown it. Raises pymysql.MySQLError."""
    return filtered(connection, databases) or replicated(connection)


def filtered(connection: Connection, databases: Collection[str]) -> LogGap | None:
    """By the columns Binlog_Do_DB and Binlog_Ignore_DB. The second counts only where the first is empty (MySQL manual,
    "Evaluation of Database-Level Replication and Binary Logging Options"). A server that had to give its log up shows
    `log_bin` as before, and no end of a log (MySQL manual, "binlog_error_action")."""
    rows = _seen(connection, capabilities.log_status(connection))
    if rows is None:
        return None  # the account lacks what every source needs, which the check of grants tells
    if not rows:
        return LogGap(f"{connection.name} writes no binlog", "start it with log_bin")
    logged, ignored = ({name for name in str(column or "").split(",") if name} for column in rows[0][2:4])
    option = "binlog_do_db" if logged else "binlog_ignore_db"
    left_out = sorted(set(databases) - logged if logged else ignored.intersection(databases))
    if not left_out:
        return None
    told = f"{connection.name}: {option} keeps changes of {', '.join(left_out)} out of the binlog"
    change = f"add {option} = NAME for each" if logged else f"take {option} out for them"
    mend = f"{change} in the server's option file, and restart it; or leave their tables out of the config"
    return LogGap(told, mend)


def replicated(connection: Connection) -> LogGap | None:
    """A replica, or a node of a Galera cluster, which has no channel, whose binlog has its own changes alone."""
    name = capabilities.logs_replicated(connection)
    if not leaves_replicated_out(connection):
        return None
    mend = f"{name} = ON in the server's option file, and restart it"
    if show_variables(connection, "wsrep_on").get("wsrep_on", "OFF").upper() in ("ON", "1"):
        told = f"{connection.name} is a node of a Galera cluster with {name} OFF: its binlog lacks other nodes' writes"
        return LogGap(told, mend)
    found = channels(connection)
    if found or (found is None and _replicates(connection)):
        told = f"{connection.name} is a replica with {name} OFF: its binlog lacks what it replicates"
        return LogGap(told, f"{mend}; or take the server that it replicates for source")
    return None


def leaves_replicated_out(connection: Connection) -> bool:
    """Whether it would not log what it replicates, if it did."""
    name = capabilities.logs_replicated(connection)
    return show_variables(connection, name).get(name, "ON") != "ON"


def channels(connection: Connection) -> Sequence[tuple[Any, ...]] | None:
    """From which servers it replicates; None where the account may not see them."""
    return _seen(connection, capabilities.replica_status(connection))


def receives_from(connection: Connection) -> list[str]:
    """The servers that changes arrive from, or may again without being asked, host:port. Raises pymysql.MySQLError.

    Of an account that may not see channels MariaDB tells only whether there are any.
    """
    statement = capabilities.replica_status(connection)
    try:
        with connection.raw.cursor(DictCursor) as cursor:
            cursor.execute(statement)
            rows = list(cursor.fetchall())
    except pymysql.MySQLError as error:
        if number(error) not in ACCESS_DENIED:
            raise
        return ["another server"] if _replicates(connection) else []
    word, names = ("Replica", "Source") if "REPLICA" in statement else ("Slave", "Master")
    running = f"{word}_IO_Running", f"{word}_SQL_Running"  # an IO thread that connects again is no "Yes"
    return [
        f"{row[f'{names}_Host']}:{row[f'{names}_Port']}" for row in rows if any(row[one] != "No" for one in running)
    ]


def written_beside(connection: Connection) -> str:
    """Who else takes writes of applications that this server gets, as a node of Galera or a member of a group has no
    channel for them; "" where nobody does. Raises pymysql.MySQLError.

    MySQL manual, "The replication_group_members Table"; MariaDB, "Galera Cluster Status Variables".
    """
    if (size := _galera_nodes(connection)) > 1:
        return f"{size - 1} more node{'s' if size > 2 else ''} of its Galera cluster"
    group = show_variables(connection, _GROUP, _ONE_PRIMARY)
    if not group.get(_GROUP):
        return ""
    members = _seen(connection, _MEMBERS)
    if not members:  # not shown to this account, or the server was started without performance_schema
        return "" if group.get(_ONE_PRIMARY) == "ON" else "other members of its group, which this server does not show"
    return ", ".join(f"{host}:{port}" for host, port, other, writes in members if other and writes)


_GROUP = "group_replication_group_name"
_ONE_PRIMARY = "group_replication_single_primary_mode"
_MEMBERS = (
    "SELECT MEMBER_HOST, MEMBER_PORT, MEMBER_ID <> @@server_uuid,"
    " MEMBER_ROLE = 'PRIMARY' AND MEMBER_STATE NOT IN ('OFFLINE', 'ERROR')"
    " FROM performance_schema.replication_group_members ORDER BY 1, 2"
)


def _galera_nodes(connection: Connection) -> int:
    """Of the cluster that it is a node of, itself included; 0 where it is none. An arbitrator has no address."""
    rows = connection.query("SHOW GLOBAL STATUS LIKE 'wsrep_incoming_addresses'")
    return sum(bool(address.strip()) for address in str(rows[0][1]).split(",")) if rows else 0


def _replicates(connection: Connection) -> bool:
    """Whether it replicates at this moment, as MariaDB shows to every account."""
    rows = connection.query("SHOW GLOBAL STATUS LIKE 'Slaves_running'")
    return any(str(value) != "0" for _, value in rows)


def _seen(connection: Connection, statement: str) -> Sequence[tuple[Any, ...]] | None:
    """Its rows; None where the account may not see them."""
    try:
        return connection.query(statement)
    except pymysql.MySQLError as error:
        if number(error) not in ACCESS_DENIED:
            raise
        return None
