"""Behind each change of a parent that cascades, a marker for every child table (docs/decisions/0032)."""

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
from migrate.target.cascades import acts, changed, markers
from migrate.target.routing import PlannedTable

_NO_CHECKS = 2
"""NO_FOREIGN_KEY_CHECKS_F of a row event's flags: the session had `foreign_key_checks` off, so nothing cascaded
(MySQL's rows_event.h; MariaDB, "Rows_event_v1/v2")."""

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
        links = [(child, self._readable(known, child, key, table)) for child, key in links]
        images = [
            (dict(zip(names, before, strict=True)), None if after is None else dict(zip(names, after, strict=True)))
            for before, after in rows
            if before is not None
        ]
        at = _at(transaction)
        for child, key in links:
            pairs = [(index, pair) for index, image in enumerate(images) if (pair := changed(key, *image)) is not None]
            planned = self._planned[child]
            topic = self._migration.topic(planned.topic or self._topic)
            numbers = planned.partitions(topic.partitions)
            for marker in markers(planned.table, at, key, event, pairs, self._limit):
                value = encode(marker)
                yield topic.name, planned.table.full_name.encode(), [(number, value) for number in numbers]

    @staticmethod
    def _readable(known: Definitions, child: Name, key: ForeignKey, parent: Table) -> ForeignKey:
        """The foreign key by the names that the parent's columns have here: a statement that renames them says nothing
        of the child. Raises StopError."""
        columns = {name.lower(): name for name in parent.by_name}
        for one in (key, *(other for other in known.foreign_keys_now(child) if other.name == key.name)):
            if {name.lower() for name in one.referenced} <= columns.keys():
                return replace(one, referenced=tuple(columns[name.lower()] for name in one.referenced))
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
