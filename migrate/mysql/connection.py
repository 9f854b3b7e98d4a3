"""Connections to MySQL and MariaDB, opened in one way everywhere.

Session: all that its statements depend on is stated (`session_settings`): UTC, utf8mb4, a strict mode that neither
invents nor refuses stored values, READ COMMITTED (no gap locks between the stream and the copy). The driver's LOCAL
INFILE is off.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pymysql
import structlog
from pymysql.constants import CLIENT
from pymysql.converters import conversions
from pymysql.cursors import Cursor, SSCursor

from migrate.model.errors import Code, ServerError, StopError
from migrate.mysql import channel
from migrate.mysql.errors import explain
from migrate.mysql.identity import refuse_another
from migrate.mysql.server_words import shown as words
from migrate.mysql.session import kind_of, state_session
from migrate.mysql.session_settings import MARIADB, MYSQL_5, SQL_MODE
from migrate.mysql.typed_json import JsonValue
from migrate.settings import Server

LAX_MODE = SQL_MODE.replace("STRICT_ALL_TABLES,", "")

HARMLESS = frozenset({1287, 1681, 3674, 3719, 3778, 4079})
"""What MySQL says of definitions that a source's tables may have all the same: deprecated character sets,
collations, ZEROFILL and FLOAT(7,3), a spatial index without SRID."""


_ENCODERS = {kind: encode for kind, encode in conversions.items() if isinstance(kind, type)}
"""What the driver does to parameters, without what it does to results (those are keyed by numbers)."""


class Warned(StopError):  # noqa: N818 - the server did, and the statement is done
    """A statement was carried out, and the server warned: it is to be rolled back (invariant unknown-stops).

    found: the number of rows that it found or changed.
    """

    code = Code.TARGET

    def __init__(self, message: str, hint: str, found: int) -> None:
        super().__init__(message, hint=hint)
        self.found = found


_sql_log = structlog.get_logger("migrate.sql")
_log_sql = False


def log_statements(on: bool) -> None:
    """Log every statement, without its values (setting `logging.log_sql`)."""
    global _log_sql
    _log_sql = on


class Connection:
    """One session. Statements take `%s` parameters only; any warning is an error (invariant unknown-stops)."""

    def __init__(self, raw: pymysql.connections.Connection[Cursor], name: str) -> None:
        self.raw = raw
        self.name = name
        self.greeting = str(raw.get_server_info())  # type: ignore[no-untyped-call]
        kind = kind_of(self.greeting)
        self.flavour = "mariadb" if kind == MARIADB else "mysql"
        self.version = version_of(self.greeting)
        self.before_mysql_8 = kind == MYSQL_5
        self.database = ""  # that the session is in, where it serves several (`migrate.target.in_database`)
        self._judges = True  # whether a warning is an error
        self.unset: Mapping[str, int] = {}  # stated variables that this account cannot set here, and the error's number
        raw.encoders[JsonValue] = _json_text if self.flavour == "mariadb" else _json_document

    def enter(self) -> None:
        """Have the session in the database that its statements are for; before anything is sent by `raw` itself."""

    def execute(self, sql: str, args: Sequence[object] | None = None) -> int:
        """Run a statement; returns the number of rows it found or changed.

        Raises: the driver's error; Warned when the server warned.
        """
        with self.raw.cursor() as cursor:
            return self._run(cursor, sql, args)

    def write(self, head: str, values: str, tail: str = "") -> int:
        """Run `head values tail`, whose values are literals already; only head and tail are ever logged, and formatted.

        Raises: as `execute`.
        """
        sql = f"{head % ()} {values}{tail % ()}"
        with self.raw.cursor() as cursor:
            return self._run(cursor, sql, None, shown=f"{head} …{tail}")

    @contextmanager
    def lax(self) -> Iterator[None]:
        """Without strict mode, and nothing that the server warns of is an error: for writes that are read back."""
        self.query("SET SESSION sql_mode = %s", [LAX_MODE])
        self._judges = False
        try:
            yield
        finally:
            self._judges = True
            if self.open:
                self.query("SET SESSION sql_mode = %s", [SQL_MODE])

    def execute_noted(self, sql: str) -> list[str]:
        """Run a statement whose outcome is looked at by itself; returns what the server warned of, with its numbers.

        Raises: the driver's error.
        """
        with self.raw.cursor() as cursor:
            self._run(cursor, sql, None, warn=False)
            if not cursor.warning_count:
                return []
            return [f"{text} ({code})" for code, text in _warnings(cursor) if code not in HARMLESS]

    def query(self, sql: str, args: Sequence[object] | None = None) -> list[tuple[Any, ...]]:
        """Run a statement and fetch all its rows."""
        with self.raw.cursor() as cursor:
            self._run(cursor, sql, args, warn=False)
            return list(cursor.fetchall())

    def query_bytes(self, sql: str) -> list[tuple[Any, ...]]:
        """As `query`, every text as the bytes that the server sends: not all that it prints is of one character set."""
        self.raw.use_unicode = False
        try:
            return self.query(sql)
        finally:
            self.raw.use_unicode = True

    def query_raw(self, sql: bytes) -> None:
        """Run a statement that is in the session's own character set, as it is; it is not logged."""
        self.enter()
        with self.raw.cursor() as cursor:
            cursor.execute(sql)  # type: ignore[call-overload]  # the driver sends bytes as they are

    def one(self, sql: str, args: Sequence[object] | None = None) -> tuple[Any, ...] | None:
        rows = self.query(sql, args)
        return rows[0] if rows else None

    def stream(self, sql: str, args: Sequence[object] | None = None, batch: int = 1000) -> Iterator[tuple[Any, ...]]:
        """Rows as they arrive, without holding the result in memory."""
        with self.raw.cursor(SSCursor) as cursor:
            self._run(cursor, sql, args, warn=False)
            while rows := cursor.fetchmany(batch):
                yield from rows

    def _run(
        self,
        cursor: Cursor,
        sql: str,
        args: Sequence[object] | None,
        warn: bool = True,
        shown: str | None = None,
    ) -> int:
        """shown: instead of a statement that has its values in it, which is sent as it is."""
        self.enter()
        if _log_sql:
            _sql_log.info("sql", server=self.name, statement=" ".join((shown or sql).split())[:2000])
        formatted: Sequence[object] = () if args is None else args  # always formatted, so %% is % everywhere
        try:
            found = cursor.execute(sql, formatted if shown is None else None)
        except RuntimeError:  # the only one of the driver: the server asked for a file
            self.close()
            raise file_asked(self.name, "a file") from None
        if warn and self._judges and cursor.warning_count:
            self._judge_warnings(cursor, cursor.warning_count, found)
        return found

    def _judge_warnings(self, cursor: Cursor, count: int, changed: int) -> None:
        rows = _warnings(cursor)
        found = [row for row in rows if row[0] not in HARMLESS]
        if found or len(rows) < count:  # more than the server keeps: one of them may matter
            text = "; ".join(words(*row) for row in found[:3]) or f"{count} warnings"
            raise Warned(f"{self.name}: the server warned: {text}", "a write with a warning is rolled back", changed)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Every SELECT of the block sees the rows as they were when it began; nothing is locked, nothing is written."""
        self.query("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        self.query("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        try:
            yield
        finally:
            if self.open:
                self.query("ROLLBACK")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """BEGIN … COMMIT; on any error ROLLBACK. A failed commit surfaces: its outcome is unknown."""
        self.enter()
        self.raw.begin()
        try:
            yield
        except BaseException:
            self._rollback()
            raise
        self.raw.commit()

    def _rollback(self) -> None:
        try:
            self.raw.rollback()
        except (pymysql.MySQLError, OSError):
            self.close()  # the server rolls back when the session ends

    @property
    def id(self) -> int:
        """The session's number at the server."""
        return int(self.raw.thread_id())  # type: ignore[no-untyped-call]

    @property
    def open(self) -> bool:
        return bool(self.raw.open)

    def close(self) -> None:
        with suppress(pymysql.MySQLError, OSError):
            self.raw.close()


def _json_document(value: JsonValue, _mapping: object = None) -> str:
    return value.as_json()


def _warnings(cursor: Cursor) -> list[tuple[int, str]]:
    """Number and text of each that the server keeps of the last statement."""
    cursor.execute("SHOW WARNINGS")
    return [(int(row[1]), str(row[2])) for row in cursor.fetchall()]


def _json_text(value: JsonValue, _mapping: object = None) -> str:
    return value.as_text()


def version_of(told: str) -> tuple[int, ...]:
    """Of what a server says of itself, as "5.5.5-10.11.6-MariaDB-log" (MariaDB before 11 to old clients): 10, 11, 6."""
    found = re.match(r"(?:5\.5\.5-(?=\d))?(\d+)\.(\d+)\.(\d+)", told)
    return tuple(int(part) for part in found.groups()) if found else (0, 0, 0)


def file_asked(where: str, file: str) -> StopError:
    """The server wants to read this machine's files: nobody answers such a question but `local_load`."""
    return StopError(
        f"{where}: the server asked for {file} of this machine",
        hint="nothing was sent; check that the address in the config is your server's",
        code=Code.TARGET,
    )


def connect(
    server: Server,
    name: str,
    *,
    database: str | None = None,
    raw_results: bool = False,
    session: Mapping[str, object] | None = None,
    loads: bool = False,
) -> Connection:
    """Open a session.

    Args:
        server: where and as whom; a source that is for one server is not read at another.
        name: for messages, e.g. "target 't0'".
        database: default schema.
        raw_results: every value comes as the server's own bytes, unconverted.
        session: further session variables, or other values than are stated.
        loads: the session may be given to `migrate.mysql.local_load`; no file of this machine is read in any case.
    Raises: ServerError with a hint; ConfigError for a file of `tls` that cannot be used.
    """
    options: dict[str, Any] = {"conv": _ENCODERS, "use_unicode": False} if raw_results else {}
    options["read_timeout"] = max(1.0, server.connect_timeout)  # who accepts and says nothing is not waited for long
    try:
        flags = CLIENT.FOUND_ROWS | (CLIENT.LOCAL_FILES if loads else 0)
        raw = channel.opened(server, database=database, client_flag=flags, **options)
        raw._read_timeout = server.read_timeout  # type: ignore[attr-defined]  # the driver has no other way
    except (pymysql.MySQLError, OSError) as error:
        raise explain(error, f"{name} at {server.host}:{server.port}") from error
    connection = Connection(raw, name)
    more: dict[str, object] = {**(session or {})}
    if raw_results:
        more["character_set_results"] = None  # each column's own bytes
    try:
        connection.unset = state_session(raw, more)
        if server.server:
            refuse_another(connection, server.server)
    except ServerError:
        connection.close()
        raise
    except (pymysql.MySQLError, OSError) as error:
        connection.close()
        raise explain(error, f"{name} at {server.host}:{server.port}") from error
    return connection
