"""How far each publisher has durably delivered (invariant position-after-delivery)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime

import sqlalchemy as sa
from sqlalchemy.dialects.mysql import insert

from migrate.model.coordinate import Coordinate, file_number
from migrate.settings import Settings
from migrate.state.database import metadata

table = sa.Table(
    "position",
    metadata,
    sa.Column("migration", sa.String(48), primary_key=True),
    sa.Column("source", sa.String(48), primary_key=True),
    sa.Column("address", sa.String(300)),
    sa.Column("server_id", sa.BigInteger),
    sa.Column("server_uuid", sa.String(64)),
    sa.Column("replica_id", sa.BigInteger),
    sa.Column("incarnation", sa.Integer),
    sa.Column("file", sa.String(255)),
    sa.Column("pos", sa.BigInteger),
    sa.Column("gtid_set", sa.Text),
    sa.Column("event_time", sa.DateTime),
    sa.Column("batch", sa.BigInteger),
    sa.Column("file_created", sa.BigInteger),
    sa.Column("reach_file", sa.BigInteger),
    sa.Column("writes", sa.BigInteger),
    sa.Column("started", sa.BigInteger),
    sa.Column("beyond_gtids", sa.Text),
    sa.Column("beyond_newest", sa.BigInteger),
    sa.Column("beyond_ends", sa.Text),
)


@dataclass(frozen=True, slots=True)
class Position:
    """A transaction boundary in one source's binlog up to which Kafka has confirmed everything."""

    source: str
    address: str
    server_id: int
    server_uuid: str
    replica_id: int
    incarnation: int
    file: str
    pos: int
    gtid_set: str = ""
    event_time: datetime | None = None
    batch: int = 0
    file_created: int = 0  # seconds since 1970; 0 when not known

    @property
    def coordinate(self) -> Coordinate:
        """What begins here, or behind it, is not below."""
        return Coordinate(self.incarnation, file_number(self.file), self.pos, 0)

    @property
    def event_seconds(self) -> int:
        """When the last event was, in seconds since 1970; 0 where no time is known."""
        return 0 if self.event_time is None else int(self.event_time.replace(tzinfo=UTC).timestamp())

    @property
    def server(self) -> str:
        """Who wrote the log, as the schema history names it."""
        return f"{self.server_id}/{self.server_uuid}"


def load(connection: sa.Connection, migration: str, source: str) -> Position | None:
    columns = [table.c[name] for name in Position.__slots__]
    row = connection.execute(
        sa.select(*columns).where(table.c.migration == migration, table.c.source == source)
    ).one_or_none()
    return Position(*row) if row else None


def load_all(connection: sa.Connection, migration: str) -> dict[str, Position]:
    """By source, of those that have one."""
    columns = [table.c[name] for name in Position.__slots__]
    rows = connection.execute(sa.select(*columns).where(table.c.migration == migration))
    return {row.source: Position(*row) for row in rows}


def sources(connection: sa.Connection, migration: str) -> list[str]:
    """Those that have a position."""
    return list(connection.execute(sa.select(table.c.source).where(table.c.migration == migration)).scalars())


def save(connection: sa.Connection, migration: str, position: Position) -> None:
    values = {"migration": migration, **asdict(position)}
    changed = {name: value for name, value in values.items() if name not in ("migration", "source")}
    number = file_number(position.file)
    same = table.c.incarnation == position.incarnation
    reach = sa.case((same, sa.func.greatest(table.c.reach_file, number)), else_=number)
    # first, while the incarnation is the one before (MySQL manual, "INSERT ... ON DUPLICATE KEY UPDATE Statement")
    statement = insert(table).values({**values, "reach_file": number})
    connection.execute(statement.on_duplicate_key_update([("reach_file", reach), *changed.items()]))


def enter(connection: sa.Connection, migration: str, source: str, file: str) -> None:
    """Note that messages of a file of the present incarnation may follow."""
    number = file_number(file)
    here = (table.c.migration == migration, table.c.source == source, table.c.reach_file < number)
    connection.execute(sa.update(table).where(*here).values(reach_file=number))


def writes(connection: sa.Connection, migration: str, source: str) -> int | None:
    """How many of its transactions a publisher has counted; None before its first position."""
    wanted = sa.select(table.c.writes).where(table.c.migration == migration, table.c.source == source)
    found = connection.execute(wanted).scalar()
    return None if found is None else int(found)


def count(connection: sa.Connection, migration: str, source: str, expected: int) -> bool:
    """Count one more transaction of a publisher; False, and nothing counted, where the state has another count than
    expected. One more than that is this transaction itself, whose commit was not heard of."""
    here = (table.c.migration == migration, table.c.source == source, table.c.writes.in_([expected, expected + 1]))
    return bool(connection.execute(sa.update(table).where(*here).values(writes=expected + 1)).rowcount)


def reach(connection: sa.Connection, migration: str, source: str) -> tuple[int, int] | None:
    """The incarnation, and the number of its newest file that messages may be from; None before the publisher began."""
    columns = table.c.incarnation, table.c.reach_file, table.c.file
    row = connection.execute(
        sa.select(*columns).where(table.c.migration == migration, table.c.source == source)
    ).one_or_none()
    return None if row is None else (row.incarnation, max(row.reach_file, file_number(row.file)))


def where_read(state: sa.Engine, settings: Settings) -> Settings:
    """As `now_read`, in a transaction of its own."""
    with state.connect() as connection:
        return now_read(connection, settings)


def now_read(connection: sa.Connection, settings: Settings) -> Settings:
    """The settings with each source where its publisher reads it now: at one of its addresses, and at that server only.

    settings: with every address, so not what this gave before.
    """
    stored = load_all(connection, settings.name)
    found = ((source, stored.get(source.name)) for source in settings.sources)
    sources = [source.at(at.address).of(at.server) if at is not None else source for source, at in found]
    return settings.model_copy(update={"sources": tuple(sources)})


def from_timestamp(seconds: int) -> datetime | None:
    """The event time of a binlog header (seconds since 1970, UTC); None for 0, which artificial events carry."""
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None) if seconds else None
