"""A source whose log is read with a schema that follows its statements, and restarts anywhere in it."""

from __future__ import annotations

from dataclasses import dataclass, field

from decode_support import position
from pydantic import SecretStr

from migrate.model.coordinate import Coordinate, file_number
from migrate.model.errors import StopError
from migrate.model.table import Table
from migrate.mysql.catalog import collation_charsets, collation_names, load_table
from migrate.mysql.connection import connect
from migrate.mysql.definition import show_create_whole
from migrate.publish.decode.rows import RowEvent
from migrate.publish.emit import Transaction
from migrate.publish.log.binlog import BinlogReader
from migrate.publish.own_writes import OwnWrites
from migrate.publish.reader import TransactionReader
from migrate.publish.schema.definitions import Definitions, Selected, Versions
from migrate.publish.schema.following import dialect_of
from migrate.publish.schema.schema import Schema
from migrate.publish.schema.shadow import Shadow, Shape, utf8_of
from migrate.publish.schema.token_cursor import Name
from migrate.settings import Source, State
from migrate.state.schema_history import Version
from sandbox.database import DatabaseServer

Place = tuple[str, int]


@dataclass
class Seen:
    """A sink that keeps the rows by column name."""

    rows_: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    at: Place = ("", 0)
    roles: list[tuple[str, Coordinate]] = field(default_factory=list)

    def begin(self, *, whole: bool) -> None: ...

    def savepoint(self, name: str) -> None: ...

    def rolled_back(self, name: str) -> bool:
        return False

    def rows(self, table: Table, _transaction: Transaction, _event: int, rows: RowEvent) -> None:
        names = [column.name for column in table.columns]
        for before, after in rows:
            image = after if after is not None else before
            assert image is not None
            self.rows_.append((table.name, dict(zip(names, image, strict=True))))

    def role(self, role: str, since: Coordinate, gtid: str, at: int) -> None:
        self.roles.append((role, since))

    def boundary(self, file: str, pos: int, _event_time: int, _gtid: str | None) -> bool:
        self.at = (file, pos)
        return True


class Followed:
    """Tables of one database, selected; `follow`: with `ddl: {columns: ignore, rename: ignore}`."""

    def __init__(
        self, server: DatabaseServer, state: DatabaseServer, database: str, *tables: str, follow: bool = True
    ) -> None:
        self.server = server
        self.database = database
        self.source = Source(
            name="main",
            host=server.host,
            port=server.port,
            user=server.user,
            password=SecretStr(server.password),
            server_id=4712,
        )
        self.state = State(
            host=state.host, port=state.port, user=state.user, password=SecretStr(state.password), database=database
        )
        state.execute(f"CREATE DATABASE IF NOT EXISTS {self.state.shadow}")
        self.selected = {(database, table): Selected(follow, ("id",), renames=follow) for table in tables}
        self.stored: list[Versions] = []
        self.applied: frozenset[Coordinate] = frozenset()
        self.connection = connect(self.source, "source 'main'")
        self.charsets = collation_charsets(self.connection)
        self.dialect = dialect_of(self.connection)
        self.first = {name: self._version(name) for name in self.selected}

    def _version(self, name: Name) -> Version:
        shape = self._shape(name)
        return Version(shape.table, shape.create)

    def _shape(self, name: Name) -> Shape:
        return Shape(
            show_create_whole(self.connection, *name),
            load_table(self.connection, "main", *name, self.selected[name].key),
        )

    def sql(self, *statements: str) -> None:
        self.server.execute(*statements, database=self.database)

    @property
    def here(self) -> Place:
        return position(self.server)

    def in_force(self, place: Place) -> Versions:
        """What was stored for coordinates before a place."""
        found = dict(self.first)
        for versions in self.stored:
            at = (file_number(place[0]), place[1])
            found |= {name: one for name, one in versions.items() if one.since is None or one.since[1:3] < at}
        return found

    def schema(self, place: Place) -> Schema:
        known = Definitions(
            self.selected,
            self.in_force(place),
            self.charsets,
            self._shape,
            self.stored.append,
            collations=collation_names(self.connection),
        )
        known.applied = self.applied
        shadow = Shadow(self.state, "m", "main", self.connection.flavour, utf8_of(self.connection))
        return Schema(known, self.dialect, shadow)

    def read(self, start: Place, until: Place | None = None) -> Seen:
        """Read from a place to another one, or to the log's end, as a publisher that starts there."""
        end = until or self.here
        seen = Seen(at=start)
        reader = TransactionReader(
            "main",
            1,
            start[0],
            self.schema(start),
            self.charsets,
            seen,
            OwnWrites(frozenset(), "", "active", frozenset()),
            mariadb=self.dialect.mariadb,
        )
        binlog = BinlogReader(self.source, 4712, 1.0, *start)
        binlog.open()
        try:
            for event in binlog.events():
                reader.follow([event])
                if seen.at >= end:
                    return seen
        finally:
            binlog.close()
        raise AssertionError("the log ended early")

    def stopped(self, start: Place) -> StopError:
        try:
            seen = self.read(start)
        except StopError as error:
            return error
        raise AssertionError(f"it went on: {seen.rows_}")

    def columns(self, table: str) -> list[str]:
        """As the source has them now."""
        rows = self.server.query(
            "SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
            " ORDER BY ORDINAL_POSITION",
            (self.database, table),
        )
        return [str(row[0]) for row in rows]

    def catalog(self, table: str) -> Table:
        return load_table(self.connection, "main", self.database, table)

    def now(self, table: str) -> str:
        """Its CREATE TABLE at the source."""
        return show_create_whole(self.connection, self.database, table)

    def known(self, table: str) -> Table | None:
        return self.in_force(self.here)[(self.database, table)].table

    def close(self) -> None:
        self.connection.close()
