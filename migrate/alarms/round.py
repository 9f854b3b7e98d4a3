"""One round over the alarms of a migration: what is raised and resolved by now, and who is still to be told."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

import sqlalchemy as sa

from migrate.alarms.conditions import Condition, Kind, Seen, conditions, remembered, untold
from migrate.alarms.letter import Letter, Status
from migrate.settings import Settings
from migrate.state import alarms, database
from migrate.state.alarms import Alarm, Key
from migrate.status.look import Look

_GIVEN_UP = timedelta(days=1)
"""After which nobody is told any more that an alarm is over."""


def turn(connection: sa.Connection, settings: Settings, look: Look) -> dict[str, list[Letter]]:
    """Bring the state up to a look; returns what each receiver is to get, by its name."""
    name = settings.name
    at: datetime = connection.execute(sa.select(database.now)).scalar_one()
    before = {key: Seen(*value) for key, value in alarms.every_seen(connection, name).items()}
    memory = remembered(before, look, at)
    for key, one in memory.items():
        if before.get(key) != one:
            alarms.put_seen(connection, name, key, one.value, one.changed)
    found = conditions(settings, look, memory, at)
    stored = alarms.every(connection, name)
    current = _settled(stored, found, untold(look), at)
    sent = alarms.every_sent(connection, name)
    receivers = [one.name for one in settings.alarms.to]
    letters: dict[str, list[Letter]] = {one: [] for one in receivers}
    for key, alarm in current.items():
        told = {to: when for to, when in sent.get(key, {}).items() if to in letters}
        if _is_over(alarm, told, at):
            alarms.forget(connection, name, key)
            continue
        if stored.get(key) != alarm:
            alarms.put(connection, name, alarm)
        for to in receivers:
            if (status := _due(alarm, told.get(to), at, settings.alarms.repeat_seconds)) is not None:
                letters[to].append(Letter(name, alarm, status, at))
    return letters


def handed(connection: sa.Connection, migration: str, receiver: str, letters: Iterable[Letter]) -> None:
    """A receiver is about to get letters: should an alarm be over before it is known whether it took the first one, it
    is told the end."""
    for letter in letters:
        if letter.status is Status.RAISED:
            alarms.note_tried(connection, migration, letter.alarm.key, receiver)


def took(connection: sa.Connection, migration: str, receiver: str, letter: Letter) -> None:
    """A receiver has taken a letter."""
    key = letter.alarm.key
    if letter.status is Status.RESOLVED:
        alarms.forget_sent(connection, migration, key, receiver)
    else:
        alarms.note_sent(connection, migration, key, receiver)


def _settled(
    stored: Mapping[Key, Alarm], found: Iterable[Condition], unknown: Collection[Kind], at: datetime
) -> dict[Key, Alarm]:
    """The alarms as they are now; those that are over, and were never raised, are resolved without a word."""
    now: dict[Key, Alarm] = {}
    for one in found:
        key = (one.kind.value, one.subject)
        old = stored.get(key)
        if old is None or old.resolved is not None:
            old = Alarm(*key, one.message, one.remedy, at, None, None)
        held = (at - old.since).total_seconds() >= one.seconds
        raised = old.raised or (at if held else None)
        now[key] = replace(old, message=one.message, remedy=one.remedy, raised=raised)
    for key, old in stored.items():
        if key not in now:
            keeps = old.resolved is not None or old.kind in {kind.value for kind in unknown}
            now[key] = old if keeps else replace(old, resolved=at)
    return now


def _is_over(alarm: Alarm, told: Mapping[str, datetime], at: datetime) -> bool:
    """Whether it is resolved, and everybody who may know of it knows that too."""
    return alarm.resolved is not None and (not told or at - alarm.resolved > _GIVEN_UP)


def _due(alarm: Alarm, told: datetime | None, at: datetime, repeat_seconds: float) -> Status | None:
    """What a receiver is to get now. told: when it took the alarm last."""
    if alarm.resolved is not None:
        return Status.RESOLVED if told is not None else None
    if alarm.raised is None:
        return None
    if told is None:
        return Status.RAISED
    if told < alarm.raised:  # of an earlier time that it was raised, whose end it was not told
        return Status.RAISED
    return Status.REPEATED if (at - told).total_seconds() >= repeat_seconds else None
