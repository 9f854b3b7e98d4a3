"""One physical table inside a part's transaction: look up and lock, decide, write, and note what is left to do."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from migrate.model.change import Key, NoChange, Origin
from migrate.model.coordinate import Coordinate
from migrate.model.message import Row
from migrate.model.table import Table
from migrate.mysql.connection import Connection
from migrate.target import ledger, outdated, parked
from migrate.target.decide import Intent, Note, Return, Write, decide, decide_return
from migrate.target.decided import Decided
from migrate.target.owners import Owners
from migrate.target.parked import SetAside
from migrate.target.rows import PlaceWriter
from migrate.target.update_time import UpdateTimeFilter


@dataclass(frozen=True, slots=True)
class ReturnedDelete:
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


Aside = dict[tuple[str, Key, Origin], SetAside]
"""By place, key and origin: of a key that is refused, another change may still be taken."""


@dataclass(slots=True)
class AppliedCounts:
    """Rows by what a part of the stream did with them at its places. What a copy did is a `CopyCounts`."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    empty: int = 0
    outdated: int = 0  # not written, as the row that is there is newer by its update time

    def add(self, other: AppliedCounts) -> None:
        self.inserted += other.inserted
        self.updated += other.updated
        self.deleted += other.deleted
        self.empty += other.empty
        self.outdated += other.outdated


@dataclass(slots=True)
class Aftermath:
    """What a part leaves to be looked at again."""

    empties: list[EmptyDelete] = field(default_factory=list)
    evicted: list[tuple[Table, Row]] = field(default_factory=list)  # that made way for a unique value: key, and more

    def __bool__(self) -> bool:
        return bool(self.empties or self.evicted)


_SAID = {
    Write.INSERT: "inserted",
    Write.UPDATE: "updated",
    Write.DELETE: "deleted",
    Write.NOTHING: "was not there to be deleted",
    Write.SKIP: "skipped, the row that is there is newer by its update time",
}
_SAID_OF_RETURNED = {
    Return.AGAIN: "delayed delete: waits again, a copy is open",
    Return.DELETE: "delayed delete: done, the copy is closed",
    Return.DROP: "delayed delete: of no account, the key was written since",
}
LeftOf = Callable[[Key], Aftermath]


class PlaceStep:
    """One place inside the transaction.

    noted: the ledger names keys of it; held: changes of it are parked; keep: `decided` shall say what was decided.
    """

    def __init__(
        self,
        connection: Connection,
        migration: str,
        writer: PlaceWriter,
        copy_open: bool,
        noted: bool,
        held: bool,
        left: LeftOf,
        keep: bool = False,
        owners: Owners | None = None,
        filtered: UpdateTimeFilter | None = None,
        outdated: bool = False,
    ) -> None:
        """owners: told whose the rows are that changes meet, where that is to be looked at. filtered: which changes are
        skipped. outdated: keys of the database wait to be refreshed, as changes of them were."""
        self._filter = filtered
        self._outdated = outdated
        self._owners = owners
        self.decided: list[Decided] = []
        self._keep = keep
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
            if why := aside.get((name, intent.key, intent.origin)):
                self._unpark([intent.key])
                self._refreshed([intent] if isinstance(intent.origin, NoChange) else [])
                parked.put(self._connection, self._migration, table, name, intent, why)
                self.parked = True
                self._decide([intent], "parked")
            else:
                kept.append(intent)
        return kept

    def apply(self, intents: Sequence[Intent]) -> AppliedCounts:
        deletes = [intent for intent in intents if intent.row is None]
        if self._owners is not None and self._open:
            self._owners.judge_deletes(self._writer.name, self._writer.table.id, [one.key for one in deletes])
        self._note_before_looking(deletes)
        return self._judge(intents, self._open, "", self._filter)

    def refresh(self, intents: Sequence[Intent]) -> AppliedCounts:
        """As `apply`, of rows as the source holds them. Of deletes the ledger learns from the stream alone, and here of
        one that was parked: it never came to the row."""
        self._note_parked([intent for intent in intents if intent.row is None])
        self._refreshed(intents)
        return self._judge(intents, copy_open=False, why="refresh: ", filtered=None)

    def _judge(
        self, intents: Sequence[Intent], copy_open: bool, why: str, filtered: UpdateTimeFilter | None
    ) -> AppliedCounts:
        if not intents:
            return AppliedCounts()
        keys = [intent.key for intent in intents]
        times = self._writer.values(self._connection, keys, [filtered.column]) if filtered is not None else {}
        present = self._present(keys) if filtered is None else times
        chosen: dict[Write, list[Intent]] = {write: [] for write in Write}
        notes: dict[Note, list[Intent]] = {note: [] for note in Note}
        for intent in intents:
            there = intent.key in present
            outdated = filtered is not None and there and filtered.skips(intent, times[intent.key][0])
            decision = decide(intent.row is not None, there, copy_open, outdated)
            chosen[decision.write].append(intent)
            notes[decision.note].append(intent)
        self._write(chosen)
        self._note_outdated(chosen[Write.SKIP])
        self._settle(notes)
        for write, some in chosen.items():
            self._decide(some, f"{why}{_SAID[write]}")
        if self.parked:
            self._unpark([intent.key for intent in intents])
        return AppliedCounts(
            len(chosen[Write.INSERT]),
            len(chosen[Write.UPDATE]),
            len(chosen[Write.DELETE]),
            len(chosen[Write.NOTHING]),
            len(chosen[Write.SKIP]),
        )

    def _present(self, keys: Sequence[Key]) -> Collection[Key]:
        """Those of the keys that are there, locked."""
        if self._owners is None:
            return self._writer.present(self._connection, keys)
        rows = self._writer.owned(self._connection, keys, self._owners.home)
        self._owners.judge(self._writer.name, self._writer.table.id, rows)
        return rows

    def _unpark(self, keys: Sequence[Key]) -> None:
        """Nothing that was parked of these keys counts any more, of whichever table it was."""
        writer = self._writer
        sources = {source for source, _, _ in writer.members}
        parked.remove(self._connection, self._migration, writer.table, writer.name, keys, sources)

    def _decide(self, intents: Iterable[Intent], what: str) -> None:
        if self._keep:
            place = self._writer.name
            self.decided += [(place, one.key, what, one.origin) for one in intents]

    def _write(self, chosen: Mapping[Write, Sequence[Intent]]) -> None:
        writer, connection = self._writer, self._connection
        writer.delete(connection, [intent.key for intent in chosen[Write.DELETE]])
        # Updates first: where they delete and insert again, they free the unique values that inserts take.
        if writer.table.unique_keys:
            writer.delete(connection, [intent.key for intent in chosen[Write.UPDATE]])
            both = [*chosen[Write.UPDATE], *chosen[Write.INSERT]]
            evicted = writer.insert_taking(connection, [intent.row for intent in both if intent.row is not None])
            if evicted:
                self._left(both[0].key).evicted += [(writer.table, row) for row in evicted]
            return
        writer.update(connection, [intent.row for intent in chosen[Write.UPDATE] if intent.row is not None])
        writer.insert(connection, [intent.row for intent in chosen[Write.INSERT] if intent.row is not None])

    def _note_before_looking(self, deletes: Sequence[Intent]) -> None:
        """The entry stands before the look-up: a copy that inserts in between then waits for it or is waited for."""
        if self._open and deletes:
            self._put(deletes, was_empty=False)

    def _note_parked(self, deletes: Sequence[Intent]) -> None:
        if not (self._open and self.parked and deletes):
            return
        connection, migration, writer = self._connection, self._migration, self._writer
        known = parked.deletes(connection, migration, writer.name, {source for source, _, _ in writer.members})
        keys = [intent.key for intent in deletes]
        hashes = zip(keys, ledger.key_hashes(connection, writer.table, keys), strict=True)
        if found := [(key, one, known[one], False) for key, one in hashes if one in known]:
            self.noted = True
            ledger.put(connection, migration, writer.noted_as, writer.name, found)

    def _note_outdated(self, skipped: Sequence[Intent]) -> None:
        if not skipped:
            return
        table, self._outdated = self._writer.table, True
        hashes = ledger.key_hashes(self._connection, table, [intent.key for intent in skipped])
        entries = [(one.key, key_hash, one.coordinate) for one, key_hash in zip(skipped, hashes, strict=True)]
        outdated.put(self._connection, self._migration, table, self._writer.name, entries)

    def _refreshed(self, intents: Sequence[Intent]) -> None:
        """Nothing more is to be done about a change of these that was skipped."""
        if not (self._outdated and intents):
            return
        table = self._writer.table
        hashes = ledger.key_hashes(self._connection, table, [intent.key for intent in intents])
        outdated.remove(self._connection, self._migration, table, self._writer.name, hashes)

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

    def give_back(self, returned: Sequence[ReturnedDelete], last_tier: int, aside: Aside) -> AppliedCounts:
        """Judge delayed deletes, after this batch's own changes: those have settled the ledger already.

        One that the target refuses and that is set aside keeps its entry, and comes again later.
        """
        done = AppliedCounts()
        if not returned:
            return done
        table, name = self._writer.table, self._writer.name
        hashes = ledger.key_hashes(self._connection, table, [item.key for item in returned])
        noted_as = self._writer.noted_as
        entries = ledger.find(self._connection, self._migration, noted_as, name, hashes)
        for item, key_hash in zip(returned, hashes, strict=True):
            entry = entries.get(key_hash)
            waits = self._open or (name, item.key, item.coordinate) in aside
            judged = decide_return(entry.coordinate if entry else None, item.coordinate, waits)
            self._decide([Intent(item.key, None, item.coordinate)], _SAID_OF_RETURNED[judged])
            match judged:
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
