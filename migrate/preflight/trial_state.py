"""Init, tried at the state server: its tables are made in a scratch database, with the server's own settings."""

from __future__ import annotations

import time

from sqlalchemy.exc import DBAPIError

from migrate.mysql.connection import Connection
from migrate.mysql.errors import ACCESS_DENIED, explained, number, passes
from migrate.preflight.result import Result, Verdict
from migrate.preflight.scratch import name_of, scratch
from migrate.preflight.trial import not_granted
from migrate.settings import Settings
from migrate.state import database

GRANTS = ("CREATE", "ALTER", "DROP", "SELECT", "INSERT", "UPDATE")


def check(connection: Connection, settings: Settings) -> list[Result]:
    """A problem where the server refuses one of the state's tables. Raises ServerError, StopError."""
    name = name_of(settings.name)
    if lacking := not_granted(connection, name, GRANTS):
        return [lacking]
    began = time.monotonic()
    there = settings.state.model_copy(update={"database": name})
    with explained(connection.name), scratch(connection, name, f"CREATE DATABASE {{}} {database.OPTIONS}"):
        try:
            database.upgrade(there)
        except DBAPIError as error:
            told = database.explain_state(error, settings.state)
            refusal = error.orig if error.orig is not None else error
            if passes(refusal) or number(refusal) in ACCESS_DENIED:
                raise told from error
            mend = told.hint or "change what the server names, or put the state on another server"
            return [Result("trial", connection.name, Verdict.PROBLEM, told.message, mend)]
    seconds = time.monotonic() - began
    told_so = f"{connection.name}: makes the state's tables as init would, tried in {seconds:.1f} s"
    return [Result("trial", connection.name, Verdict.PASS, told_so)]
