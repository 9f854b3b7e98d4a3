"""What a merge does where its target is not standby: it waits for a cutover, or lists what came too late."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import sqlalchemy as sa
import structlog

from migrate.model.partition import Partition
from migrate.mysql.connection import Connection
from migrate.state import foreign, leading
from migrate.state.foreign import Foreign, Kind
from migrate.state.notes import Notes
from migrate.state.reached import DatabaseName
from migrate.target import roles
from migrate.target.part import Part
from migrate.target.roles import Role

log = structlog.get_logger("migrate.merge")


def late(part: Part) -> Iterator[Foreign]:
    """Every key that a part speaks of, as one that came when applications had the side."""
    for work in part.work:
        for intent in (*work.intents, *work.refreshed):
            yield Foreign(work.writer.table.id, intent.key, Kind.LATE, intent.origin)
        for returned in work.returned:
            yield Foreign(work.writer.table.id, returned.key, Kind.LATE, returned.coordinate)


class Sides:
    """The state's view of which side a stream writes."""

    def __init__(self, run: Callable[[Callable[[sa.Connection], Any]], Any], migration: str, notes: Notes) -> None:
        """run: runs an action in a transaction of the state database, again while that is away."""
        self._run = run
        self._notes = notes
        self._migration = migration
        # What sessions were asked of that were opened while this stream led.
        self._led: WeakKeyDictionary[Any, set[DatabaseName]] = WeakKeyDictionary()

    def note(self, partitions: Collection[Partition], found: Iterable[Foreign]) -> None:
        """List keys that are carried nowhere; before the messages that named them count as consumed. partitions: of
        those messages."""
        keys: Sequence[Foreign] = list(found)
        if not keys:
            return
        self._notes.write(partitions, lambda connection: foreign.note(connection, self._migration, keys))
        for id_, kind in {(one.id, one.kind) for one in keys}:
            count = sum(one.id == id_ and one.kind is kind for one in keys)
            log.warning("not carried", table=".".join(id_[1:]), source=id_[0], keys=count, kind=kind.value)

    def leads(self, connection: Connection, database: DatabaseName) -> bool:
        """Whether the stream writes at the side where applications are not, as the state says.

        Asked once a session and database: one that comes back without its last switch has ended its sessions, and its
        role alone would let newer rows be overwritten. What it lost is noted. Raises as `is_active`.
        """
        if database in self._led.get(connection.raw, ()):
            return True
        leads, frozen = self._run(
            lambda state: (leading.leads(state, self._migration), leading.frozen(state, self._migration))
        )
        if roles.lacking(connection, self._migration, database, frozen) is not None:
            self.is_active(connection, database)
        elif leads:
            self._led.setdefault(connection.raw, set()).add(database)
        return bool(leads)

    def is_active(self, connection: Connection, database: DatabaseName) -> bool:
        """Whether applications write in the database, so that nothing more of this stream may come there.

        False while a cutover is under way, and where the role was set right: then it is to be tried again. Raises
        StopError where the database is ahead of the state.
        """
        settle = partial(roles.set_right, there=connection, migration=self._migration, database=database)
        role: Role | None = self._run(settle)
        return role is Role.ACTIVE
