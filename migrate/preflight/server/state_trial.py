"""Init, tried at the state server: its tables are made in a scratch database, with the server's own settings; and the
definitions of the source's tables, as the publisher makes them to try statements on."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing

from sqlalchemy.exc import DBAPIError

from migrate.mysql.connection import Connection, connect
from migrate.mysql.errors import ACCESS_DENIED, explained, number, passes
from migrate.mysql.quoting import quote
from migrate.preflight.result import Result, Verdict
from migrate.preflight.schema.scratch import name_of, scratch
from migrate.preflight.schema.trial import Sample, not_granted
from migrate.publish.schema.shadow import NotReplayedError, copy, lenient
from migrate.settings import Settings, State
from migrate.state import database

GRANTS = ("CREATE", "ALTER", "DROP", "SELECT", "INSERT", "UPDATE")


def check(connection: Connection, settings: Settings, samples: Sequence[Sample], *, makes: bool) -> list[Result]:
    """A problem where the server refuses one of the state's tables, a note for each definition that it does not take:
    it is where the publisher tries the statements that alter them (docs/decisions/0010).

    samples: of the tables that init would take. makes: whether init would make tables of the state. Raises ServerError,
    StopError.
    """
    wanted: dict[tuple[str, str], Sample] = {}
    for one in samples if connection.flavour in {one.flavour for one in samples} else ():
        wanted.setdefault(one.alike, one)  # of a server of the other kind nothing is tried here
    if not makes and not wanted:
        return []
    name = name_of(settings.name)
    if lacking := not_granted(connection, name, GRANTS):
        return [lacking]
    there = settings.state.model_copy(update={"database": name})
    with explained(connection.name):
        results = _state(connection, settings, there) if makes else []
        with scratch(connection, name), closing(connect(there, connection.name, database=name)) as session:
            lenient(session)
            return [*results, *(found for one in wanted.values() for found in _definition(session, one))]


def _state(connection: Connection, settings: Settings, there: State) -> list[Result]:
    began = time.monotonic()
    with scratch(connection, there.database, f"CREATE DATABASE {{}} {database.OPTIONS}"):
        try:
            database.upgrade(there)
        except DBAPIError as error:
            told = database.explain_state(error, settings.state)
            refusal = error.orig if error.orig is not None else error
            if passes(refusal) or number(refusal) in ACCESS_DENIED:
                raise told from error
            mend = told.given or "change what the server names, or put the state on another server"
            return [Result("trial", connection.name, Verdict.PROBLEM, told.message, mend)]
    seconds = time.monotonic() - began
    told_so = f"{connection.name}: makes the state's tables as init would, tried in {seconds:.1f} s"
    return [Result("trial", connection.name, Verdict.PASS, told_so)]


def _definition(session: Connection, one: Sample) -> list[Result]:
    table = one.planned.table
    try:
        copy(session, one.statement, table.name)
    except NotReplayedError as error:
        why = "statements that alter the table cannot be tried there, and would stop the publisher"
        told = f"{table.full_name}: {error}; {why}"
        mend = "give the state server what it names (a sequence, say, in a database of the same name)"
        return [Result("trial", session.name, Verdict.NOTE, told, mend)]
    session.query(f"DROP TABLE {quote(table.name)}")
    return []
