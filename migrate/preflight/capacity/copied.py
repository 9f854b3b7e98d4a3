"""Tables whose rows are at the targets already: no time and no space is needed for them any more."""

from __future__ import annotations

from sqlalchemy.exc import DBAPIError

from migrate.model.errors import MigrateError
from migrate.model.table import TableId
from migrate.settings import Settings
from migrate.state import database, phase


def tables(settings: Settings) -> frozenset[TableId]:
    """Those whose full copy is done; none where that cannot be seen, which the check of the state server tells."""
    state = database.engine(settings.state, pool=1)
    try:
        with state.connect() as connection:
            found = phase.every(connection, settings.name)
    except (DBAPIError, MigrateError):
        return frozenset()
    finally:
        state.dispose()
    return frozenset(id_ for id_, reached in found.items() if reached is phase.Phase.COPIED)
