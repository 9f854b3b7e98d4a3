"""One partition's share of a batch in one database: one transaction (invariant fenced-writer)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

from migrate.model.change import Key
from migrate.model.coordinate import Coordinate
from migrate.model.errors import ServerError
from migrate.model.table import TableId
from migrate.mysql.connection import Connection
from migrate.mysql.errors import passes, text
from migrate.state.record import Partition
from migrate.target import decided, fence, noted, outdated, reached, write_context
from migrate.target.decide import Intent
from migrate.target.decided import Decided
from migrate.target.owners import Owners, RowsNotAsked
from migrate.target.place import Aftermath, AppliedCounts, Aside, LeftOf, PlaceStep, ReturnedDelete
from migrate.target.reached import NOTHING, Claim
from migrate.target.roles import SwitchedSince
from migrate.target.rows import PlaceWriter
from migrate.target.update_time import UpdateTimeFilter


@dataclass(slots=True)
class Work:
    """What one batch wants from one place."""

    writer: PlaceWriter
    intents: list[Intent] = field(default_factory=list)
    returned: list[ReturnedDelete] = field(default_factory=list)
    refreshed: list[Intent] = field(default_factory=list)  # as the source holds them now: after all changes


@dataclass(slots=True)
class Part:
    """What one database gets of a batch of a partition: the messages before offset `end`."""

    claim: Claim
    highest: dict[str, Coordinate | None]  # by source; None when only delayed deletes came
    work: list[Work] = field(default_factory=list)
    end: int = 0
    expected: int = NOTHING  # the offset that the database has come to before
    writes: int = 0  # how many transactions it had counted, as far as is known; with `apply`, this one too
    aside: Aside = field(default_factory=dict)  # not to be written, but kept
    version: int | None = None  # of the database's role before rows were read at the source; None where none were
    notes: int | None = None  # how many the state has of the partition; None where the database was told
    asked: dict[str, dict[Key, frozenset[TableId] | None]] = field(default_factory=dict)  # by group, as `AskedTables`

    @property
    def partition(self) -> Partition:
        return self.claim.partition

    @property
    def size(self) -> int:
        """How many keys it speaks of."""
        return sum(len(work.intents) + len(work.returned) + len(work.refreshed) for work in self.work)


Send = Callable[[Partition, Aftermath], None]
"""Hands it to Kafka, in the partition it came from, and returns when the broker has it."""


def apply(
    connection: Connection,
    parts: Sequence[Part],
    last_tier: int,
    send: Send,
    *,
    keep: bool = False,
    leads: bool = True,
) -> AppliedCounts:
    """Apply parts of several partitions of one migration in one transaction: all of them, or none.

    1. raise offset and fence of every partition and source, and see that nothing was lost; 2. lock the rows and decide;
    3. write rows and ledger; 4. hand empty deletes and evicted rows to Kafka, *before* the commit: a crash in between
    sends them twice, which does no harm, but never loses one; 5. commit. keep: also what was decided for each key.
    leads: whether the stream leads, as the state said once this session was open.
    Raises: Behind, OwnershipLost, NotStandby, SwitchedSince, RowsNotAsked, StopError, or the driver's error; nothing
    was written then, unless the commit itself failed, whose outcome the fence tells.
    """
    done, counted = AppliedCounts(), dict[Partition, int]()
    with connection.transaction():
        for part in parts:
            counted[part.partition] = reached.raise_to(connection, part.claim, part.expected, part.end, part.writes)
            for source, coordinate in part.highest.items():
                fence.raise_to(connection, part.partition, source, part.claim.epoch, coordinate)
        # Only an answer from after the transaction's first statement counts (invariant tombstone-under-open-chunk).
        migration = parts[0].partition.migration
        known = write_context.to_write(connection, migration, leads=leads)
        for part in parts:
            if part.version is not None and known.role is not None and part.version != known.role.version:
                raise SwitchedSince(connection.name)
        aside = {key: why for part in parts for key, why in part.aside.items()}
        made: list[Decided] = []
        lefts = {part.partition: Aftermath() for part in parts}
        owners = _owners(parts)
        filters = _Filters(connection, migration)
        outdated_there = any(work.refreshed for part in parts for work in part.work) and outdated.any_of(
            connection, migration
        )
        for work, left in _by_place(parts, lefts):
            is_open = not work.writer.members <= known.closed
            where = (work.writer.noted_as.source, work.writer.name)
            wheres = {(source, work.writer.name) for source, _, _ in work.writer.members}
            is_held = not known.parked.isdisjoint(wheres)
            its = owners.get(work.writer.noted_as.name) if work.writer.home is not None else None
            noted_there = where in known.noted
            filtered = filters.of(work.writer, is_open=is_open)
            step = PlaceStep(
                *(connection, migration, work.writer, is_open, noted_there, is_held, left, keep, its),
                *(filtered, outdated_there),
            )
            for intents in _ordered(work.writer, work.intents):
                done.add(step.apply(step.set_aside(intents, aside)))
            for intents in _ordered(work.writer, work.refreshed):
                done.add(step.refresh(step.set_aside(intents, aside)))
            done.add(step.give_back(work.returned, last_tier, aside))
            made += step.decided
            if step.noted:
                known.noted.add(where)
            if step.parked:
                known.parked |= wheres
        for group, one in owners.items():
            if one.missing:
                raise RowsNotAsked(group, one.missing)
        decided.put(connection, migration, made)
        for part in parts:
            if part.notes is not None:
                noted.put(connection, part.partition, part.notes)
        for partition, aftermath in lefts.items():
            if aftermath:
                send(partition, aftermath)
    for part in parts:
        part.writes = counted[part.partition]
    return done


class _Filters:
    """The update-time filters of tables as a database has them now; it is asked only where a table has one."""

    def __init__(self, connection: Connection, migration: str) -> None:
        self._connection = connection
        self._migration = migration
        self._ends: dict[TableId, Coordinate] | None = None

    def of(self, writer: PlaceWriter, *, is_open: bool) -> UpdateTimeFilter | None:
        """is_open: a copy may still fill the table. Raises NoRole."""
        if writer.update_time is None:
            return None
        if is_open:
            return UpdateTimeFilter(writer.update_time, None)
        if self._ends is None:
            self._ends = outdated.ends(self._connection, self._migration)
        end = self._ends.get(writer.table.id)
        return None if end is None else UpdateTimeFilter(writer.update_time, end)


def _owners(parts: Sequence[Part]) -> dict[str, Owners]:
    """By group: of those whose rows tell which source table they are of, and their keys alone do not."""
    asked: dict[str, dict[Key, frozenset[TableId] | None]] = {}
    for part in parts:
        for group, keys in part.asked.items():
            asked.setdefault(group, {}).update(keys)
    homes = {work.writer.noted_as.name: work.writer.home for part in parts for work in part.work}
    return {group: Owners(home, asked.get(group, {})) for group, home in homes.items() if home is not None}


def _by_place(parts: Sequence[Part], lefts: Mapping[Partition, Aftermath]) -> Iterator[tuple[Work, LeftOf]]:
    """What each place gets, and where to put what a key of it leaves.

    What several partitions have for a place goes in the same statements: their keys are different ones (invariant
    per-key-order). Not where a part has works of two layouts, or of two tables of a group, for a place: order counts.
    """
    names = [[work.writer.name for work in part.work] for part in parts]
    if len(parts) == 1 or any(len(some) > len(set(some)) for some in names):
        for part in parts:
            for work in part.work:
                yield work, partial(_same, lefts[part.partition])
        return
    joined: dict[PlaceWriter, tuple[Work, dict[Key, Aftermath]]] = {}
    for part in parts:
        left = lefts[part.partition]
        for work in part.work:
            together, owners = joined.setdefault(work.writer, (Work(work.writer), {}))
            together.intents += work.intents
            together.returned += work.returned
            together.refreshed += work.refreshed
            owners.update((item.key, left) for item in chain(work.intents, work.refreshed))
            owners.update((item.key, left) for item in work.returned)
    for together, owners in joined.values():
        yield together, owners.__getitem__


def _same(left: Aftermath, _key: Key) -> Aftermath:
    return left


def find_refused(connection: Connection, part: Part) -> tuple[PlaceWriter, Intent, str] | None:
    """The first change of a part that the target refuses, and why. Tries them one by one; nothing is kept.

    Raises: the driver's error when the server is away or busy meanwhile.
    """
    connection.enter()
    connection.raw.begin()
    migration, closed = part.partition.migration, set[TableId]()
    try:
        filters = _Filters(connection, migration)
        if any(work.writer.update_time is not None for work in part.work):
            closed = write_context.read(connection, migration).closed
        for work in part.work:
            filtered = filters.of(work.writer, is_open=not work.writer.members <= closed)
            step = PlaceStep(
                *(connection, migration, work.writer, False, False, False, lambda _: Aftermath()), filtered=filtered
            )
            deletes = [Intent(item.key, None, item.coordinate) for item in work.returned]
            for intent in (*work.intents, *work.refreshed, *deletes):
                if (work.writer.name, intent.key, intent.origin) in part.aside:
                    continue
                try:
                    step.apply([intent])
                except Exception as error:  # also a defect that this change alone meets
                    if passes(error) or isinstance(error, OSError | ServerError):
                        raise  # says nothing of the change
                    return work.writer, intent, text(error)
        return None
    finally:
        connection.raw.rollback()


def _ordered(writer: PlaceWriter, intents: list[Intent]) -> list[list[Intent]]:
    """All at once; one by one where only the server can tell whether two keys are one (invariant per-key-order)."""
    if writer.table.key_is_exact:
        return [intents] if intents else []
    return [[intent] for intent in intents]
