"""Step 2 of a merge: the sources are asked for the keys on which no message has the last word."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import structlog

from migrate.merge import unread_rows
from migrate.merge.fold import Fold
from migrate.merge.group_conflicts import Asked, Doubt
from migrate.merge.shares import Answer, Folded, Refreshes, Resolved
from migrate.merge.table_versions import Layouts
from migrate.merge.target_sessions import TargetSessions
from migrate.model.change import Key
from migrate.model.table import TableId
from migrate.target import home, roles, write_context
from migrate.target.owners import RowsNotAsked
from migrate.target.pool import TargetPool
from migrate.target.refresh import SourceRows
from migrate.target.routing import Place, Plan, PlannedTable, TargetDatabase

log = structlog.get_logger("migrate.merge")


class Resolver:
    """For one thread."""

    def __init__(self, plan: Plan, layouts: Layouts, sources: SourceRows, targets: TargetSessions) -> None:
        self._plan = plan
        self._layouts = layouts
        self._sources = sources
        self._targets = targets
        self._versions: dict[TargetDatabase, int] = {}  # of roles, asked once a merge, before rows are read
        self._closed: dict[TargetDatabase, set[TableId]] = {}  # tables that no copy fills, asked once a merge

    def begin(self) -> None:
        """Another merge begins."""
        self._versions.clear()
        self._closed.clear()

    def resolve(self, folded: Folded, waits: Callable[[PlannedTable], bool]) -> Resolved:
        """waits: whether rows of a table are to be read once the share is written. Raises: as `read`."""
        late: Refreshes = {
            id_: (table, _everywhere(asked)) for id_, (table, asked) in folded.refreshes.items() if waits(table)
        }
        answers = [self.read(*one, folded.fold) for id_, one in folded.refreshes.items() if id_ not in late]
        # A change that takes a row away from a source is not written before it is known whether a lost one has the row.
        held = {id_: frozenset(asked) for id_, (_, asked) in late.items()} if self._sources.given_up else {}
        return Resolved(folded, answers, late, held)

    def ask_more(self, resolved: Resolved, found: RowsNotAsked, waits: Callable[[PlannedTable], bool]) -> Resolved:
        """Keys are read again, at further tables too: their rows at the target are of those. Where the table waits,
        once the share is written, as its other rows are: what is replaced may have children. Their changes are held
        back until then: written, they would hide from the next try that there is something to ask. Raises: as `read`.
        """
        planned, database = self._plan.group(found.group), found.database
        id_ = planned.noted_as.id
        newest = self._layouts.newest(planned)
        later = waits(newest)
        asked = dict(resolved.folded.refreshes.get(id_, (planned, {}))[1])
        for key, missing in found.keys.items():
            there = None if later else database
            places = None if there is None else frozenset(Place(there, name) for name in missing.places)
            doubt = Doubt(places, frozenset(missing.tables | missing.changed), missing.everywhere)
            asked[key] = asked[key].and_more(doubt) if key in asked else doubt
        refreshes = {**resolved.folded.refreshes, id_: (newest, asked)}
        late, held = resolved.late, resolved.held
        if later:
            late = {**late, id_: (newest, _everywhere(asked))}
            held = {**held, id_: held.get(id_, frozenset()) | found.keys.keys()}
        fold = resolved.folded.fold
        answers = [self.read(*one, fold) for name, one in refreshes.items() if name not in late]
        return Resolved(replace(resolved.folded, refreshes=refreshes), answers, late, held)

    def read(self, table: PlannedTable, asked: Asked, fold: Fold) -> Answer:
        """What the sources have of some keys now; fold: of the share that asks. Raises: StopError when they do not
        tell."""
        answer = self._read(table, asked)
        if lost := self._sources.given_up:
            return unread_rows.settled(answer, self._plan.members(table), fold, lost)
        return answer

    def _read(self, table: PlannedTable, asked: Asked) -> Answer:
        keys = [*asked]
        for database in table.databases:
            if database not in self._versions:
                self._versions[database] = self._version(database)
        log.info("refreshed", table=table.group or table.table.full_name, keys=len(keys))
        if table.group:
            wanted = self._tables(table, asked)
            members = [
                self._layouts.newest(one)
                for one in self._plan.members(table)
                if any(at is None or one.table.id in at for at in wanted.values())
            ]
            self._layouts.refuse_unread(members)  # before they are read
            found = self._sources.read_group(members, wanted)
            return Answer(table, asked, found, dict(self._versions), wanted)
        rows = self._sources.read(table, keys)
        found = {key: [] if row is None else [(table, row)] for key, row in rows.items()}
        return Answer(table, asked, found, dict(self._versions))

    def _tables(self, table: PlannedTable, asked: Asked) -> dict[Key, frozenset[TableId] | None]:
        """Where each key of a group is asked for; None: at all of its tables.

        While a copy is open a delete leaves an entry in the ledger that speaks for every table: so each is asked, where
        the key alone does not tell which.
        """
        at_home, members = table.home, {one.table.id for one in self._plan.members(table)}
        if at_home is None:
            return dict.fromkeys(asked)
        is_open = not table.key_tells_home and any(
            not members <= self._closed_in(database) for database in table.databases
        )
        return {
            key: None if doubt.everywhere or is_open else home.asked(at_home, table.table, key, doubt.tables)
            for key, doubt in asked.items()
        }

    def _closed_in(self, database: TargetDatabase) -> set[TableId]:
        if database not in self._closed:

            def ask(pool: TargetPool) -> set[TableId]:
                name = self._plan.settings.name
                return self._targets.look(pool, database, lambda: write_context.read(pool.get(database), name).closed)

            self._closed[database] = self._targets.lanes[database.target].submit(ask).result()
        return self._closed[database]

    def _version(self, database: TargetDatabase) -> int:
        """Of the role of a database: a row that is read now must not be written behind a switch and its rollback."""

        def ask(pool: TargetPool) -> int:
            name = self._plan.settings.name
            return self._targets.look(pool, database, lambda: roles.version(pool.get(database), name))

        return self._targets.lanes[database.target].submit(ask).result()


def _everywhere(asked: Asked) -> dict[Key, Doubt]:
    """The same keys, asked for at every table that may have them."""
    return {key: replace(doubt, everywhere=True) for key, doubt in asked.items()}
