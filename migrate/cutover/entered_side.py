"""The side that is entered: applications must be able to write there once the switch says so.

The stream's own account writes all the same, so that nothing else would tell.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from migrate.cutover.left_server import LeftServer
from migrate.model.errors import PreflightError
from migrate.mysql.capabilities import Capability, can
from migrate.state import cutover
from migrate.state.switch import Side


def refuse_closed(
    state: sa.Engine, migration: str, side: Side, servers: Sequence[LeftServer], left: Sequence[LeftServer], stop: str
) -> None:
    """Raise PreflightError when a server that is entered is read-only, or would be; ServerError.

    side, servers: that is entered; what a cutover of ours has noted there is ended after the switch. left: the servers
    that are left; stop: how writes are stopped there (`cutover.stop`).
    """
    closes = {server.place: server.name for server in left} if stop == "read_only" else {}
    with state.connect() as connection:
        noted = {block.server: block.method for block in cutover.blocked(connection, migration, side)}
    for server in servers:
        if (same := closes.get(server.place)) is not None:
            raise PreflightError(
                f"{side} '{server.name}' is the same server as '{same}', which becomes read-only: nobody could write",
                hint="use cutover.stop: revoke, with the applications' accounts",
            )
        ours = noted.get(server.name) == "read_only" or "hook" in noted.values()
        if not ours and (name := _closed_by(server)):
            raise PreflightError(
                f"{side} '{server.name}' has {name} on: nobody could write there after the switch",
                hint="run SET GLOBAL read_only = 0 there, and remove it from the server's option file",
            )


def _closed_by(server: LeftServer) -> str:
    """The variable that keeps applications from writing; "" when none does."""
    names = ["super_read_only", "read_only"] if can(server.acts, Capability.SUPER_READ_ONLY) else ["read_only"]
    (values,) = server.query("SELECT " + ", ".join(f"@@GLOBAL.{name}" for name in names))
    return next((name for name, on in zip(names, values, strict=True) if str(on) not in ("0", "OFF")), "")
