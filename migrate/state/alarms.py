"""Alarms that are raised, to whom they were sent, and what the next look is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.dialects.mysql import insert

from migrate.state.database import metadata, now

_KEY = {"migration": 48, "kind": 24, "subject": 255}


def _keys() -> list[sa.Column[str]]:
    return [sa.Column(name, sa.String(length), primary_key=True) for name, length in _KEY.items()]


table = sa.Table(
    "alarm",
    metadata,
    *_keys(),
    sa.Column("message", sa.Text),
    sa.Column("remedy", sa.String(255)),
    sa.Column("since", sa.DateTime),
    sa.Column("raised", sa.DateTime),
    sa.Column("resolved", sa.DateTime),
)
sent = sa.Table(
    "alarm_sent",
    metadata,
    *_keys(),
    sa.Column("receiver", sa.String(48), primary_key=True),
    sa.Column("sent", sa.DateTime),
)
seen = sa.Table("alarm_seen", metadata, *_keys(), sa.Column("value", sa.String(255)), sa.Column("changed", sa.DateTime))
_LONG_AGO = datetime(2000, 1, 1)  # noqa: DTZ001
Key = tuple[str, str]
"""Kind and subject."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """Times are UTC, by the state server."""

    kind: str
    subject: str
    message: str
    remedy: str
    since: datetime
    raised: datetime | None
    resolved: datetime | None

    @property
    def key(self) -> Key:
        return self.kind, self.subject


def every(connection: sa.Connection, migration: str) -> dict[Key, Alarm]:
    columns = [table.c[name] for name in Alarm.__slots__]
    rows = connection.execute(sa.select(*columns).where(table.c.migration == migration).order_by(table.c.since))
    found = [Alarm(*row) for row in rows]
    return {one.key: one for one in found}


def put(connection: sa.Connection, migration: str, alarm: Alarm) -> None:
    values = {name: getattr(alarm, name) for name in Alarm.__slots__}
    connection.execute(insert(table).values(migration=migration, **values).on_duplicate_key_update(values))


def forget(connection: sa.Connection, migration: str, key: Key) -> None:
    """With to whom it was sent."""
    for one in (table, sent):
        connection.execute(sa.delete(one).where(*_is(one, migration, key)))


def every_sent(connection: sa.Connection, migration: str) -> dict[Key, dict[str, datetime]]:
    """By alarm: when each receiver took it last."""
    found: dict[Key, dict[str, datetime]] = {}
    of = sent.c
    for kind, subject, receiver, at in connection.execute(
        sa.select(of.kind, of.subject, of.receiver, of.sent).where(of.migration == migration)
    ):
        found.setdefault((kind, subject), {})[receiver] = at
    return found


def note_sent(connection: sa.Connection, migration: str, key: Key, receiver: str) -> None:
    values = {"migration": migration, "kind": key[0], "subject": key[1], "receiver": receiver}
    connection.execute(insert(sent).values(**values, sent=now).on_duplicate_key_update(sent=now))


def note_tried(connection: sa.Connection, migration: str, key: Key, receiver: str) -> None:
    """It may take it from now on, also where nobody learns of that: as one who took it before it was raised."""
    values = {"migration": migration, "kind": key[0], "subject": key[1], "receiver": receiver, "sent": _LONG_AGO}
    connection.execute(insert(sent).values(values).prefix_with("IGNORE"))


def forget_sent(connection: sa.Connection, migration: str, key: Key, receiver: str) -> None:
    connection.execute(sa.delete(sent).where(*_is(sent, migration, key), sent.c.receiver == receiver))


def every_seen(connection: sa.Connection, migration: str) -> dict[Key, tuple[str, datetime | None]]:
    """What a look found, and when that changed last."""
    of = seen.c
    rows = connection.execute(sa.select(of.kind, of.subject, of.value, of.changed).where(of.migration == migration))
    return {(kind, subject): (value, changed) for kind, subject, value, changed in rows}


def put_seen(connection: sa.Connection, migration: str, key: Key, value: str, changed: datetime | None) -> None:
    values = {"value": value, "changed": changed}
    where = {"migration": migration, "kind": key[0], "subject": key[1]}
    connection.execute(insert(seen).values(**where, **values).on_duplicate_key_update(values))


def _is(of: sa.Table, migration: str, key: Key) -> tuple[sa.ColumnElement[bool], ...]:
    return of.c.migration == migration, of.c.kind == key[0], of.c.subject == key[1]
