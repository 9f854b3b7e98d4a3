"""`migrate foreign carry`: rows of the standby side are written at the active one, as somebody saw them there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any

import sqlalchemy as sa
import structlog

from migrate.chunks.sessions import Sessions
from migrate.commands.foreign_carry_refusals import Child, TakenAlong, changed, partly_committed, refused, taken_along
from migrate.commands.foreign_children import Children
from migrate.model.change import Key
from migrate.model.errors import Code, MigrateError, PreflightError, StopError
from migrate.model.message import Row
from migrate.model.table import TableId
from migrate.mysql.connection import Connection
from migrate.mysql.errors import explained
from migrate.mysql.keys import among
from migrate.mysql.quoting import quote, quote_all
from migrate.mysql.quoting import table as quoted
from migrate.mysql.referring import ForeignKey, referring
from migrate.settings import Settings
from migrate.state import leading
from migrate.state.schema_history_reader import HistoryReader
from migrate.target import home, roles
from migrate.target.equal_keys import EqualKeys
from migrate.target.pool import connect_database
from migrate.target.refresh import SourceRows
from migrate.target.roles import Role
from migrate.target.routing import Place, Plan, PlannedTable, TargetDatabase
from migrate.target.rows import PlaceWriter
from migrate.verify.lookup import Seen, lock_digest, look_up

log = structlog.get_logger("migrate.foreign")
Wanted = Sequence[tuple[PlannedTable, Key]]
_Written = tuple[PlannedTable, Key, Sequence[int]]
"""A row, and the places where it is to be, by their indexes."""
_AS_APPLICATIONS = "SET SESSION foreign_key_checks = 1, innodb_lock_wait_timeout = 5, wait_timeout = 3600"
"""Their foreign keys hold for this row too; and nobody waits long behind it."""


class Carrier:
    """Writes rows of a stream's source, which is standby, at its targets. For one thread; close it.

    Rows are written in the order in which they were changed, each in its place and committed; then they are deleted
    where they were, in the opposite order: whatever ends in between leaves two of a row, which every comparison names.
    """

    def __init__(self, settings: Settings, plan: Plan, state: sa.Engine) -> None:
        """settings, plan: of the stream that does not lead."""
        self._settings = settings
        self._plan = plan
        self._state = state
        self._sessions = Sessions(settings)
        self._rows = SourceRows(settings)
        self._alike = EqualKeys(lambda: settings)
        self._open: dict[TargetDatabase, Connection] = {}
        self._seen: dict[tuple[TableId, Key], Seen] = {}
        self._keys: dict[Place, list[ForeignKey]] = {}

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1].close()
        self._rows.close()
        self._sessions.close()

    def look(self, wanted: Wanted) -> None:
        """What both sides have in these rows: `carry` writes nothing else, and over nothing else."""
        for planned in {planned.table.id: planned for planned, _ in wanted}.values():
            keys = [key for one, key in wanted if one.table.id == planned.table.id]
            self._seen |= {(planned.table.id, key): seen for key, seen in self._look(planned, keys).items()}

    def _look(self, planned: PlannedTable, keys: Sequence[Key]) -> dict[Key, Seen]:
        with explained("a look at the rows to be carried"):
            return look_up(self._sessions, tuple(self._plan.members(planned)), keys)

    def carry(self, wanted: Wanted) -> None:
        """Write them, one after the other; wanted: a row of a group once.

        Raises: PreflightError where either side has another row by now, or in a cutover; StopError, ServerError.
        """
        name = self._settings.name
        with self._state.begin() as connection:  # no cutover begins meanwhile
            leading.hold(connection, name)
            leading.refuse_in_cutover(connection, name)
            version = leading.version(connection, name)
            for database in {used for planned, _ in wanted for used in planned.databases}:
                with explained(database.target):
                    roles.set_right(connection, self._session(database), name, (database.target, database.database))
            self._refuse_left_behind(wanted, connection)
            written: list[_Written] = []
            failed: list[MigrateError] = []
            try:
                for planned, key in wanted:
                    leading.hold(connection, name)  # it is ended where it says nothing for long, and its lock with it
                    written.append((planned, key, self._write(planned, key, version)))
            except MigrateError as error:
                failed.append(error)
            finally:
                failed += self._leave_all(list(reversed(written)), version, connection)
            if failed:
                raise failed[0]

    def _refuse_left_behind(self, wanted: Wanted, connection: sa.Connection) -> None:
        """Before anything is written. Raises StopError, ServerError."""
        keys = HistoryReader(lambda action: action(connection), self._settings.name).foreign_keys()
        children = Children(self._plan, keys, self._session)
        carried = {(one.table.id, key) for planned, key in wanted for one in self._plan.members(planned)}
        for planned, key in wanted:
            children.refuse_left_behind(planned, key, self._row(planned, key)[1], carried)

    def _leave_all(self, written: Sequence[_Written], version: int, connection: sa.Connection) -> list[MigrateError]:
        """Delete rows where they are not to be; those that others refer to once more when these have left."""
        waiting, failed = list(written), list[MigrateError]()
        while True:
            kept: list[tuple[_Written, MigrateError]] = []
            for one in waiting:
                with suppress(sa.exc.SQLAlchemyError):  # rows leave all the same; the commit tells of it
                    leading.hold(connection, self._settings.name)
                try:
                    self._leave(*one, version)
                except TakenAlong as error:
                    kept.append((one, error))
                except MigrateError as error:  # the others are to leave all the same
                    failed.append(_stays(one[0], error))
            if not kept or len(kept) == len(waiting):
                return [*failed, *(_stays(one[0], error) for one, error in kept)]
            waiting = [one for one, _ in kept]

    def _write(self, planned: PlannedTable, key: Key, version: int) -> Sequence[int]:
        """Write a row in its places, which are returned; none where it is to be in none."""
        seen, now = self._seen[planned.table.id, key], self._look(planned, [key])[key]
        holder, row = self._row(planned, key)
        homes = [] if row is None else [planned.places.index(one) for one in holder.places_of(row)]
        if now.source != seen.source or homes[:1] != ([] if seen.source is None else [seen.source[0]]):
            raise changed(planned, "standby")
        if now.targets != seen.targets:
            raise changed(planned, "active")
        if row is not None and seen.source is not None and homes:
            had = {home: seen.targets.get(home) for home in homes}
            acting = {home: self._keys_on(holder.places[home]) if had[home] is not None else [] for home in homes}
            with self._writing(holder, key, had, version) as opened:
                for home, connection in opened.items():
                    with refused(connection, holder):
                        on_update = [one for one in acting[home] if one.on_update]
                        self._write_at(connection, holder, key, row, home, seen, on_update)
        return homes

    def _write_at(
        self,
        connection: Connection,
        holder: PlannedTable,
        key: Key,
        row: Row,
        home: int,
        seen: Seen,
        acting: Sequence[ForeignKey],
    ) -> None:
        place = holder.places[home]
        children = self._children(connection, holder, place, key, acting)
        self._put(connection, holder, place, row, is_there=home in seen.targets)
        for child in children:
            if self._values(connection, holder, place, key, child.referenced) != child.values:
                raise taken_along(holder, child, "is to change")  # and nothing is committed
        if seen.source is not None and self._digest(connection, holder, home, key) != seen.source[1]:
            raise changed(holder, "standby")

    def _leave(self, planned: PlannedTable, key: Key, homes: Sequence[int], version: int) -> None:
        """Delete a row where it was, and is not to be: of a broadcast table at every node at once."""
        left = {index: had for index, had in self._seen[planned.table.id, key].targets.items() if index not in homes}
        together = [left] if planned.broadcast else [{index: had} for index, had in left.items()]
        for some in filter(None, together):
            acting = {index: self._keys_on(planned.places[index]) for index in some}
            with self._writing(planned, key, some, version) as opened:
                for index, connection in opened.items():
                    place, on_delete = planned.places[index], [one for one in acting[index] if one.on_delete]
                    with refused(connection, planned):
                        for child in self._children(connection, planned, place, key, on_delete):
                            raise taken_along(planned, child, "is to leave that database")
                        self._writer(planned, place).delete(connection, [key])

    def _keys_on(self, place: Place) -> list[ForeignKey]:
        """Foreign keys that change rows with one of a place; asked once, and in no transaction, as it may take long."""
        if place not in self._keys:
            self._keys[place] = referring(self._session(place.database), place.database.database, place.table)
        return self._keys[place]

    def _children(
        self, connection: Connection, planned: PlannedTable, place: Place, key: Key, acting: Sequence[ForeignKey]
    ) -> list[Child]:
        """Rows that there are of the row in a place. acting: those of `_keys_on` that the write sets off."""
        found = []
        where, arguments = among(planned.table, [key])
        for one in acting:
            theirs = quote_all(one.referenced)
            parent = f"SELECT {theirs} FROM {quote(place.table)} WHERE {where}"
            mine = f"SELECT 1 FROM {quoted(*one.child)} WHERE ({quote_all(one.columns)}) IN ({parent}) LIMIT 1"
            if connection.query(mine, arguments):
                values = self._values(connection, planned, place, key, theirs)
                found.append(Child(".".join(one.child), one.name, theirs, values))
        return found

    def _values(
        self, connection: Connection, planned: PlannedTable, place: Place, key: Key, columns: str
    ) -> tuple[Any, ...] | None:
        where, arguments = among(planned.table, [key])
        return connection.one(f"SELECT {columns} FROM {quote(place.table)} WHERE {where}", arguments)

    def _row(self, planned: PlannedTable, key: Key) -> tuple[PlannedTable, Row | None]:
        """The row as the standby side has it, and the table that has it. Raises StopError."""
        if not planned.group:
            return planned, self._rows.read(planned, [key])[key]
        at = home.asked(planned.home, planned.table, key, ())
        held = self._rows.read_group([*self._plan.members(planned)], {key: at})[key]
        if len(held) > 1:
            raise StopError(
                f"a row of {planned.table.full_name} is in several tables of group '{planned.group}'",
                hint="delete it where it does not belong, then try again",
                code=Code.KEY,
            )
        return held[0] if held else (planned, None)

    def _session(self, database: TargetDatabase) -> Connection:
        """Those of a pool are a server's, and take a database after the other."""
        if database not in self._open:
            connection = self._open[database] = connect_database(self._settings, database)
            connection.execute(_AS_APPLICATIONS)
        return self._open[database]

    @contextmanager
    def _writing(
        self, planned: PlannedTable, key: Key, had: Mapping[int, str | None], version: int
    ) -> Iterator[dict[int, Connection]]:
        """A transaction in the database of each of these places, of which no two are in one. They are committed one
        after the other when all is written, so that a place that refuses its row leaves none written.

        had: by place, its digest there. Raises ServerError where a commit fails and others are done.
        """
        committed: list[int] = []
        try:
            with ExitStack() as transactions:
                opened: dict[int, Connection] = {}
                for index in reversed([*had]):  # the first is committed first
                    transactions.push(partial(_note_committed, committed, index))
                    one = self._transaction(planned, index, key, had[index], version)
                    opened[index] = transactions.enter_context(one)
                yield {index: opened[index] for index in had}
        except MigrateError as error:
            if not committed:
                raise
            raise partly_committed(error, planned, committed, had) from error

    @contextmanager
    def _transaction(
        self, planned: PlannedTable, index: int, key: Key, had: str | None, version: int
    ) -> Iterator[Connection]:
        """A transaction in a place's database, in which the row there is locked, and is the one that was seen."""
        place = planned.places[index]
        connection = self._session(place.database)
        with explained(connection.name):
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")  # locks the gap where no row is
            with connection.transaction():
                held = roles.read(connection, self._settings.name)
                if held.role is not Role.ACTIVE or held.version > version:
                    raise PreflightError(
                        f"{connection.name} is {held.role}: nothing is carried there", hint="see `migrate status`"
                    )
                self._writer(planned, place).present(connection, [key])  # refuses the row of another key
                if self._digest(connection, planned, index, key) != had:
                    raise changed(planned, "active")
                yield connection

    def _digest(self, connection: Connection, planned: PlannedTable, place: int, key: Key) -> str | None:
        mixed = self._sessions.mixed(tuple(self._plan.members(planned)))
        return lock_digest(connection, planned, place, key, mixed)

    def _writer(self, planned: PlannedTable, place: Place) -> PlaceWriter:
        return PlaceWriter(planned.table, place.table, alike=self._alike)

    def _put(self, connection: Connection, holder: PlannedTable, place: Place, row: Row, *, is_there: bool) -> None:
        """As one statement: a row that is deleted and inserted would take what refers to it along."""
        writer = self._writer(holder, place)
        if is_there:
            writer.change(connection, row)
        else:
            writer.insert(connection, [row])


def _note_committed(committed: list[int], index: int, error: type[BaseException] | None, *_: object) -> None:
    """For an ExitStack, beneath a transaction."""
    if error is None:
        committed.append(index)


def _stays(planned: PlannedTable, error: MigrateError) -> MigrateError:
    log.warning(
        "a row that moved is still at its earlier place at the active side",
        table=planned.table.full_name,
        reason=error.message,
    )
    return error
