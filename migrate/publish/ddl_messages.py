"""Statements on selected tables as Canal's DDL messages, for other readers of the topic (docs/decisions/0051)."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import structlog

from migrate.model.message import Message, encode
from migrate.publish.emit import ROOM
from migrate.publish.outbox import Outbox
from migrate.publish.schema.ddl import Ddl, Verb
from migrate.publish.schema.definitions import full
from migrate.publish.schema.policy import Step
from migrate.publish.schema.token_cursor import Name
from migrate.state.migration import Migration
from migrate.target.routing import PlannedTable

log = structlog.get_logger("migrate.publish")
_TYPES = {
    Verb.CREATE: "CREATE",
    Verb.ALTER: "ALTER",
    Verb.RENAME: "RENAME",
    Verb.DROP: "ERASE",
    Verb.TRUNCATE: "TRUNCATE",
}
"""Canal's names (CanalEntry.EventType)."""
_PASSWORD = re.compile(r"""\bCONNECTION\s*=?\s*\\?['"]|\bpassword\s+\\?['"]""", re.I)
"""Where a table option tells how to get to another server: of FEDERATED and CONNECT, and of Spider, in a comment."""


class DdlMessages:
    """Puts them into every partition of a table, between the rows from before and from behind the statement."""

    def __init__(
        self,
        source: str,
        planned: Mapping[Name, PlannedTable],
        migration: Migration,
        topic: str,
        limit_bytes: int,
        outbox: Outbox,
    ) -> None:
        """topic: the migration's main one. limit_bytes: of a message."""
        self._source = source
        self._planned = planned
        self._migration = migration
        self._topic = topic
        self._limit = limit_bytes - ROOM
        self._outbox = outbox

    def send(self, step: Step, tables: Sequence[Name], gtid: str, at: int) -> None:
        """A statement that the publisher goes on behind. tables: the selected ones that it is about; at: seconds since
        1970, by its header."""
        for name in tables:
            planned = self._planned[name]
            topic = self._migration.topic(planned.topic or self._topic)
            value = self._value(_message(self._source, step, name, gtid, at))
            messages = [(number, value) for number in planned.partitions(topic.partitions)]
            self._outbox.between(topic.name, planned.table.full_name.encode(), messages)

    def _value(self, message: Message) -> bytes:
        value = encode(message)
        if len(value) <= self._limit:
            return value
        log.warning(
            "the text of a statement is left out of its message: it is above kafka.max_message_bytes",
            table=full((message.database, message.table)),
            type=message.type,
            bytes=len(value),
        )
        return encode(replace(message, sql=""))


def _message(source: str, step: Step, name: Name, gtid: str, at: int) -> Message:
    return Message(
        *name,
        kind_of(step.ddl),
        (),
        source,
        step.since.incarnation,
        step.since.file,
        step.since.transaction,
        (),
        es=at * 1000,
        ts=int(time.time() * 1000),
        sql=text_of(step.statement.legible),
        gtid=gtid,
        is_ddl=True,
        standby=step.standby,
    )


def text_of(sql: str) -> str:
    """What readers of the topic get of a statement: nothing where a password may be in it."""
    return "" if _PASSWORD.search(sql) else sql


def kind_of(ddl: Ddl) -> str:
    """Canal's type of a statement."""
    if ddl.verb is Verb.INDEX:
        return "DINDEX" if ddl.drops else "CINDEX"
    if ddl.verb is Verb.ALTER and len(ddl.tables) > 1:
        return "RENAME"
    return _TYPES[ddl.verb]
