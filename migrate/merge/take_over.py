"""Becoming the writer of a partition in every target database, and finding those that came back with less than they had
(invariants fenced-writer, fence-compares)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import wait
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from migrate.merge.owned import Owned
from migrate.merge.standby_guard import Sides
from migrate.model.coordinate import Coordinate
from migrate.model.message import CANAL
from migrate.state.reached import DatabaseName
from migrate.state.record import Partition
from migrate.target import reached
from migrate.target.lanes import Lanes
from migrate.target.pool import TargetPool
from migrate.target.reached import NOTHING, Behind, Claim, Had, Has, Taken
from migrate.target.routing import TargetDatabase


def named(database: TargetDatabase) -> DatabaseName:
    return database.target, database.database


class Retry(Protocol):
    """Tries something in a database until it is done (`migrate.merge.retry`)."""

    def __call__(self, pool: TargetPool, database: TargetDatabase, action: Any) -> Any: ...


@dataclass(frozen=True, slots=True)
class Taking:
    """sides: None in tests of one side alone."""

    migration: str
    sources: Sequence[str]
    databases: Sequence[TargetDatabase]
    lanes: Mapping[str, Lanes]  # by target
    retry: Retry
    sides: Sides | None

    def take(
        self,
        claim: Claim,
        watermark: Mapping[str, Coordinate],
        had: Mapping[DatabaseName, int],
        at_most: int | None,
    ) -> tuple[Owned, Had]:
        """As `Merger.take`: what is owned from now on too."""
        owned, found, most, notes = Owned(claim, dict(watermark)), dict[DatabaseName, Has](), NOTHING, 0
        for database in self.databases:
            with self.lanes[database.target].one() as pool:
                raise_fence = partial(_raise_fence, pool, database, claim, self.sources, at_most)
                offset, marks, noted = self.retry(pool, database, raise_fence)
                notes = max(notes, noted)
                for source, coordinate in marks.items():
                    owned.applied.setdefault(source, {})[database] = coordinate
                owned.reached[database] = offset if at_most is None else min(offset, at_most)
                most = max(most, offset)
                if owned.reached[database] > had.get(named(database), NOTHING):
                    owned.found.add(database)
                end = had.get(named(database), offset)
                if at_most is not None:
                    end = min(end, at_most)  # behind it is read again anyway
                if max(offset, 0) < end:
                    active = self.retry(pool, database, partial(self._is_active, pool, database))
                    found[named(database)] = Has(max(offset, 0), active)
                    if not active:
                        owned.behind[database] = end
        for source, applied in owned.applied.items():  # what these have no longer counts as merged
            for coordinate in (applied[database] for database in owned.behind):
                _lower(owned.watermark, source, coordinate)
        if at_most is not None:  # its messages are ordered by their offsets, which come again
            owned.watermark.pop(CANAL, None)
            owned.applied[CANAL] = dict.fromkeys(self.databases)
        return owned, Had(found, most, notes)

    def _is_active(self, pool: TargetPool, database: TargetDatabase) -> bool:
        """Whether applications write in a database, as the state says: its own row may have been lost too."""
        return self.sides is not None and self.sides.is_active(pool.get(database), named(database))

    def find_behind(self, owned: Mapping[Partition, Owned]) -> dict[Partition, Behind]:
        """As `Merger.find_behind`. owned: may change meanwhile."""
        asked = [
            self.lanes[database.target].submit(partial(self._behind, database=database, owned=owned))
            for database in self.databases
        ]
        wait(asked)
        return {part: error for one in asked if one.exception() is None for part, error in one.result().items()}

    def _behind(
        self, pool: TargetPool, database: TargetDatabase, owned: Mapping[Partition, Owned]
    ) -> dict[Partition, Behind]:
        # In this order: a database is written before it is noted how far it has come.
        expected = [(one.claim, one.reached.get(database, NOTHING)) for one in list(owned.values())]
        try:
            connection = pool.get(database)
            has = reached.every(connection, self.migration)
            if self.sides is not None:
                self.sides.leads(connection, named(database))  # what it lost of a switch is noted
        except Exception:
            pool.drop(database)
            raise
        found = [(claim, has.get(claim.partition, NOTHING), end) for claim, end in expected]
        return {
            claim.partition: Behind(claim, connection.name, offset, end) for claim, offset, end in found if offset < end
        }


def _raise_fence(
    pool: TargetPool, database: TargetDatabase, claim: Claim, sources: Sequence[str], at_most: int | None
) -> Taken:
    return reached.take(pool.get(database), claim, sources, at_most)


def _lower(watermark: dict[str, Coordinate], source: str, coordinate: Coordinate | None) -> None:
    if coordinate is None:
        watermark.pop(source, None)
    elif source in watermark:
        watermark[source] = min(watermark[source], coordinate)
