"""Which server a session is with: an address leads to another one after a failover."""

from __future__ import annotations

from typing import TYPE_CHECKING

from migrate.model.errors import ServerError

if TYPE_CHECKING:
    from migrate.mysql.connection import Connection


def server_of(connection: Connection) -> str:
    """Who it is in one text, as a stored position names its server; also of a session whose answers are raw bytes."""
    rows = connection.query("SHOW GLOBAL VARIABLES WHERE Variable_name IN ('server_id', 'server_uuid')")
    texts = ([one.decode() if isinstance(one, bytes) else str(one) for one in row] for row in rows)
    found = {name.lower(): value for name, value in texts}
    return f"{found['server_id']}/{found.get('server_uuid', '')}"


def refuse_another(connection: Connection, wanted: str) -> None:
    """Raise ServerError where a source's address leads to another server than its publisher reads.

    That one may have less than was published of the source: what it gives is older than what the targets have, and no
    message would correct it (invariant capture-before-copy). wanted: as `server_of` gives it.
    """
    if (found := server_of(connection)) != wanted:
        raise ServerError(
            f"{connection.name}: this is not the server that the publisher reads: server_id/UUID {found}, not {wanted}",
            hint="it is tried again by itself until the publisher reads this server: check that `migrate publish` or"
            " `migrate run` runs",
        )
