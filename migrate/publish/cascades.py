"""Behind each change of a parent that cascades, a marker for every child table, and for the tables below it that its
values are handed on to (docs/decisions/0032)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace

from migrate.model.errors import Code, StopError
from migrate.model.message import CASCADE, Message, encode
from migrate.model.table import Table
from migrate.mysql.foreign_keys import ForeignKey
from migrate.publish.decode.rows import DELETE, UPDATE, RowEvent
from migrate.publish.emit import Encoded, Transaction
from migrate.publish.schema.definitions import Definitions, full
from migrate.publish.schema.token_cursor import Name
from migrate.state.migration import Migration
from migrate.state.pending_markers import GENERATIONS
from migrate.target.cascades import Pair, acts, changed, handed_on, markers
from migrate.target.routing import PlannedTable

_NO_CHECKS = 2
"""NO_FOREIGN_KEY_CHECKS_F of a row event's flags: the session had `foreign_key_checks` off, so nothing cascaded
(MySQL's rows_event.h; MariaDB, "Rows_event_v1/v2")."""

Pairs = list[tuple[int, Pair]]
"""Each with the index of the row in the event."""
Marked = tuple[str, bytes, Encoded]
"""Topic, record key, and messages by partition."""


class Cascades:
    """Of one source, whose server does not log what its foreign keys change."""

    def __init__(
        self, planned: Mapping[Name, PlannedTable], migration: Migration, topic: str, limit_bytes: int
    ) -> None:
        """topic: the migration's main one. limit_bytes: of a message."""
        self._planned = planned
        self._migration = migration
        self._topic = topic
        self._limit = limit_bytes

    def behind(
        self, known: Definitions, table: Table, transaction: Transaction, event: int, rows: RowEvent
    ) -> Iterator[Marked]:
        """The markers behind a row event. known: the definitions there; event: its index in the transaction."""
        deletes = rows.type in DELETE
        if not (deletes or rows.type in UPDATE):
            return
        children = known.children((table.database, table.name))
        links = [(child, key) for child, key in children if acts(key, deletes=deletes)]
        if not links or int.from_bytes(rows.body[6:8], "little") & _NO_CHECKS:
            return
        names = [column.name for column in table.columns]
        links = [(child, _readable(known, child, key, table)) for child, key in links]
        images = [
            (dict(zip(names, before, strict=True)), None if after is None else dict(zip(names, after, strict=True)))
            for before, after in rows
            if before is not None
        ]
        at = _at(transaction)
        for child, key in links:
            pairs = [(index, pair) for index, image in enumerate(images) if (pair := changed(key, *image)) is not None]
            yield from self._marked(known, child, key, at, event, pairs)

    def _marked(
        self, known: Definitions, child: Name, key: ForeignKey, at: Message, event: int, pairs: Pairs
    ) -> Iterator[Marked]:
        """The markers of a child, and of each generation below it that the values alone lead to: what becomes of the
        rows in between then hides none of them."""
        seen: dict[tuple[Name, ForeignKey], set[tuple[int, str]]] = {}
        level = [(child, key, pairs)]
        for generation in range(GENERATIONS):
            for name, link, some in level:
                yield from self._of_one(name, link, replace(at, id=generation), event, some)
            level = [
                (below, lower, fresh)
                for name, link, some in level
                for below, lower, handed in self._handed_on(known, name, link, some)
                if (fresh := _fresh(seen.setdefault((below, lower), set()), handed))
            ]

    def _of_one(self, child: Name, key: ForeignKey, at: Message, event: int, pairs: Pairs) -> Iterator[Marked]:
        planned = self._planned[child]
        topic = self._migration.topic(planned.topic or self._topic)
        numbers = planned.partitions(topic.partitions)
        for marker in markers(planned.table, at, key, event, pairs, self._limit):
            value = encode(marker)
            yield topic.name, planned.table.full_name.encode(), [(number, value) for number in numbers]

    def _handed_on(
        self, known: Definitions, name: Name, key: ForeignKey, pairs: Pairs
    ) -> Iterator[tuple[Name, ForeignKey, Pairs]]:
        """What the rows that pairs mean are to each table that refers to theirs."""
        table = known.tables.get(name, self._planned[name].table)
        for below, unread in known.children(name):
            link = _named(known, below, unread, table)
            if link is not None:
                yield below, link, [(at, two) for at, one in pairs if (two := handed_on(key, one, link)) is not None]


def _fresh(seen: set[tuple[int, str]], pairs: Pairs) -> Pairs:
    """Those that are not marked yet: values may go in a circle."""
    fresh = [(index, pair) for index, pair in pairs if (index, repr(pair)) not in seen]
    seen.update((index, repr(pair)) for index, pair in fresh)
    return fresh


def _named(known: Definitions, child: Name, key: ForeignKey, parent: Table) -> ForeignKey | None:
    """The foreign key by the names that the parent's columns have here: a statement that renames them says nothing of
    the child."""
    for one in (key, *(other for other in known.foreign_keys_now(child) if other.name == key.name)):
        if (named := one.by_names_of(parent.by_name)) is not None:
            return named
    return None


def _readable(known: Definitions, child: Name, key: ForeignKey, parent: Table) -> ForeignKey:
    """As `_named`. Raises StopError where the parent has no such columns."""
    if (found := _named(known, child, key, parent)) is not None:
        return found
    columns = {name.lower() for name in parent.by_name}
    lacks = ", ".join(name for name in key.referenced if name.lower() not in columns)
    raise StopError(
        f"{full(child)}: its foreign key {key.name} refers to {lacks} of {parent.full_name}, which has none",
        hint="what goes by it cannot be followed: drop the foreign key at the source, and start again",
        code=Code.DEFINITION,
    )


def _at(transaction: Transaction) -> Message:
    return Message(
        "",
        "",
        CASCADE,
        (),
        transaction.source,
        transaction.incarnation,
        transaction.file,
        transaction.start,
        (),
        es=transaction.es,
        ts=int(time.time() * 1000),
        gtid=transaction.gtid,
        standby=transaction.standby,
    )
