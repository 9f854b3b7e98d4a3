"""The state database: opened through SQLAlchemy, versioned by the files in sql/state."""

from __future__ import annotations

import re
import threading
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar, cast

import sqlalchemy as sa
import structlog
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from migrate.model.errors import PreflightError, ServerError
from migrate.mysql import channel
from migrate.mysql.errors import READ_ONLY, explain, number, passes, text
from migrate.mysql.quoting import quote
from migrate.mysql.session import state_session
from migrate.settings import State

log = structlog.get_logger("migrate.state")
T = TypeVar("T")
metadata = sa.MetaData()
now = sa.func.now(6)
"""Time is the state server's, never a process's own clock, which may be wrong."""

SILENT_SECONDS = 15
"""The server ends a state session that says nothing for so long. A process frozen inside a transaction keeps its
locks, on its lease among others; without this nobody could take over from it before it wakes."""

_STEP = re.compile(r"^(\d{3})_[a-z_]+\.sql$")


class NotSetUp(ServerError):  # noqa: N818 - it says what is so
    """The state database is not there, or is of an earlier version."""


SESSIONS = 5
"""That a process has at the state server at most; who needs another one waits for it."""

PUT_BACK = "the state database was put back to an earlier one"
OPTIONS = "DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
"""Of the state database and those beside it."""


def engine(settings: State, *, pool: int = SESSIONS) -> sa.Engine:
    """An engine on the state database; connections open on first use, and never more than `pool`."""
    made = sa.create_engine(
        sa.URL.create("mysql+pymysql", database=settings.database),
        pool_size=pool,
        max_overflow=0,
        pool_pre_ping=True,
        pool_recycle=300,
        hide_parameters=True,
    )

    def begin(_dialect: object, _record: object, _arguments: object, parameters: dict[str, Any]) -> object:
        """parameters: the database, and what the dialect needs of the driver."""
        return channel.opened(settings, **{**parameters, "autocommit": False})

    sa.event.listen(made, "do_connect", begin)
    sa.event.listen(made, "connect", _stated, insert=True)  # before SQLAlchemy asks the first session
    return made


def _stated(raw: Any, _record: object) -> None:
    """A new session of the pool, which begins and ends its transactions itself."""
    state_session(raw, {"autocommit": 0, "wait_timeout": SILENT_SECONDS})


@contextmanager
def opened(settings: State, *, pool: int = SESSIONS) -> Iterator[sa.Engine]:
    """An engine for the time of the block; what the state database refuses there becomes one ServerError line."""
    state = engine(settings, pool=pool)
    try:
        yield state
    except DBAPIError as error:
        raise explain_state(error, settings) from error
    finally:
        state.dispose()


def sql_steps(folder: str) -> list[tuple[int, list[str]]]:
    """The numbered files of sql/<folder> as (version, statements), lowest first."""
    found = (path for path in _sql_root().joinpath(folder).iterdir() if _STEP.match(path.name))
    files = sorted(found, key=lambda path: path.name)
    return [(int(path.name[:3]), statements(path.read_text(encoding="utf-8"))) for path in files]


def _sql_root() -> Path | zipfile.Path:
    """Beside the package, in the archive that it may be in."""
    package = cast("Path | zipfile.Path", resources.files("migrate"))
    packaged = cast("Path | zipfile.Path", package.parent).joinpath("sql")
    if not packaged.is_dir():
        raise PreflightError(f"the SQL files are missing: {packaged}", hint="install the package again")
    return packaged


def statements(text: str) -> list[str]:
    """Split a file of plain statements (no procedures, no ';' inside literals) and drop its comment lines."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("--")]
    return [part.strip() for part in "\n".join([*lines, ""]).split(";\n") if part.strip()]


def create(settings: State) -> list[int]:
    """Create the state database and its shadow if absent, apply the steps it lacks; returns the versions applied.

    Raises: ServerError with a hint when the server refuses.
    """
    try:
        server = engine(settings.model_copy(update={"database": ""}), pool=1)
        with server.begin() as connection:
            for name in (settings.database, settings.shadow):
                connection.exec_driver_sql(f"CREATE DATABASE IF NOT EXISTS {quote(name)} {OPTIONS}")
        server.dispose()
        return upgrade(settings)
    except DBAPIError as error:
        raise explain_state(error, settings) from error


def upgrade(settings: State) -> list[int]:
    """Apply the steps that the database lacks, which is there; returns the versions applied. Raises DBAPIError."""
    state = engine(settings, pool=1)
    try:
        return _upgrade(state)
    finally:
        state.dispose()


def _upgrade(state: sa.Engine) -> list[int]:
    with state.begin() as connection:
        connection.exec_driver_sql(
            "CREATE TABLE IF NOT EXISTS schema_version (version INT NOT NULL PRIMARY KEY,"
            " applied DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)) ENGINE=InnoDB"
        )
        known = {row[0] for row in connection.exec_driver_sql("SELECT version FROM schema_version")}
        is_empty = len(connection.exec_driver_sql("SHOW TABLES").all()) == 1
    steps = sql_steps("state")
    if is_empty and not known:
        return _make_whole(state, [version for version, _ in steps])
    return [_apply(state, version, parts) for version, parts in steps if version not in known]


def _make_whole(state: sa.Engine, versions: list[int]) -> list[int]:
    """All tables at once, as the steps would make them. Where it is ended in between, the steps go on."""
    whole = _sql_root().joinpath("state").joinpath("whole.sql").read_text(encoding="utf-8")
    with state.begin() as connection:
        for part in statements(whole):
            connection.exec_driver_sql(part.replace("%", "%%"))
        marks = ", ".join("(%s)" for _ in versions)
        connection.exec_driver_sql(f"INSERT IGNORE INTO schema_version (version) VALUES {marks}", tuple(versions))
    return versions


def _apply(state: sa.Engine, version: int, parts: Iterable[str]) -> int:
    with state.begin() as connection:
        for part in parts:
            connection.exec_driver_sql(part.replace("%", "%%"))
        connection.exec_driver_sql("INSERT INTO schema_version (version) VALUES (%s)", (version,))
    return version


def in_transaction(state: sa.Engine, action: Callable[[sa.Connection], T], stop: threading.Event) -> T:
    """Run `action` in a state transaction, again with back-off while the server is away, busy or read-only.

    Raises: ServerError when `stop` was set meanwhile or the error does not pass.
    """
    pause = 0.2
    while True:
        try:
            with state.begin() as connection:
                return action(connection)
        except DBAPIError as error:
            original = error.orig if error.orig is not None else error
            if not passes(original):
                raise ServerError(f"state database: {text(original)}") from error
            log.warning("state database, trying again", error=text(original), pause_seconds=pause)
            if number(original) == READ_ONLY:  # a right to write all the same that was granted since is a new session's
                state.dispose()
            if stop.wait(pause):
                raise ServerError(
                    f"state database: stopped while it was being tried again: {text(original)}"
                ) from error
            pause = min(pause * 2, 10.0)
        except PoolTimeout as error:  # others wait for a server that hangs, on every session that there may be
            log.warning("state database, trying again", error="no session is free", pause_seconds=pause)
            if stop.wait(pause):
                raise ServerError("state database: stopped while a session was waited for") from error


def put_all(
    connection: sa.Connection, table: str, rows: Sequence[Mapping[str, object]], later: Mapping[str, str]
) -> None:
    """Insert rows, or change those that are there, in one statement.

    later: what each column becomes of a row that is there; {column} stands for the new row's value.
    """
    if not rows:
        return
    mariadb = bool(getattr(connection.dialect, "is_mariadb", False))  # it has no alias for the new row
    new = {name: f"VALUES({name})" if mariadb else f"new.{name}" for name in rows[0]}
    marks = ", ".join("(" + ", ".join(f":{name}_{index}" for name in row) + ")" for index, row in enumerate(rows))
    changes = ", ".join(f"{name} = {made.format(**new)}" for name, made in later.items())
    connection.execute(
        sa.text(
            f"INSERT INTO {table} ({', '.join(rows[0])}) VALUES {marks}{'' if mariadb else ' AS new'}"
            f" ON DUPLICATE KEY UPDATE {changes}"
        ),
        {f"{name}_{index}": value for index, row in enumerate(rows) for name, value in row.items()},
    )


def explain_state(error: DBAPIError, settings: State) -> ServerError:
    """One line about a refused state database."""
    original = error.orig if error.orig is not None else error
    told = explain(original, f"state database '{settings.database}' at {settings.host}:{settings.port}")
    if getattr(original, "args", [0])[0] in (1049, 1054, 1146):  # or its tables are of an earlier version
        return NotSetUp(told.message, hint="run `migrate init` first")
    return told
