"""What a cutover does at one server of the side that is left: sees who writes, ends them, locks the tables."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

import pymysql

from migrate.cutover import metadata_locks
from migrate.model.errors import ServerError
from migrate.mysql.catalog import place, server_facts
from migrate.mysql.connection import Connection, connect
from migrate.mysql.errors import LOCK_WAIT, explained, number, text
from migrate.mysql.kill import end_session
from migrate.mysql.quoting import table as quoted_table
from migrate.mysql.readable import log_end
from migrate.publish.start_position import SourceEnd
from migrate.settings import Source, Target

_One = TypeVar("_One")
_Outcome = TypeVar("_Outcome")
_END_SECONDS = 10.0
_AFTER_SERVER = 1.0  # seconds, as the server's own end of a wait says why


@dataclass(frozen=True, slots=True)
class OtherSession:
    """Somebody else's session at a server."""

    id: int
    user: str
    host: str
    seconds: int  # since its transaction, or its last statement, began

    def __str__(self) -> str:
        return f"{self.user}@{self.host} (session {self.id}, {self.seconds} s)"


class LeftServer:
    """Two sessions at one server: one to look and act, one that holds the locks. For one thread; close it."""

    def __init__(self, settings: Source | Target, side: str) -> None:
        """Raises ServerError."""
        self.name = settings.name
        self._where = f"{side} '{settings.name}'"
        self._settings = settings
        self._patience: float | None = None
        self._acts: Connection | None = None
        self._locks: Connection | None = None

    @property
    def acts(self) -> Connection:
        """A session to look and act with."""
        if self._acts is None or not self._acts.open:
            self._acts = connect(self._patient(), self._where)
            if (
                self._acts.flavour == "mariadb"
            ):  # a GRANT to an account that was dropped would make it, with no password
                self._acts.query("SET SESSION sql_mode = CONCAT(@@SESSION.sql_mode, ',NO_AUTO_CREATE_USER')")
        return self._acts

    @property
    def place(self) -> tuple[str, int, str]:
        """What tells the server from others, by whatever address it is reached. Raises ServerError."""
        with explained(self._where):
            return place(self.acts)

    def _patient(self) -> Source | Target:
        """How the server is reached, and how long it is waited for."""
        if self._patience is None:
            return self._settings
        names = ("connect_timeout", "read_timeout")
        return self._settings.model_copy(
            update={name: min(self._patience, getattr(self._settings, name)) for name in names}
        )

    @contextmanager
    def in_a_hurry(self, seconds: float) -> Iterator[None]:
        """With a session of its own for the block, in which a server that says nothing is not waited for longer."""
        self.close()
        self._patience = seconds
        try:
            yield
        finally:
            self._patience = None
            self.close()

    def close(self) -> None:
        """Lets go of the locks."""
        for connection in (self._locks, self._acts):
            if connection is not None:
                connection.close()
        self._locks = self._acts = None

    def execute(self, statement: str, seconds: float | None = None) -> None:
        """Run a statement that has no parameters. Raises ServerError.

        seconds: for which it waits for others' locks at most; who gave up is to see that it runs no more
        (`end_statement`), as a GRANT or REVOKE that waits for grant tables minds no lock_wait_timeout.
        """
        with explained(self._where):
            if seconds is None:
                self.acts.query(statement.replace("%", "%%"))
                return
            self.acts.query(f"SET SESSION lock_wait_timeout = {max(1, round(seconds))}")
            waits = min(max(1.0, seconds) + _AFTER_SERVER, self._patient().read_timeout)
            self.acts.raw._read_timeout = waits  # type: ignore[attr-defined]
            try:
                self.acts.query(statement.replace("%", "%%"))
            finally:
                if self._acts is not None:
                    self._acts.raw._read_timeout = self._patient().read_timeout  # type: ignore[attr-defined]

    def query(self, statement: str) -> list[tuple[object, ...]]:
        with explained(self._where):
            return self.acts.query(statement.replace("%", "%%"))

    # -- who writes

    def writers(self) -> list[OtherSession]:
        """Others' sessions with a transaction that has locked or changed rows."""
        statement = (
            "SELECT p.ID, p.USER, p.HOST, TIMESTAMPDIFF(SECOND, t.trx_started, NOW())"
            " FROM information_schema.INNODB_TRX t"
            " JOIN information_schema.PROCESSLIST p ON p.ID = t.trx_mysql_thread_id"
            f" WHERE p.ID NOT IN ({', '.join(map(str, self._own()))})"
            " AND (t.trx_rows_modified > 0 OR t.trx_rows_locked > 0 OR t.trx_tables_locked > 0)"
        )
        return [_session(row) for row in self.query(statement)]

    def in_the_way(self, tables: Sequence[tuple[str, str]] | None = None) -> list[OtherSession]:
        """Others' sessions that certainly keep these tables from being locked: `writers`, and, where the server shows
        it, those that have them locked for writing; without tables, any tables."""
        found = {session.id: session for session in self.writers()}
        with explained(self._where):
            rows = metadata_locks.of(self.acts, tables)
        found.update((session.id, session) for row in rows or () if (session := _session(row)).id not in self._own())
        return list(found.values())

    def still_held(self, error: ServerError | pymysql.MySQLError, databases: Collection[str]) -> ServerError:
        """What there is to say when the lock is not had although all `in_the_way` were ended; names who may hold it."""
        with explained(self._where):
            rows = metadata_locks.users_of(self.acts, databases)
            shown = metadata_locks.of(self.acts, None) is not None
        maybe = [str(session) for row in rows if (session := _session(row)).id not in self._own()]
        names = f"it may be one of those that use the databases: {', '.join(maybe) or 'none'}"
        how = "" if shown else f"; {metadata_locks.TO_SEE[self.acts.flavour]} shows who it is, so that it is ended"
        why = error.message if isinstance(error, ServerError) else f"{self._where}: {text(error)}"
        return ServerError(
            f"{why}: a session keeps tables locked; {names}", hint=f"end it by KILL, then try again{how}"
        )

    def sessions_of(self, accounts: Sequence[tuple[str, str]]) -> list[OtherSession]:
        """Sessions of accounts, as (user, host)."""
        names = ", ".join(f"'{escaped(user)}'" for user, _ in accounts)
        statement = f"SELECT ID, USER, HOST, TIME FROM information_schema.PROCESSLIST WHERE USER IN ({names})"
        return [session for row in self.query(statement) if (session := _session(row)).id not in self._own()]

    def end_statement(self, statement: str) -> None:
        """End sessions that run exactly this statement, and wait until none does. Raises ServerError."""
        waiting = (
            "SELECT ID, USER, HOST, TIME FROM information_schema.PROCESSLIST"
            f" WHERE INFO = '{escaped(statement)}' AND ID <> CONNECTION_ID()"
        )

        def none() -> bool:
            sessions = [_session(row) for row in self.query(waiting)]
            self.end(sessions)
            return not sessions

        if not settled(none, _END_SECONDS):
            raise ServerError(f"{self._where}: a session that was killed still runs {statement}")

    def end(self, sessions: Sequence[OtherSession]) -> None:
        """End sessions; their open transactions roll back."""
        for session in sessions:
            with explained(self._where):
                end_session(self.acts, session.id)

    def _own(self) -> list[int]:
        return [connection.id for connection in (self._acts, self._locks) if connection is not None] or [0]

    # -- locks

    def lock(
        self,
        tables: Sequence[tuple[str, str]],
        wait_seconds: float,
        holds_seconds: float,
        ended: Callable[[list[OtherSession]], None],
    ) -> SourceEnd:
        """Lock tables (database, name) for reading, and say where the log ends then: every transaction that changed
        them is before that, and can be read. Transactions that hold them after `wait_seconds` are ended, and told.

        holds_seconds: after which the server lets go by itself, as nobody tells it that this machine is gone.
        Raises ServerError.
        """
        locks = ", ".join(f"{quoted_table(database, table)} READ" for database, table in tables)
        self._locks = connect(self._settings, self._where)
        with explained(self._where):
            facts = server_facts(self._locks)
            self._locks.execute("SET SESSION lock_wait_timeout = %s", [max(1, round(wait_seconds))])
            self._locks.execute("SET SESSION wait_timeout = %s", [max(1, math.ceil(holds_seconds))])
            for last in (False, True):
                try:
                    self._locks.execute(f"LOCK TABLES {locks}".replace("%", "%%"))
                    break
                except pymysql.OperationalError as error:
                    if number(error) != LOCK_WAIT:
                        raise
                    if last:
                        raise self.still_held(error, {database for database, _ in tables}) from error
                sessions = self.in_the_way(tables)
                ended(sessions)
                self.end(sessions)
            return SourceEnd(log_end(self._locks), (facts.server_id, facts.uuid))

    def still_locked(self) -> None:
        """Raises ServerError when the session with the locks is gone."""
        if self._locks is None:
            raise ServerError(f"{self._where}: nothing is locked")
        with explained(self._where):
            self._locks.query("SELECT 1")

    def unlock(self) -> None:
        if self._locks is not None:
            with suppress(pymysql.MySQLError, OSError):
                self._locks.query("UNLOCK TABLES")
            self._locks.close()
            self._locks = None


def settled(condition: Callable[[], bool], seconds: float, between: float = 0.05) -> bool:
    """Wait for a condition; whether it came true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(between)
    return True


def side_by_side(do: Callable[[_One], _Outcome], of: Sequence[_One]) -> list[_Outcome]:
    """Do something to each, none waiting for another; the outcomes in order. Raises what the first of them raised."""
    with ThreadPoolExecutor(max(1, len(of))) as threads:
        return list(threads.map(do, of))


def _session(row: Sequence[object]) -> OtherSession:
    number_, user, host, seconds = row
    return OtherSession(int(str(number_)), str(user), str(host).rsplit(":", 1)[0], int(str(seconds or 0)))


def escaped(text: str) -> str:
    """What stands between single quotes in a statement."""
    return text.replace("\\", "\\\\").replace("'", "''")
