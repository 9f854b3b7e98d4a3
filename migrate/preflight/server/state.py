"""The state server: it answers, and its database is one that this program can use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from typing import TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from migrate.model.errors import MigrateError
from migrate.model.table import TableId
from migrate.mysql.catalog import place
from migrate.mysql.connection import Connection, connect
from migrate.mysql.errors import number
from migrate.mysql.grants import WRITES_WHEN_READ_ONLY
from migrate.preflight.result import Result, Verdict
from migrate.preflight.server import grants
from migrate.preflight.server.versions import reported
from migrate.settings import Settings
from migrate.state import database, schema_history
from migrate.state import migration as migrations
from migrate.state.migration import Migration

_ABSENT = frozenset({1049, 1146})  # database, table
T = TypeVar("T")


def newest_version() -> int:
    """The version that this program's init brings the state database to."""
    return max(number for number, _ in database.sql_steps("state"))


def check(connection: Connection, settings: Settings, version: int | None, flavours: Mapping[str, str]) -> list[Result]:
    """version: of the state database; None when there is none. flavours: of each source's server. Raises the driver's
    error."""
    name, newest = settings.state.database, newest_version()
    answers = f"{connection.name} answers: {connection.flavour} {reported(connection)}"
    if version is None:
        told = "does not exist yet; init creates it"
    else:
        told = f"is at version {version}" + (f"; init brings it to {newest}" if version < newest else "")
    results = [Result("state", name, Verdict.PASS, f"{answers}; database {name} {told}")]
    if version is not None and version > newest:
        newer = f"state database {name} is at version {version}, this program knows {newest}"
        results = [Result("state", name, Verdict.PROBLEM, newer, "install the newer program again")]
    others = sorted(source for source, kind in flavours.items() if kind != connection.flavour)
    if others:
        kinds = f"{connection.name} is {connection.flavour}, other than source {', '.join(others)}"
        tried = "statements on selected tables are judged only where the log names the columns"
        mend = "put the state on a server of the source's kind, or set binlog_row_metadata=FULL at the source"
        results.append(Result("state", name, Verdict.NOTE, f"{kinds}: {tried}", mend))
    return results


def check_grants(connection: Connection, settings: Settings, version: int | None, *, closed: bool) -> list[Result]:
    """version: as in `check`. closed: a cutover may set servers read-only."""
    make = () if version == newest_version() else ("CREATE", "ALTER")
    wanted = {settings.state.database: (*make, *grants.ROWS), settings.state.shadow: grants.SHADOW}
    read_only = closed and settings.cutover.stop == "read_only" and _is_closed(settings, connection)
    needs = grants.Needs((WRITES_WHEN_READ_ONLY[connection.flavour],) if read_only else (), wanted)
    told = f"the account has the grants that are needed in {', '.join(sorted(wanted))}"
    return grants.check(connection, needs, told)


def _is_closed(settings: Settings, connection: Connection) -> bool:
    """Whether the state's server is a source or a target, too. One that does not answer is told by its own checks."""
    here = place(connection)
    servers = {f"source '{one.name}'": one for one in settings.sources}
    for where, server in {**servers, **{f"target '{one.name}'": one for one in settings.targets}}.items():
        with suppress(MigrateError), closing(connect(server, where)) as other:
            if place(other) == here:
                return True
    return False


def _read(settings: Settings, read: Callable[[sa.Connection], T]) -> T | None:
    """None while the database or its tables are not there."""
    state = database.engine(settings.state, pool=1)
    try:
        with state.connect() as connection:
            return read(connection)
    except DBAPIError as error:
        if error.orig is not None and number(error.orig) in _ABSENT:
            return None
        raise database.explain_state(error, settings.state) from error
    finally:
        state.dispose()


def version_of(settings: Settings) -> int | None:
    """The version of the state database; None when there is none."""
    sql = "SELECT MAX(version) FROM schema_version"
    return _read(settings, lambda connection: connection.exec_driver_sql(sql).scalar())


def tables(settings: Settings) -> frozenset[TableId]:
    """The source tables that an earlier init has taken. Raises ServerError."""
    return frozenset(_read(settings, lambda connection: schema_history.first(connection, settings.name)) or ())


def known(settings: Settings) -> Migration | None:
    """The migration as init stored it; None before. Raises ServerError."""
    return _read(settings, lambda connection: migrations.find(connection, settings.name))
