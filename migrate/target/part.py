"""One partition's share of a batch in one database: one transaction (rule 8)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

import pymysql

from migrate.model.change import Key
from migrate.model.coordinate import Coordinate
from migrate.model.errors import StopError
from migrate.model.table import Table
from migrate.mysql.connection import Connection
from migrate.mysql.errors import passes, text
from migrate.state.record import Partition
from migrate.target import chunk_fence, fence, ledger, parked
from migrate.target.decide import Intent, Note, Return, Write, decide, decide_return
from migrate.target.parked import SetAside
from migrate.target.rows import PlaceWriter


@dataclass(frozen=True, slots=True)
class Returned:
    """A delayed delete that came back."""

    key: Key
    coordinate: Coordinate
    tier: int


@dataclass(frozen=True, slots=True)
class EmptyDelete:
    """A delete to be looked at again after a delay."""

    table: Table
    place: str
    key: Key
    coordinate: Coordinate
    tier: int  # the delay topic it goes to


@dataclass(slots=True)
class Work:
    """What one batch wants from one place."""

    writer: PlaceWriter
    intents: list[Intent] = field(default_factory=list)
    returned: list[Returned] = field(default_factory=list)
    refreshed: list[Intent] = field(default_factory=list)  # as the source holds them now: after all changes


Aside = dict[tuple[str, Key, Coordinate], SetAside]
"""By place, key and coordinate: of a key that is refused, another change may still be taken."""


@dataclass(slots=True)
class Part:
    partition: Partition
    epoch: int
    highest: dict[str, Coordinate | None]  # by source; None when only delayed deletes came
    work: list[Work] = field(default_factory=list)
    aside: Aside = field(default_factory=dict)  # not to be written, but kept

    @property
    def size(self) -> int:
        """How many keys it speaks of."""
        return sum(len(work.intents) + len(work.returned) + len(work.refreshed) for work in self.work)


@dataclass(slots=True)
class Done:
    """Counts of what a part did."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    empty: int = 0

    def add(self, other: Done) -> None:
        self.inserted += other.inserted
        self.updated += other.updated
        self.deleted += other.deleted
        self.empty += other.empty


@dataclass(slots=True)
class Aftermath:
    """What a part leaves to be looked at again."""

    empties: list[EmptyDelete] = field(default_factory=list)
    evicted: list[tuple[Table, Key]] = field(default_factory=list)  # rows that made way for a unique value

    def __bool__(self) -> bool:
        return bool(self.empties or self.evicted)


LeftOf = Callable[[Key], Aftermath]
Send = Callable[[Partition, Aftermath], None]
"""Hands it to Kafka, in the partition it came from, and returns when the broker has it."""


def apply(connection: Connection, parts: Sequence[Part], last_tier: int, send: Send) -> Done:
    """Apply parts of several partitions of one migration in one transaction: all of them, or none.

    1. raise the fence of every partition and source, checking the epochs; 2. lock the rows and decide; 3. write rows
    and ledger; 4. hand empty deletes and evicted rows to Kafka, *before* the commit: a crash in between sends them
    twice, which does no harm, but never loses one; 5. commit.
    Raises: OwnershipLost, StopError, or the driver's error; nothing was written then, unless the commit itself
    failed, whose outcome the fence tells.
    """
    done = Done()
    with connection.transaction():
        for part in parts:
            for source, coordinate in part.highest.items():
                fence.raise_to(connection, part.partition, source, part.epoch, coordinate)
        # Asked inside the transaction: only an answer from after the first statement counts (rule 11).
        migration = parts[0].partition.migration
        closed = chunk_fence.closed_tables(connection, migration)
        noted = ledger.noted_places(connection, migration)
        held = parked.places(connection, migration)
        aside = {key: why for part in parts for key, why in part.aside.items()}
        lefts = {part.partition: Aftermath() for part in parts}
        for work, left in _by_place(parts, lefts):
            is_open = not work.writer.members <= closed
            where = (work.writer.noted_as.source, work.writer.name)
            wheres = {(source, work.writer.name) for source, _, _ in work.writer.members}
            is_held = not held.isdisjoint(wheres)
            step = _PlaceStep(connection, migration, work.writer, is_open, where in noted, is_held, left)
            for intents in _ordered(work.writer, work.intents):
                done.add(step.apply(step.set_aside(intents, aside)))
            for intents in _ordered(work.writer, work.refreshed):
                done.add(step.refresh(step.set_aside(intents, aside)))
            done.add(step.give_back(work.returned, last_tier, aside))
            if step.noted:
                noted.add(where)
            if step.parked:
                held |= wheres
        for partition, aftermath in lefts.items():
            if aftermath:
                send(partition, aftermath)
    return done


def _by_place(parts: Sequence[Part], lefts: Mapping[Partition, Aftermath]) -> Iterator[tuple[Work, LeftOf]]:
    """What each place gets, and where to put what a key of it leaves.

    What several partitions have for a place goes in the same statements: their keys are different ones (rule 2). Not
    where a part has rows of two layouts for a place, whose order counts.
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
    connection.raw.begin()
    try:
        for work in part.work:
            step = _PlaceStep(
                connection, part.partition.migration, work.writer, False, False, False, lambda _: Aftermath()
            )
            deletes = [Intent(item.key, None, item.coordinate) for item in work.returned]
            for intent in (*work.intents, *work.refreshed, *deletes):
                if (work.writer.name, intent.key, intent.coordinate) in part.aside:
                    continue
                try:
                    step.apply([intent])
                except (pymysql.MySQLError, StopError) as error:
                    if passes(error):
                        raise  # says nothing of the change
                    return work.writer, intent, text(error)
        return None
    finally:
        connection.raw.rollback()


def _ordered(writer: PlaceWriter, intents: list[Intent]) -> list[list[Intent]]:
    """All at once; one by one where only the server can tell whether two keys are one (rule 2)."""
    if writer.table.key_is_exact:
        return [intents] if intents else []
    return [[intent] for intent in intents]


class _PlaceStep:
    """One place inside the transaction. `noted`: the ledger names keys of it; `held`: changes of it are parked."""

    def __init__(
        self,
        connection: Connection,
        migration: str,
        writer: PlaceWriter,
        copy_open: bool,
        noted: bool,
        held: bool,
        left: LeftOf,
    ) -> None:
        self.parked = held
        self._left = left
        self._connection = connection
        self._migration = migration
        self._writer = writer
        self._open = copy_open
        self.noted = noted

    def set_aside(self, intents: list[Intent], aside: Aside) -> list[Intent]:
        """Park what is to be parked; returns the rest."""
        if not aside:
            return intents
        table, name = self._writer.table, self._writer.name
        kept = []
        for intent in intents:
            if why := aside.get((name, intent.key, intent.coordinate)):
                self._unpark([intent.key])
                parked.put(self._connection, self._migration, table, name, intent, why)
                self.parked = True
            else:
                kept.append(intent)
        return kept

    def apply(self, intents: Sequence[Intent]) -> Done:
        self._note_before_looking([intent for intent in intents if intent.row is None])
        return self._judge(intents, self._open)

    def refresh(self, intents: Sequence[Intent]) -> Done:
        """As `apply`, of rows as the source holds them. Of deletes the ledger learns from the stream alone."""
        return self._judge(intents, copy_open=False)

    def _judge(self, intents: Sequence[Intent], copy_open: bool) -> Done:
        if not intents:
            return Done()
        connection, writer = self._connection, self._writer
        present = writer.present(connection, [intent.key for intent in intents])
        chosen: dict[Write, list[Intent]] = {write: [] for write in Write}
        notes: dict[Note, list[Intent]] = {note: [] for note in Note}
        for intent in intents:
            decision = decide(intent.row is not None, intent.key in present, copy_open)
            chosen[decision.write].append(intent)
            notes[decision.note].append(intent)
        self._write(chosen)
        self._settle(notes)
        if self.parked:
            self._unpark([intent.key for intent in intents])
        return Done(
            len(chosen[Write.INSERT]), len(chosen[Write.UPDATE]), len(chosen[Write.DELETE]), len(chosen[Write.NOTHING])
        )

    def _unpark(self, keys: Sequence[Key]) -> None:
        """Nothing that was parked of these keys counts any more, of whichever table it was."""
        writer = self._writer
        sources = {source for source, _, _ in writer.members}
        parked.remove(self._connection, self._migration, writer.table, writer.name, keys, sources)

    def _write(self, chosen: Mapping[Write, Sequence[Intent]]) -> None:
        writer, connection = self._writer, self._connection
        writer.delete(connection, [intent.key for intent in chosen[Write.DELETE]])
        # Updates first: where they delete and insert again, they free the unique values that inserts take.
        if writer.table.unique_keys:
            writer.delete(connection, [intent.key for intent in chosen[Write.UPDATE]])
            both = [*chosen[Write.UPDATE], *chosen[Write.INSERT]]
            evicted = writer.insert_taking(connection, [intent.row for intent in both if intent.row is not None])
            if evicted:
                self._left(both[0].key).evicted += [(writer.table, key) for key in evicted]
            return
        writer.update(connection, [intent.row for intent in chosen[Write.UPDATE] if intent.row is not None])
        writer.insert(connection, [intent.row for intent in chosen[Write.INSERT] if intent.row is not None])

    def _note_before_looking(self, deletes: Sequence[Intent]) -> None:
        """The entry stands before the look-up: a copy that inserts in between then waits for it or is waited for."""
        if self._open and deletes:
            self._put(deletes, was_empty=False)

    def _settle(self, notes: Mapping[Note, Sequence[Intent]]) -> None:
        if written := notes[Note.REMOVE]:
            self._forget([intent.key for intent in written])
        if empty := notes[Note.PUT_EMPTY]:
            self._put(empty, was_empty=True)
            table, name = self._writer.table, self._writer.name
            for intent in empty:
                self._left(intent.key).empties.append(EmptyDelete(table, name, intent.key, intent.coordinate, 0))

    def _put(self, deletes: Sequence[Intent], was_empty: bool) -> None:
        self.noted = True
        hashes = ledger.key_hashes(self._connection, self._writer.table, [intent.key for intent in deletes])
        entries = [
            (intent.key, key_hash, intent.coordinate, was_empty)
            for intent, key_hash in zip(deletes, hashes, strict=True)
        ]
        ledger.put(self._connection, self._migration, self._writer.noted_as, self._writer.name, entries)

    def _forget(self, keys: Sequence[Key]) -> None:
        if not self.noted:
            return
        table, name = self._writer.table, self._writer.name
        hashes = ledger.key_hashes(self._connection, table, keys)
        ledger.remove(self._connection, self._migration, self._writer.noted_as, name, hashes)

    def give_back(self, returned: Sequence[Returned], last_tier: int, aside: Aside) -> Done:
        """Judge delayed deletes, after this batch's own changes: those have settled the ledger already.

        One that the target refuses and that is set aside keeps its entry, and comes again later.
        """
        done = Done()
        if not returned:
            return done
        table, name = self._writer.table, self._writer.name
        hashes = ledger.key_hashes(self._connection, table, [item.key for item in returned])
        noted_as = self._writer.noted_as
        entries = ledger.find(self._connection, self._migration, noted_as, name, hashes)
        for item, key_hash in zip(returned, hashes, strict=True):
            entry = entries.get(key_hash)
            waits = self._open or (name, item.key, item.coordinate) in aside
            match decide_return(entry.coordinate if entry else None, item.coordinate, waits):
                case Return.AGAIN:
                    tier = min(item.tier + 1, last_tier)
                    again = EmptyDelete(table, name, item.key, item.coordinate, tier)
                    self._left(item.key).empties.append(again)
                case Return.DELETE:
                    done.deleted += len(self._writer.present(self._connection, [item.key]))
                    self._writer.delete(self._connection, [item.key])
                    ledger.remove(self._connection, self._migration, noted_as, name, [key_hash])
                case Return.DROP:
                    pass
        return done
