"""The state server: it answers, and its database is one that this program can use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from typing import TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from migrate.model.errors import MigrateError
from migrate.model.table import TableId
from migrate.mysql.catalog import place
from migrate.mysql.connection import Connection, connect
from migrate.mysql.errors import explained, number
from migrate.mysql.grants import WRITES_WHEN_READ_ONLY
from migrate.preflight.result import Result, Verdict, guarded
from migrate.preflight.schema.trial import Sample
from migrate.preflight.server import clocks, connections, durability, grants, session, state_trial, writable
from migrate.settings import Settings
from migrate.state import database, schema_history
from migrate.state import migration as migrations
from migrate.state.migration import Migration

_ABSENT = frozenset({1049, 1146})  # database, table
T = TypeVar("T")


def check(
    settings: Settings, flavours: Mapping[str, str], samples: Sequence[Sample] = (), *, closed: bool = False
) -> list[Result]:
    """flavours: of each source's server. samples: of the tables that init would take. closed: a cutover may set servers
    read-only. Raises ServerError."""
    where = "state server"
    connection = connect(settings.state, where)
    try:
        with explained(where):
            version = connection.one("SELECT VERSION()")
            flavour, found = connection.flavour, version_of(settings)
            name, newest = settings.state.database, max(number for number, _ in database.sql_steps("state"))
            make = () if found == newest else ("CREATE", "ALTER")
            wanted = {name: (*make, *grants.ROWS), settings.state.shadow: grants.SHADOW}
            read_only = closed and settings.cutover.stop == "read_only" and _is_closed(settings, connection)
            needs = grants.Needs((WRITES_WHEN_READ_ONLY[flavour],) if read_only else (), wanted)
            told = f"the user may do what is needed in {', '.join(sorted(wanted))}"
            server = grants.check(connection, needs, told) + writable.check(connection)
            server += durability.check_state(connection) + clocks.check(connection)
            server += session.check(connection, makes=True)
            server += connections.check(connection, settings, settings.state)
            makes = found is None or found < newest
            server += guarded("trial", where, lambda: state_trial.check(connection, settings, samples, makes=makes))
    finally:
        connection.close()
    answers = f"{where} answers: {flavour} {version[0] if version else ''}"
    told = f"database {name} " + (
        "is not there yet; init makes it"
        if found is None
        else f"is at version {found}" + (f"; init brings it to {newest}" if found < newest else "")
    )
    results = [Result("state", name, Verdict.PASS, f"{answers}; {told}")]
    if found is not None and found > newest:
        newer = f"state database {name} is at version {found}, this program knows {newest}"
        results = [Result("state", name, Verdict.PROBLEM, newer, "install the newer program again")]
    others = sorted(source for source, kind in flavours.items() if kind != flavour)
    if others:
        kinds = f"{where} is {flavour}, other than source {', '.join(others)}"
        tried = "statements on selected tables are judged only where the log names the columns"
        mend = "put the state on a server of the source's kind, or set binlog_row_metadata=FULL at the source"
        results.append(Result("state", name, Verdict.NOTE, f"{kinds}: {tried}", mend))
    return results + server


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
