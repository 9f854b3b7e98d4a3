"""How a transaction ends in the log, which is asked before anything of it is published in pieces.

MariaDB logs rows that are rolled back, and what rolled them back behind them, where tables without transactions or
temporary ones changed in the same transaction (MariaDB knowledge base, "Binary Log Formats"). The event that begins a
transaction does not tell.
"""

from __future__ import annotations

import threading
from contextlib import closing
from enum import Enum, auto

from migrate.model.errors import ServerError
from migrate.publish.log import binlog, payload
from migrate.publish.log.binlog import BinlogReader, Event
from migrate.publish.schema.statement import first_word, parse_query, savepoint_of
from migrate.settings import Source

_HEARTBEAT_SECONDS = 1.0
_BEGINS = frozenset({binlog.MARIADB_GTID, binlog.ROTATE})


class Fate(Enum):
    COMMITTED = auto()
    ROLLED_BACK = auto()
    PARTLY = auto()
    """Committed, and something in it was rolled back to a savepoint."""


class LookAhead:
    """Reads a source's log beside the publisher, which stands in the middle of a transaction."""

    def __init__(self, source: Source, replica_id: int, server: tuple[int, str], stop: threading.Event) -> None:
        """replica_id: not the publisher's. server: the id and UUID of what that reads."""
        self._source = source
        self._server = server
        self._stop = stop
        self._replica_id = replica_id

    def fate(self, file: str, start: int) -> Fate:
        """Of the transaction that begins there. One at which a file breaks off is rolled back.

        Raises ServerError, also when asked to stop; StopError.
        """
        reader = BinlogReader(self._source, self._replica_id, _HEARTBEAT_SECONDS, file, start, server=self._server)
        found, begun = Fate.COMMITTED, False
        with closing(reader):
            reader.open()
            for event in reader.events(lambda: 0.0 if self._stop.is_set() else _HEARTBEAT_SECONDS):
                artificial = event.flags & binlog.FLAG_ARTIFICIAL
                if artificial and event.type == binlog.ROTATE and event.body[8:].decode("ascii") != file:
                    return Fate.ROLLED_BACK
                if event.type in _BEGINS and not artificial:
                    if begun:
                        return Fate.ROLLED_BACK
                    begun = True
                match _said(event):
                    case "COMMIT":
                        return found
                    case "ROLLBACK":
                        return Fate.ROLLED_BACK
                    case "ROLLBACK TO":
                        found = Fate.PARTLY
        raise ServerError("stopped while it read a transaction to its end", hint="it is read again after the start")


def _said(event: Event) -> str:
    if event.type in (binlog.XID, binlog.XA_PREPARE):
        return "COMMIT"  # the publisher judges what is only prepared
    if event.type == binlog.QUERY_COMPRESSED:
        event = payload.query(event)
    if event.type != binlog.QUERY:
        return ""
    sql = parse_query(event.body).sql
    word = first_word(sql)
    if word not in ("COMMIT", "ROLLBACK"):
        return ""
    return f"{word} TO" if savepoint_of(sql) else word
