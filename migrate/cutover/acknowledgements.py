"""That applications follow the switch (`cutover.stop: application`): each acknowledges a version once it goes by it."""

from __future__ import annotations

import sqlalchemy as sa

from migrate.cutover.left_server import settled
from migrate.model.errors import ServerError
from migrate.state import switch


def await_all(state: sa.Engine, migration: str, version: int, seconds: float) -> None:
    """Until every application has acknowledged a version. Raises ServerError after so many seconds."""
    late: list[str] = []

    def all_have() -> bool:
        with state.connect() as connection:
            late[:] = _late(connection, migration, version)
        return not late

    if not settled(all_have, seconds, 0.02):
        raise ServerError(
            f"did not acknowledge version {version} of the switch within {seconds:g} s: {', '.join(late)}",
            hint="`migrate switch --forget INSTANCE` for one that is gone",
        )


def refuse_late(connection: sa.Connection, migration: str) -> None:
    """In the switch's transaction: raise ServerError where an application goes by another version by now, as an
    instance that began meanwhile. Until the commit none does."""
    version = switch.get(connection, migration).version
    if late := _late(connection, migration, version, lock=True):
        raise ServerError(
            f"version {version} of the switch is not acknowledged any more by {', '.join(late)}",
            hint="an instance that began meanwhile may write: try again once it follows the switch",
        )


def _late(connection: sa.Connection, migration: str, version: int, *, lock: bool = False) -> list[str]:
    """Who has not acknowledged a version; that nobody is known is no proof that nobody writes."""
    known = switch.every_application(connection, migration, lock=lock)
    if not known:
        return ["any application"]
    return [f"{one.instance} (at version {one.version})" for one in known if one.version != version]
