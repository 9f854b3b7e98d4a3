"""Settings with which a server's or a broker's crash takes what it had acknowledged, and what that would cost."""

from __future__ import annotations

from migrate.mysql.catalog import show_variables
from migrate.mysql.connection import Connection
from migrate.preflight.result import Result, Verdict
from migrate.settings import Kafka

_FOR_GOOD = "in the server's option file too"
_FLUSHED = ("1", "3")
"""At each commit; 3 is MariaDB's, which flushes once more before it."""
_REDO, _LOG = "innodb_flush_log_at_trx_commit", "sync_binlog"


def check_target(connection: Connection) -> list[Result]:
    """Of a server that the stream writes. Raises pymysql.MySQLError."""
    return _check(
        connection,
        "the stream finds that and applies it again from Kafka, a copy its chunks, and the cutover waits for a"
        " verification",
        "the reverse stream would lack what applications write there after the cutover",
    )


def check_state(connection: Connection) -> list[Result]:
    """Of the state's server. Raises pymysql.MySQLError."""
    return _check(connection, "processes do the last second's work again, and drop what the targets have")


def check_source(connection: Connection) -> list[Result]:
    """Of a server whose log is read. Raises pymysql.MySQLError."""
    return _check(
        connection,
        "one right after a cutover takes them from the reverse stream, where `migrate --reverse verify` before a"
        " rollback finds them",
        "after it rows may be there whose change no log has: they never arrive, and only a verification finds them",
    )


def _check(connection: Connection, redo: str, log: str = "") -> list[Result]:
    """redo, log: what it costs that the last second's transactions are lost, or that the log lacks their changes."""
    found = show_variables(connection, _REDO, _LOG, "log_bin")
    results = []
    for name, cost, counts in (
        (_REDO, redo, found.get(_REDO, "1") not in _FLUSHED),
        (_LOG, log, found.get("log_bin") == "ON" and found.get(_LOG, "1") != "1"),
    ):
        if cost and counts:
            told = (
                f"{connection.name} has {name}={found[name]}: a crash of the machine may take the last commits; {cost}"
            )
            results.append(_note(connection.name, told, f"SET GLOBAL {name} = 1; {_FOR_GOOD}"))
    passes = f"{connection.name}: what is committed stays after a crash"
    return results or [Result("durability", connection.name, Verdict.PASS, passes)]


def check_kafka(settings: Kafka) -> list[Result]:
    """Of the topics that init makes."""
    if settings.replication > 1:
        told = f"kafka.replication is {settings.replication}: a broker may be lost"
        return [Result("durability", "topics", Verdict.PASS, told)]
    told = (
        "kafka.replication is 1: with its broker's disk the changes that are not applied are lost, though the sources'"
        " logs have them: `migrate publish --from` brings them again"
    )
    return [_note("topics", told, "kafka.replication: 3, where there are three brokers")]


def _note(subject: str, told: str, mend: str) -> Result:
    return Result("durability", subject, Verdict.NOTE, told, mend)
