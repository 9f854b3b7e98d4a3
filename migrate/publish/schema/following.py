"""A publisher's schema: put together from the history, the source, and the server that statements are tried on."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import sqlalchemy as sa
import structlog

from migrate.model.coordinate import Coordinate
from migrate.model.errors import Code, MigrateError, StopError
from migrate.model.table import Table
from migrate.mysql.catalog import collation_names, load_table, show_variables
from migrate.mysql.connection import Connection, connect
from migrate.mysql.definition import show_create_whole
from migrate.mysql.errors import explained
from migrate.publish.log import gtid as gtids
from migrate.publish.own_writes import OwnWrites
from migrate.publish.schema.definitions import COPY_AGAIN, Definitions, Selected, Versions, full
from migrate.publish.schema.schema import Dialect, Schema
from migrate.publish.schema.shadow import Shadow, Shape, utf8_of
from migrate.publish.schema.token_cursor import Name
from migrate.publish.state_writes import StateWrites
from migrate.settings import Settings, Source
from migrate.state import compared, ddl, ddl_member, foreign, leading, schema_history
from migrate.state import migration as migrations
from migrate.state.compared import Because
from migrate.state.ddl_member import GroupStatement
from migrate.state.foreign import ForeignWrite, Kind
from migrate.state.position import Position
from migrate.state.schema_history import ByTime
from migrate.target.roles import Role
from migrate.target.routing import PlannedTable

log = structlog.get_logger("migrate.publish")


def begin_incarnation(
    connection: sa.Connection,
    migration: str,
    position: Position,
    by_time: ByTime | None,
    *,
    back: bool,
    role: Role | None = None,
) -> None:
    """Note what columns each table has where an incarnation begins, and which role the side has.

    Args: how the place was found, if by time; back: whether what is behind it was published before; role: another one
    than was noted.
    Raises: StopError when rows would come again whose values have other names at the targets by now, or which the other
    side has written since.
    """
    at, server, executed = _place(position)
    behind = schema_history.carry_over(connection, migration, position.source, at, server, executed, by_time)
    if role is not None:
        version = schema_history.Version(None, since=at._replace(transaction=at.transaction - 1), role=role.value)
        schema_history.put(connection, migration, position.source, schema_history.SIDE, version, server)
    if not back:
        return
    holding = schema_history.in_force(connection, migration, position.source, at, server)
    _refuse_former(connection, migration, position, holding.get(schema_history.SIDE), behind, by_time is not None)
    for _, *name in schema_history.first(connection, migration):
        table = (name[0], name[1])
        begins = holding[table].table if table in holding else None
        if _renames(begins, [version for other, version in behind if other == table]):
            raise StopError(
                f"source '{position.source}' would be published again from {position.file}:{position.pos}, before a"
                f" statement that may have given columns of {full(table)} other names, which the targets have by now",
                hint=f"name a place after that statement; else {COPY_AGAIN}",
                code=Code.POSITION,
            )


def _refuse_former(
    connection: sa.Connection,
    migration: str,
    position: Position,
    begins: schema_history.Version | None,
    behind: Sequence[tuple[Name, schema_history.Version]],
    is_failover: bool,
) -> None:
    """Raise StopError when changes of an earlier time as the active side would come again: the stream from the other
    side has written to those rows since, and what it writes here is not published. Where nothing was noted yet
    applications wrote."""
    first = Role.STANDBY if migrations.reverse_of(connection, migration) else Role.ACTIVE
    roles = [(begins.role if begins is not None else "") or first]
    roles += [version.role for name, version in behind if name == schema_history.SIDE]
    if Role.STANDBY not in roles[roles.index(Role.ACTIVE) if Role.ACTIVE in roles else len(roles) :]:
        return
    since = active_again(connection, migration, position.source, position.server)
    place = "" if since is None else f", from {position.file.rpartition('.')[0]}.{since.file:06}:{since.transaction} on"
    hint = f"name a place after that switch{place}; earlier changes came to the targets before the switch"
    if is_failover:
        hint = "bring the old server back; or, where the clocks agree, lower failover.back_seconds"
    raise StopError(
        f"source '{position.source}' would be published again from {position.file}:{position.pos}, before applications"
        " left it and came back: these old rows would overwrite what they wrote at the other side",
        hint=hint,
        code=Code.POSITION,
    )


def active_again(connection: sa.Connection, migration: str, source: str, server: str) -> Coordinate | None:
    """Where applications came back to a source last; None where they never left it and came back, or its log was
    another server's."""
    found, away = None, False
    for role, since, wrote in schema_history.roles(connection, migration, source):
        if role == Role.ACTIVE and away:
            found = since if wrote == server else None
        away = role == Role.STANDBY or (away and role != Role.ACTIVE)
    return found


def _renames(begins: Table | None, behind: Sequence[schema_history.Version]) -> bool:
    """Whether a name may stand for other columns in turn: renamed ones, or one that was dropped and added again."""
    gone: set[str] = set()
    for version in behind:
        if version.table is not None and begins is not None:
            gone |= begins.by_name.keys() - version.table.by_name.keys()
            if gone & version.table.by_name.keys():
                return True
        begins = version.table or begins
    return any(version.renames for version in behind)


def _place(position: Position) -> tuple[Coordinate, str, Callable[[str], bool]]:
    """Of a position: its coordinate, the server that wrote its log, and which transactions stand before it."""
    at = position.coordinate
    # After a failover by GTID a statement that was noted just before it may stand ahead of us again.
    flavour = gtids.flavour_of(position.gtid_set)
    executed = gtids.parse(position.gtid_set, flavour).contains if flavour else lambda _gtid: True
    return at, position.server, executed


class History:
    """The schema history of one source, as the publisher that holds its lease reads and writes it."""

    def __init__(
        self,
        settings: Settings,
        source: Source,
        planned: Mapping[Name, PlannedTable],
        state: sa.Engine,
        writes: StateWrites,
    ) -> None:
        self._settings = settings
        self._source = source
        self._state = state
        self._writes = writes
        self._name = f"source '{source.name}'"
        with state.connect() as connection:
            forward = not migrations.reverse_of(connection, settings.name)
        self._selected = {name: _selected(one, forward=forward) for name, one in planned.items()}
        self._groups = {name: one.members for name, one in planned.items()}
        self._server = ""

    def schema(self, position: Position, charsets: dict[int, str], without: Collection[Name] = ()) -> Schema:
        """Definitions in force at a position; nothing of the tables `without`. Raises ServerError."""
        at, self._server, executed = _place(position)
        with self._state.connect() as state:
            found = schema_history.in_force(state, self._settings.name, self._source.name, at, self._server, executed)
            applied = ddl.applied(state, self._settings.name, self._source.name)
            applied |= ddl_member.places(state, self._settings.name, self._source.name)
        found.pop(schema_history.SIDE, None)
        connection = connect(self._source, self._name)
        try:
            with explained(self._name):
                dialect, collations = dialect_of(connection), collation_names(connection)
                utf8 = utf8_of(connection)
                versions = {
                    name: self._with_create(connection, name, version)
                    for name, version in found.items()
                    if name not in without
                }
        finally:
            connection.close()
        selected = {name: one for name, one in self._selected.items() if name not in without}
        known = Definitions(selected, versions, charsets, self._current, self._store, self._made, collations)
        known.applied, known.brought, known.joins = applied, self._brought, self._joins
        flavour = "mariadb" if dialect.mariadb else "mysql"
        shadow = Shadow(self._settings.state, self._settings.name, self._source.name, flavour, utf8)
        schema = Schema(known, dialect, shadow)
        if self._settings.publish.statements == "verify":
            schema.row_statements.passed = self._statement_passed
        return schema

    def _statement_passed(self, why: str) -> None:
        """Noted before anything behind the statement is published: what it changed only a verification finds."""
        name, source = self._settings.name, self._source.name
        self._writes.run(lambda state: compared.forget(state, name, Because.STATEMENT, source))
        log.warning("verify before a switch: a statement was logged instead of rows", source=source, reason=why)

    def side(self, position: Position) -> OwnWrites:
        """Whose transactions are dropped, and the role that the side has at a position; noted where none is yet."""
        at, self._server, executed = _place(position)
        name, source = self._settings.name, self._source.name
        with self._state.connect() as state:
            found = schema_history.in_force(state, name, source, at, self._server, executed).get(schema_history.SIDE)
            other = migrations.other_way(state, name)
            role = found.role if found is not None else ""
            if not role:
                role = (Role.ACTIVE if leading.leads(state, name) else Role.STANDBY).value
                self.note_role(role, at._replace(transaction=at.transaction - 1))
        databases = frozenset(database for database, _ in self._selected)
        return OwnWrites(frozenset({name, other}), other, role, databases)

    def note_role(self, role: str, since: Coordinate, gtid: str = "", at: int = 0) -> None:
        """Keep the role that the side has from a coordinate on, before anything behind it is published."""
        self._store({schema_history.SIDE: schema_history.Version(None, since=since, gtid=gtid, at=at, role=role)})

    def _with_create(
        self, connection: Connection, name: Name, version: schema_history.Version
    ) -> schema_history.Version:
        """With the CREATE TABLE that an init of an earlier version did not store, if the table is still the same."""
        if version.create or version.gone or version.unsure or name not in self._selected:
            return version
        shape = self._shape(connection, name)
        return replace(version, create=shape.create) if shape.table == version.table else version

    def _shape(self, connection: Connection, name: Name) -> Shape:
        try:
            table = load_table(connection, self._source.name, *name, self._selected[name].key)
        except MigrateError as error:
            return Shape("", None, error.message)
        return Shape(show_create_whole(connection, *name), table)

    def _current(self, name: Name) -> Shape:
        connection = connect(self._source, self._name)
        try:
            with explained(self._name):
                return self._shape(connection, name)
        finally:
            connection.close()

    def _made(self, name: Name) -> str:
        with self._state.connect() as state:
            return schema_history.first_created(state, self._settings.name, (self._source.name, *name))

    def _brought(self, sql: str, table: Name) -> bool:
        with self._state.connect() as state:
            names = (self._settings.name, migrations.other_way(state, self._settings.name))
            return any(ddl.brought(state, name, sql, table) for name in names)

    def _joins(self, table: Name, since: Coordinate, brings: str) -> int:
        statement = GroupStatement((self._source.name, *table), since, brings)
        name, group = self._settings.name, self._groups[table]
        return self._writes.run(lambda state: ddl_member.join(state, name, statement, group))

    def _store(self, versions: Versions) -> None:
        """A statement that changes columns gives values without events, which may be others at a target, and so may a
        table that takes another one's place: nothing counts as equal until a verification."""
        name, source = self._settings.name, self._source.name
        tables = {(source, *place): one.table for place, one in versions.items() if place != schema_history.SIDE}
        emptied = [
            ForeignWrite((source, *(version.holds or place)), None, Kind.FOREIGN, version.since)
            for place, version in versions.items()
            if version.emptied and version.since is not None
        ]

        def put(connection: sa.Connection) -> None:
            known = schema_history.latest(connection, name) if tables else {}  # a role is noted in a freeze
            altered = any(_columns(table) != _columns(known.get(id_, table)) for id_, table in tables.items())
            if altered or any(version.unequal or version.renames for version in versions.values()):
                named = ", ".join(sorted(".".join(place) for place in versions if place != schema_history.SIDE))
                compared.forget(connection, name, Because.ALTERED, named)
            if emptied:
                foreign.note(connection, name, emptied)
            for place, version in versions.items():
                schema_history.put(connection, name, source, place, version, self._server)

        self._writes.run(put)


def _columns(table: Table | None) -> object:
    return table and (table.columns, table.key)


def _selected(planned: PlannedTable, *, forward: bool = True) -> Selected:
    """forward: it is the stream from the sources, whose statements the targets can get."""
    policy = planned.ddl
    conditions = planned.rows.conditions if planned.rows is not None else ()
    needs = {*planned.routing, *(condition.column.name for condition in conditions)}
    rules = (planned.rule, *((planned.home.rule,) if planned.home is not None else ()))
    return Selected(
        policy.columns == "ignore",
        planned.table.key,
        frozenset(needs),
        rules,
        forward=forward,
        applies=forward and policy.columns == "apply",
        follows_standby=policy.columns in ("ignore", "apply"),
        renames=policy.rename == "ignore",
        empties=forward and policy.truncate == "apply",
        grouped=bool(planned.group),
    )


def dialect_of(connection: Connection) -> Dialect:
    found = show_variables(connection, "version", "lower_case_table_names")
    parts = re.match(r"(\d+)\.(\d+)\.(\d+)", found["version"])
    major, minor, patch = (int(part) for part in parts.groups()) if parts else (99, 99, 99)
    schemata = connection.query("SELECT SCHEMA_NAME, DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA")
    return Dialect(
        connection.flavour == "mariadb",
        major * 10000 + minor * 100 + patch,
        found.get("lower_case_table_names", "0") != "0",
        {str(name): str(collation) for name, collation in schemata},
    )
