"""The migration's own row: its topic, its partitions, the config it was made from, and requests to it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property

import sqlalchemy as sa

from migrate.model.errors import PreflightError
from migrate.model.partition import Partition
from migrate.model.words import counted
from migrate.state.database import metadata, now

table = sa.Table(
    "migration",
    metadata,
    sa.Column("name", sa.String(48), primary_key=True),
    sa.Column("config", sa.Text),
    sa.Column("drain_asked", sa.DateTime),
    sa.Column("retry_asked", sa.DateTime),
    sa.Column("hurry_until", sa.DateTime),
    sa.Column("reverse_of", sa.String(48)),
    sa.Column("finished", sa.DateTime),
    sa.Column("summary", sa.Text),
    sa.Column("created", sa.DateTime),
)


topics = sa.Table(
    "topic",
    metadata,
    sa.Column("migration", sa.String(48), primary_key=True),
    sa.Column("name", sa.String(249), primary_key=True),
    sa.Column("position", sa.Integer),
    sa.Column("topic_id", sa.String(36)),
    sa.Column("partitions", sa.Integer),
)


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    id: str
    partitions: int


@dataclass(frozen=True)
class Migration:
    """A migration and its topics; the first takes every table that is not given to another."""

    name: str
    topics: tuple[Topic, ...]

    def topic(self, name: str) -> Topic:
        """The topic of that name. Raises PreflightError when init has not made it."""
        for topic in self.topics:
            if topic.name == name:
                return topic
        raise PreflightError(f"topic {name} was added after init", hint="run `migrate init` again")

    @cached_property
    def partitions(self) -> tuple[Partition, ...]:
        """Those of every topic."""
        return tuple(
            Partition(self.name, topic.id, number) for topic in self.topics for number in range(topic.partitions)
        )

    @cached_property
    def places(self) -> tuple[tuple[str, int], ...]:
        """Topic and number of each partition of every topic."""
        return tuple((topic.name, number) for topic in self.topics for number in range(topic.partitions))

    @cached_property
    def topic_names(self) -> dict[str, str]:
        """Each topic's name by its id."""
        return {topic.id: topic.name for topic in self.topics}


def create(connection: sa.Connection, migration: Migration, config: str) -> None:
    """Write the migration and its topics; topics that it has must still be the same ones.

    Raises: PreflightError when a topic was re-created or its number of partitions changed since.
    """
    known = find(connection, migration.name)
    if known is None:
        connection.execute(sa.insert(table).values(name=migration.name, config=config))
    else:
        connection.execute(sa.update(table).where(table.c.name == migration.name).values(config=config))
    before = {topic.name: topic for topic in known.topics} if known else {}
    for topic in migration.topics:
        if topic.name in before:
            check(before[topic.name], topic)
            continue
        row = {"migration": migration.name, "position": len(before), "name": topic.name}
        connection.execute(sa.insert(topics).values(**row, topic_id=topic.id, partitions=topic.partitions))
        before[topic.name] = topic


def check(known: Topic, seen: Topic) -> None:
    """Compare what was stored at init with what the broker says now. Raises PreflightError."""
    if (known.name, known.id) != (seen.name, seen.id):
        raise PreflightError(
            f"topic {seen.name} is not the one this migration began with (id {known.id}, now {seen.id})",
            hint="its messages are gone; start a new migration under another name and copy again",
        )
    if known.partitions != seen.partitions:
        raise PreflightError(
            f"topic {seen.name} has {counted(seen.partitions, 'partition')}, the migration began with"
            f" {known.partitions}",
            hint=f"if they were added by hand, stop and drain, and `migrate repartition {seen.partitions}`",
        )


def set_partitions(connection: sa.Connection, migration: str, topic: Topic, partitions: int) -> Topic:
    """Store another number of partitions; only for a drained migration (`migrate.commands.repartition`)."""
    connection.execute(
        sa.update(topics)
        .where(topics.c.migration == migration, topics.c.name == topic.name)
        .values(partitions=partitions)
    )
    return replace(topic, partitions=partitions)


def find(connection: sa.Connection, name: str) -> Migration | None:
    if connection.execute(sa.select(table.c.name).where(table.c.name == name)).one_or_none() is None:
        return None
    rows = connection.execute(
        sa.select(topics.c.name, topics.c.topic_id, topics.c.partitions)
        .where(topics.c.migration == name)
        .order_by(topics.c.position)
    )
    return Migration(name, tuple(Topic(*row) for row in rows))


def lock(connection: sa.Connection, name: str) -> None:
    """Until the transaction ends no init writes."""
    connection.execute(sa.select(table.c.name).where(table.c.name == name).with_for_update())


def get(connection: sa.Connection, name: str, *, finished: bool = False) -> Migration:
    """The stored migration. Raises PreflightError when `migrate init` has not run, and, unless asked for, when it is
    finished."""
    found = find(connection, name)
    if found is None:
        raise PreflightError(f"migration '{name}' is not there yet", hint="run `migrate init` first")
    if not finished:
        refuse_finished(connection, name)
    return found


def refuse_finished(connection: sa.Connection, name: str) -> None:
    """Raise PreflightError for a migration that `migrate finish` has ended."""
    ended = connection.execute(sa.select(table.c.finished).where(table.c.name == name)).scalar()
    if ended is not None:
        raise PreflightError(
            f"migration '{name}' is finished, since {ended:%Y-%m-%d %H:%M:%S} UTC",
            hint="`migrate status` shows what was kept of it; a new one needs another `name`",
        )


def note_reverse(connection: sa.Connection, name: str, of: str) -> None:
    """A migration is the reverse stream of another."""
    connection.execute(sa.update(table).where(table.c.name == name).values(reverse_of=of))


def reverse_of(connection: sa.Connection, name: str) -> str | None:
    """Of which migration it is the reverse stream; None for one of its own."""
    found: str | None = connection.execute(sa.select(table.c.reverse_of).where(table.c.name == name)).scalar()
    return found


REVERSE = "-reverse"
"""Ends the name of the stream from a migration's targets to its sources."""


def other_way(connection: sa.Connection, name: str) -> str:
    """The name of the stream the other way, whether or not it is there."""
    return reverse_of(connection, name) or name + REVERSE


def both_ways(connection: sa.Connection, name: str) -> list[str]:
    """A migration or its reverse stream, and the other one of the two where it is there."""
    of = reverse_of(connection, name)
    others = connection.execute(sa.select(table.c.name).where(table.c.reverse_of == name)).scalars()
    return [name, *([of] if of else []), *map(str, others)]


def ask_drain(connection: sa.Connection, name: str) -> None:
    """Ask the consumer to merge now rather than at its interval."""
    connection.execute(sa.update(table).where(table.c.name == name).values(drain_asked=now))


def hurry(connection: sa.Connection, name: str, seconds: float) -> None:
    """Ask that nothing waits to be folded, gathered or flushed for so many seconds; they notice within one."""
    until = sa.text(f"NOW(6) + INTERVAL {int(seconds * 1_000_000)} MICROSECOND")
    connection.execute(sa.update(table).where(table.c.name == name).values(hurry_until=until))


def hurried(connection: sa.Connection, name: str) -> bool:
    """Whether that is asked for now."""
    found = connection.execute(sa.select(table.c.hurry_until > now).where(table.c.name == name)).scalar()
    return bool(found)


def merge_asked(connection: sa.Connection, name: str) -> tuple[datetime | None, bool]:
    """When a drain was asked for last, and whether every message is to be merged at once now."""
    row = connection.execute(
        sa.select(table.c.drain_asked, table.c.hurry_until > now).where(table.c.name == name)
    ).one_or_none()
    return (row[0], bool(row[1])) if row else (None, False)


def ask_retry(connection: sa.Connection, name: str) -> None:
    """Ask the consumers to try at once what is stopped."""
    connection.execute(sa.update(table).where(table.c.name == name).values(retry_asked=now))


def retry_asked(connection: sa.Connection, name: str) -> datetime | None:
    result: datetime | None = connection.execute(sa.select(table.c.retry_asked).where(table.c.name == name)).scalar()
    return result
