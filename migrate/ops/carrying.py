"""`migrate foreign carry`: rows of the standby side are written at the active one, as somebody saw them there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing

import sqlalchemy as sa

from migrate.merge.planner import Owned, Planner, Share
from migrate.model.change import Key
from migrate.model.errors import PreflightError, StopError
from migrate.model.partition import Partition
from migrate.model.table import TableId
from migrate.mysql.connection import Connection
from migrate.mysql.errors import explained
from migrate.scroll.lookup import Seen, lock_digest, look_up
from migrate.scroll.sessions import Sessions
from migrate.settings import Settings
from migrate.state import leading
from migrate.state.record import Consumed
from migrate.target import roles
from migrate.target.part import Part, Work
from migrate.target.place import Aftermath, PlaceStep
from migrate.target.plan import Place, Plan, PlannedTable, TargetDatabase
from migrate.target.reached import Claim
from migrate.target.refresh import SourceRows
from migrate.target.roles import Role

Wanted = Iterable[tuple[PlannedTable, Sequence[Key]]]


class Carrier:
    """Writes rows of a stream's source, which is standby, at its targets. For one thread; close it."""

    def __init__(self, settings: Settings, plan: Plan, state: sa.Engine) -> None:
        """settings, plan: of the stream that does not lead."""
        self._settings = settings
        self._plan = plan
        self._state = state
        self._sessions = Sessions(settings)
        self._seen: dict[TableId, dict[Key, Seen]] = {}

    def close(self) -> None:
        self._sessions.close()

    def look(self, wanted: Wanted) -> None:
        """What both sides have in these rows: `carry` writes nothing else, and over nothing else."""
        with explained("a look at the rows to be carried"):
            for planned, keys in wanted:
                self._seen[planned.table.id] = look_up(self._sessions, tuple(self._plan.members(planned)), keys)

    def carry(self, wanted: Wanted) -> None:
        """Write them, a table at a time: all of its rows or none.

        Raises: PreflightError where either side has other rows by now, or in a cutover; StopError, ServerError.
        """
        name = self._settings.name
        with self._state.begin() as connection:  # no cutover begins meanwhile
            leading.hold(connection, name)
            leading.refuse_in_cutover(connection, name)
            version = leading.version(connection, name)
            for planned, keys in wanted:
                parts = self._parts(planned, keys)
                for database in parts:
                    roles.set_right(connection, self._sessions.targets.get(database), name)
                self._write(planned, parts, version)

    def _parts(self, planned: PlannedTable, keys: Sequence[Key]) -> dict[TargetDatabase, Part]:
        """What there is to write in each database."""
        planner, nobody = Planner(self._plan), Partition(self._settings.name, "", 0)
        share = Share(Owned(Claim(nobody, 0, ""), {}), {}, Consumed(nobody, 0, {}, 0, 0, 0, 0), {})
        with closing(SourceRows(self._settings)) as rows:
            if planned.group:
                found = rows.read_group([*self._plan.members(planned)], keys)
                planner.add_found(share, planned, found, dict.fromkeys(keys))
            else:
                planner.add_refreshed(share, planned, rows.read(planned, keys))
        return share.parts

    def _write(self, planned: PlannedTable, parts: dict[TargetDatabase, Part], version: int) -> None:
        """In one transaction for each database, of which none ends before all are known to be right: a row that moves
        is in one of them before, and in another one behind it."""
        with ExitStack() as open_:
            works: list[tuple[Connection, TargetDatabase, Work]] = []
            for database, part in parts.items():
                connection = self._sessions.targets.get(database)
                open_.enter_context(explained(connection.name))
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")  # locks gaps where rows are not
                open_.enter_context(connection.transaction())
                self._refuse_other_role(connection, version)
                works += [(connection, database, work) for work in part.work]
            for connection, database, work in works:
                self._refuse_other_rows(connection, planned, database, work)
            for connection, _, work in works:
                self._refresh(connection, work)
            for connection, database, work in works:
                self._refuse_other_rows(connection, planned, database, work, written=True)

    def _refuse_other_role(self, connection: Connection, version: int) -> None:
        held = roles.read(connection, self._settings.name)
        if held.role is not Role.ACTIVE or held.version != version:
            raise PreflightError(
                f"{connection.name} is {held.role}: nothing is carried there", hint="see `migrate status`"
            )

    def _refuse_other_rows(
        self,
        connection: Connection,
        planned: PlannedTable,
        database: TargetDatabase,
        work: Work,
        *,
        written: bool = False,
    ) -> None:
        """Lock the rows, and raise PreflightError where they are not what was seen: at this side before they are
        written, and then at the other one, from which they are by now."""
        mixed = self._sessions.mixed(tuple(self._plan.members(planned)))
        place = planned.places.index(Place(database, work.writer.name))
        for intent in work.refreshed:
            seen = self._seen[planned.table.id][intent.key]
            expected = dict([seen.source] if seen.source is not None else []) if written else seen.targets
            if lock_digest(connection, planned, place, intent.key, mixed) != expected.get(place):
                side = "standby" if written else "active"
                raise PreflightError(
                    f"a row of {planned.table.full_name} was changed at the {side} side meanwhile",
                    hint="nothing of the table was written; `migrate foreign compare`, and again",
                )

    def _refresh(self, connection: Connection, work: Work) -> None:
        left = Aftermath()
        PlaceStep(connection, self._settings.name, work.writer, False, False, False, lambda _: left).refresh(
            work.refreshed
        )
        if left:
            raise StopError(
                f"a row of {work.writer.table.full_name} would take the values of a unique key from another row",
                hint="change that row at the active side first, or `migrate foreign discard`",
            )
