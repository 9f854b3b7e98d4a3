"""`read_only` at a server that is left."""

from __future__ import annotations

from contextlib import closing

from migrate.cutover.left_server import LeftServer
from migrate.model.errors import PreflightError, ServerError
from migrate.mysql import grants
from migrate.mysql.catalog import place
from migrate.mysql.connection import connect
from migrate.mysql.errors import explained, number
from migrate.mysql.grants import WRITES_WHEN_READ_ONLY
from migrate.preflight.server.grants import OTHER_STOPS
from migrate.settings import State

_REFUSED = frozenset({1227, 1238, 1290})  # a privilege is missing; the variable, or the server's options, forbid it
CLOSE = "SET GLOBAL read_only = 1"
OPEN = "SET GLOBAL read_only = 0"


def probe(server: LeftServer) -> None:
    """Setting it to what it is needs the same grant, and changes nothing, in one statement: another migration may close
    or open the server meanwhile. Raises ServerError."""
    try:
        server.execute("SET GLOBAL read_only = @@GLOBAL.read_only")
    except ServerError as error:
        if number(error.__cause__ or error) not in _REFUSED:
            raise
        raise PreflightError(f"{error.message}: writes cannot be stopped by read_only", hint=OTHER_STOPS) from error


def is_on(server: LeftServer) -> bool:
    """Raises ServerError."""
    ((on,),) = server.query("SELECT @@GLOBAL.read_only")
    return str(on) not in ("0", "OFF")


def refuse_closed_state(server: LeftServer, reached: State) -> None:
    """Raise PreflightError when the state could not be written once its server is read-only; ServerError."""
    name = WRITES_WHEN_READ_ONLY[server.acts.flavour]
    with closing(connect(reached, "state server")) as state, explained("state server"):
        if place(state) != place(server.acts) or not (held := grants.read(state)).lacking_everywhere([name]):
            return
    raise PreflightError(
        f"the state database is at '{server.name}', and its account could not write there once that is read-only",
        hint=f"GRANT {name} ON *.* TO {held.account}; or cutover.stop: revoke",
    )
