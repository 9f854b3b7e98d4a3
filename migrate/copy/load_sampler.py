"""What source, targets and replicas of a copy say about their load: one or two cheap statements each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

import pymysql
import structlog
from pymysql.cursors import DictCursor

from migrate.copy.throttle import Limits, Reading, Signal
from migrate.model.errors import MigrateError
from migrate.mysql.capabilities import replica_status
from migrate.mysql.connection import Connection, connect
from migrate.mysql.errors import ACCESS_DENIED, number, text
from migrate.settings import Server, Settings
from migrate.target.routing import PlannedTable

log = structlog.get_logger("migrate.copy")
_SECONDS = 3.0
_STATUS = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Threads_running', 'Innodb_history_list_length')"
_HISTORY = (
    "SELECT COUNT FROM information_schema.INNODB_METRICS WHERE NAME = 'trx_rseg_history_len' AND STATUS = 'enabled'"
)
_BEHIND = ("Seconds_Behind_Source", "Seconds_Behind_Master")


@dataclass(slots=True)
class _Measured:
    """A server, and the session on it while it answers."""

    name: str
    server: Server
    replica: bool
    session: Connection | None = None
    blind: bool = False  # MySQL shows its history list to accounts with PROCESS only
    said: set[str] = field(default_factory=set)


class LoadSampler:
    """Measures for the copy of tables. For one thread; close it.

    A source or target that does not answer, or does not tell, does not count: the copy itself waits for servers that
    are away. A replica that does not, or that does not replicate, is taken for infinitely late.
    """

    def __init__(self, settings: Settings, tables: Sequence[PlannedTable]) -> None:
        """tables: of any sources."""
        sources = dict.fromkeys(one.table.source for one in tables)
        self._measured = [_Measured(f"source '{name}'", settings.source(name), replica=False) for name in sources]
        targets = dict.fromkeys(database.target for one in tables for database in one.databases)
        self._measured += [_Measured(f"target '{name}'", settings.target(name), replica=False) for name in targets]
        replicas = settings.copy_.throttle.replicas
        self._measured += [_Measured(f"replica {one.host}:{one.port}", one, replica=True) for one in replicas]

    def measure(self, limits: Limits) -> list[Reading]:
        """What every server says now of the signals that have a limit. Raises nothing of a server's."""
        readings: list[Reading] = []
        for one in self._measured:
            wanted = [Signal.LAG] if one.replica else [Signal.THREADS, Signal.HISTORY]
            if not (wanted := [signal for signal in wanted if limits.of(signal)]):
                continue
            ask = _lag if one.replica else _load
            try:
                found = ask(one, _session(one))
            except (MigrateError, pymysql.MySQLError, OSError) as error:
                _close(one)
                found = [_silent(one, wanted[0], error)]
            readings += [reading for reading in found if reading.signal in wanted]
        return readings

    def close(self) -> None:
        for one in self._measured:
            _close(one)


def _session(one: _Measured) -> Connection:
    if one.session is None or not one.session.open:
        short = {"connect_timeout": _SECONDS, "read_timeout": _SECONDS}
        one.session = connect(one.server.model_copy(update=short), one.name)
    return one.session


def _close(one: _Measured) -> None:
    if one.session is not None:
        one.session.close()
    one.session = None


def _silent(one: _Measured, signal: Signal, error: Exception) -> Reading:
    """A server that could not be asked."""
    told = error.message if isinstance(error, MigrateError) else text(error)
    _say_once(one, "the load of a server is not known", told)
    return Reading(one.name, signal, inf if one.replica else None, f"{signal} not known, {told}")


def _say_once(one: _Measured, event: str, reason: str) -> None:
    if reason not in one.said:
        one.said.add(reason)
        log.warning(event, server=one.name, reason=reason)


def _load(one: _Measured, session: Connection) -> list[Reading]:
    told = {str(name).lower(): float(value) for name, value in session.query(_STATUS)}
    history = told.get("innodb_history_list_length")
    if history is None and not one.blind:
        history = _mysql_history(one, session)
    return [
        Reading(one.name, Signal.THREADS, told.get("threads_running")),
        Reading(one.name, Signal.HISTORY, history, "history list length not known"),
    ]


def _mysql_history(one: _Measured, session: Connection) -> float | None:
    """MySQL has it among its metrics, enabled by default (manual, "InnoDB INFORMATION_SCHEMA Metrics Table")."""
    try:
        row = session.one(_HISTORY)
    except pymysql.MySQLError as error:
        if number(error) not in ACCESS_DENIED:
            raise
        one.blind = True
        _say_once(one, "the history list length is not known", "the account lacks PROCESS")
        return None
    return float(row[0]) if row else None


def _lag(one: _Measured, session: Connection) -> list[Reading]:
    with session.raw.cursor(DictCursor) as cursor:
        cursor.execute(replica_status(session))
        channels: Any = cursor.fetchall()
    if not channels:
        return [Reading(one.name, Signal.LAG, inf, "it is no replica")]
    late = [next(row[name] for name in _BEHIND if name in row) for row in channels]
    if None in late:
        return [Reading(one.name, Signal.LAG, inf, "replication stands still")]
    return [Reading(one.name, Signal.LAG, float(max(late)))]
