"""A second server that replicates from the first, and is promoted when the first is gone."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pymysql
from pymysql.cursors import DictCursor

from sandbox.database import DatabaseServer, Option
from sandbox.errors import SandboxError
from sandbox.settings import Flavour

_FILE_BASED: Mapping[Flavour, Mapping[str, Option]] = {
    Flavour.MARIADB: {},
    Flavour.MYSQL: {"gtid_mode": "OFF", "enforce_gtid_consistency": "OFF"},
}


_OLD_WORDS = ("mysql-5.6",)


def _has_old_words(server: DatabaseServer) -> bool:
    return server.flavour is Flavour.MARIADB or (server.release is not None and server.release.name in _OLD_WORDS)


def replica_options(flavour: Flavour, of: str = "") -> dict[str, Option]:
    """Server options for every member of a replicating pair: what a replica applies goes into its own binlog."""
    new = flavour is Flavour.MYSQL and of not in _OLD_WORDS
    return {
        "log_replica_updates" if new else "log_slave_updates": "ON",
        "skip_replica_start" if new else "skip_slave_start": True,
    }


def pair(
    flavour: Flavour | str,
    root: Path,
    *,
    gtid: bool = True,
    options: Mapping[str, Option] | None = None,
    of: str = "",
) -> tuple[DatabaseServer, DatabaseServer]:
    """A primary and a replica, not started: ids 11 and 12, other binlog names. `gtid=False`: without GTIDs. `of`: the
    name of a further release."""
    flavour = Flavour(flavour)
    common = {**replica_options(flavour, of), **({} if gtid else _FILE_BASED[flavour]), **(options or {})}
    primary = DatabaseServer(flavour, root / "primary", of=of, server_id=11, options=common)
    other = {**common, "log_bin": "other-bin"}
    replica = DatabaseServer(flavour, root / "replica", of=of, server_id=12, options=other)
    return primary, replica


def follow(replica: DatabaseServer, primary: DatabaseServer, *, gtid: bool = True) -> None:
    """Replicate from the beginning of the primary's binlog, or by GTID; both servers hold the same data by then."""
    file = primary.query("SHOW BINARY LOGS")[0][0]
    if replica.flavour is Flavour.MARIADB:
        where = (
            "MASTER_USE_GTID=slave_pos" if gtid else f"MASTER_USE_GTID=no, MASTER_LOG_FILE='{file}', MASTER_LOG_POS=4"
        )
        replica.execute(
            f"CHANGE MASTER TO MASTER_HOST='{primary.host}', MASTER_PORT={primary.port}, MASTER_USER='{primary.user}',"
            f" MASTER_PASSWORD='{primary.password}', MASTER_CONNECT_RETRY=1, {where}",
            "START SLAVE",
        )
        return
    if _has_old_words(replica):
        where = "MASTER_AUTO_POSITION=1" if gtid else f"MASTER_LOG_FILE='{file}', MASTER_LOG_POS=4"
        replica.execute(
            f"CHANGE MASTER TO MASTER_HOST='{primary.host}', MASTER_PORT={primary.port}, MASTER_USER='{primary.user}',"
            f" MASTER_PASSWORD='{primary.password}', MASTER_CONNECT_RETRY=1, {where}",
            "START SLAVE",
        )
        return
    where = "SOURCE_AUTO_POSITION=1" if gtid else f"SOURCE_LOG_FILE='{file}', SOURCE_LOG_POS=4"
    replica.execute(
        f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='{primary.host}', SOURCE_PORT={primary.port},"
        f" SOURCE_USER='{primary.user}', SOURCE_PASSWORD='{primary.password}', GET_SOURCE_PUBLIC_KEY=1,"
        f" SOURCE_CONNECT_RETRY=1, {where}",
        "START REPLICA",
    )


def wait_until_applied(replica: DatabaseServer, primary: DatabaseServer, seconds: float = 120.0) -> None:
    """Wait until the replica has applied all that is in the primary's binlog now.

    Raises SandboxError when replication stopped with an error or time ran out.
    """
    old = _has_old_words(replica)
    end = primary.query("SHOW MASTER STATUS" if old else "SHOW BINARY LOG STATUS")[0]
    wait = "MASTER_POS_WAIT" if old else "SOURCE_POS_WAIT"
    found = replica.query(f"SELECT {wait}(%s, %s, %s)", (end[0], end[1], int(seconds)))[0][0]
    if found is None or int(found) < 0:
        raise SandboxError(f"{replica.name} did not apply {end[0]}:{end[1]}: {_problem(replica)}")


def promote(replica: DatabaseServer, seconds: float = 120.0) -> None:
    """Apply what was received, stop replicating and forget the primary, as a failover tool does.

    Raises SandboxError when the relay log is not applied in time.
    """
    word = "SLAVE" if _has_old_words(replica) else "REPLICA"
    replica.execute(f"STOP {word} IO_THREAD")
    deadline = time.monotonic() + seconds
    while not _applied(_status(replica)):
        if time.monotonic() > deadline:
            raise SandboxError(f"{replica.name} did not apply its relay log: {_problem(replica)}")
        time.sleep(0.1)
    replica.execute(f"STOP {word}", f"RESET {word} ALL")


def _status(replica: DatabaseServer) -> dict[str, Any]:
    word = "SLAVE" if _has_old_words(replica) else "REPLICA"
    with replica.connect(cursorclass=DictCursor) as connection, connection.cursor() as cursor:
        cursor.execute(f"SHOW {word} STATUS")
        row: Any = cursor.fetchone()
        return dict(row or {})


def _applied(status: Mapping[str, Any]) -> bool:
    new = "Source" if "Read_Source_Log_Pos" in status else "Master"
    return (status[f"Relay_{new}_Log_File"], status[f"Exec_{new}_Log_Pos"]) == (
        status[f"{new}_Log_File"],
        status[f"Read_{new}_Log_Pos"],
    )


def _problem(replica: DatabaseServer) -> str:
    try:
        status = _status(replica)
    except pymysql.MySQLError as error:
        return str(error)
    return str(status.get("Last_IO_Error") or status.get("Last_SQL_Error") or "no error told")
