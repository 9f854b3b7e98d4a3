"""Target tables that are not as their source tables are by now, whoever altered which of them.

What the columns are is not in the rows that are compared: an ENUM's number is the same under other labels, and a key
that takes `A` for `a` shows nothing until both are there.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import closing
from functools import partial

from migrate.model.errors import PreflightError, StopError
from migrate.model.table import Table, TableId
from migrate.mysql.catalog import CatalogTables, load_table
from migrate.mysql.connection import Connection, connect
from migrate.mysql.definition import show_create
from migrate.mysql.errors import explained
from migrate.mysql.flavours import MARIADB, MYSQL
from migrate.settings import Settings
from migrate.target.place_definition import refuse_unlike
from migrate.target.pool import TargetPool
from migrate.target.routing import Place, PlannedTable, TargetDatabase

MEND = "alter it to match (docs/operations.md#altering-a-table), `migrate drain`, and `migrate verify` once more"
Unlike = dict[TableId, list[str]]
"""By source table, a line for each of its places that is not as the table is, with the way out."""


def unlike_places(
    settings: Settings, pool: TargetPool, tables: Sequence[PlannedTable], without: Collection[str] = ()
) -> Unlike:
    """The places that `migrate init` would not take for their tables, which have the newest columns that are noted.

    settings: with each source where its publisher reads it; without: sources that are gone, and not asked about.
    Each target database is looked at as a whole, a source only where a place seems to be unlike. Raises ServerError,
    the driver's error.
    """
    wanted: dict[TargetDatabase, list[tuple[PlannedTable, Place]]] = {}
    for planned in tables:
        for place in planned.places:
            wanted.setdefault(place.database, []).append((planned, place))
    found: Unlike = {}
    with closing(_Sources(settings, without)) as sources:
        for database, pairs in wanted.items():
            with explained(f"target '{database.target}', database {database.database}"):
                names = dict.fromkeys(place.table for _, place in pairs)
                described = CatalogTables.read(pool.get(database), database.database, [*names])
                for planned, place in pairs:
                    if told := _why(described, planned.table, place, sources):
                        found.setdefault(planned.table.id, []).append(told)
    return found


def _why(described: CatalogTables, table: Table, place: Place, sources: _Sources) -> str:
    """ "" for a place that is as its table is.

    What is noted of a table that was altered has the words of the state's server for its types, which another version
    has other ones for: what the source says is what counts.
    """
    told = _refused(described, table, place, sources)
    if told and (now := sources.now(table)) is not None and now != table:
        told = _refused(described, now, place, sources)
    return told


def _refused(described: CatalogTables, table: Table, place: Place, sources: _Sources) -> str:
    told = ""
    for flavour in sources.flavours(table.source):
        try:
            refuse_unlike(described, table, place, flavour, MEND, partial(sources.definition, table))
        except (PreflightError, StopError) as error:
            told = told or f"{error.message}; {error.hint}"
        else:
            return ""
    return told


class _Sources:
    """One session for each source that is there."""

    def __init__(self, settings: Settings, without: Collection[str]) -> None:
        self._settings = settings
        self._without = without
        self._open: dict[str, Connection] = {}
        self._now: dict[TableId, Table | None] = {}

    def flavours(self, source: str) -> Sequence[str]:
        """What the server is; any, where it is gone."""
        connection = self._connection(source)
        return (MYSQL, MARIADB) if connection is None else (connection.flavour,)

    def now(self, table: Table) -> Table | None:
        """The table as its source has it; None where it is not to be had."""
        connection = self._connection(table.source)
        if connection is not None and table.id not in self._now:
            try:
                with explained(connection.name):
                    self._now[table.id] = load_table(connection, *table.id, table.key)
            except (PreflightError, StopError):
                self._now[table.id] = None
        return self._now.get(table.id)

    def definition(self, table: Table) -> str:
        """As its source prints it now; "" where it is not to be had."""
        if (connection := self._connection(table.source)) is None or self.now(table) is None:
            return ""
        with explained(connection.name):
            return show_create(connection, table.database, table.name)

    def close(self) -> None:
        for connection in self._open.values():
            connection.close()

    def _connection(self, source: str) -> Connection | None:
        if source in self._without:
            return None
        if source not in self._open:
            self._open[source] = connect(self._settings.source(source), f"source '{source}'")
        return self._open[source]
