"""Writers of a chaos run: transactions of every kind of change, and a ledger of what the source acknowledged."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pymysql

from tests.chaos.crew import Failure
from tests.chaos.tables import FRESH, SPREAD, TABLES, TableSpec, Values, cold_keys

SLOTS = 24  # keys of each table that one writer has for itself
_OWN = 1_000_000_000  # stamps of one writer
Rows = dict[int, "Row"]


@dataclass(frozen=True)
class Row:
    """What the ledger knows of a row: its last write, the unique value it holds, the numbers of its list."""

    stamp: int
    unique: int = 0
    numbers: tuple[int, ...] = ()


@dataclass
class Transaction:
    """What is about to be sent, and how each touched key stands after it."""

    rows: dict[str, Rows]
    statements: list[str] = field(default_factory=list)
    touched: list[tuple[str, int, str]] = field(default_factory=list)  # table, key, what is done to it


class Writer(threading.Thread):
    """Writes its own keys of every table, so that it knows what must be there.

    A transaction whose outcome is not known is looked up with a locking read, which waits for a commit on its way.
    """

    def __init__(
        self, connect: Callable[[], Any], number: int, writers: int, seed: int, pause: float, scale: float
    ) -> None:
        super().__init__(name=f"writer-{number}", daemon=True)
        self._connect = connect
        self._own = range(number * SLOTS, (number + 1) * SLOTS)
        self._stamp = (number + 1) * _OWN
        self._choice = Random(f"{seed} {number}")  # noqa: S311 - which changes
        self._pause = pause
        self._cold = {spec.name: cold_keys(spec, scale)[number::writers] for spec in TABLES}
        self._fresh = FRESH * SPREAD * (number + 1) + 2  # never one of the keys that are written to again
        for keys in self._cold.values():
            self._choice.shuffle(keys)
        self._stop_asked = threading.Event()
        self.rows: dict[str, Rows] = {spec.name: {} for spec in TABLES}
        self._lost = ""
        self.history: dict[tuple[str, int], list[str]] = defaultdict(list)
        self.transactions = 0
        self.changes = 0

    def run(self) -> None:
        known = True
        while not self._stop_asked.is_set() or not known:
            with suppress(pymysql.MySQLError, OSError), closing(self._connect()) as connection:
                connection.query("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
                if not known:
                    self._look_up(connection)
                known = True
                while not self._stop_asked.is_set():
                    known = False
                    self._write(connection)
                    known = True
                    time.sleep(self._pause * self._choice.random() * 2)
            time.sleep(0.05)

    def end(self) -> None:
        """Write no more, and do not wait for an answer."""
        self._stop_asked.set()

    def stop(self) -> None:
        """Write no more; returns once the outcome of the last transaction is known. Raises Failure."""
        self.end()
        self.join(120)
        if self.is_alive():
            raise Failure(f"{self.name} does not end")
        if self._lost:
            raise Failure(self._lost)

    # -- one transaction

    def _write(self, connection: Any) -> None:
        one = Transaction({name: dict(rows) for name, rows in self.rows.items()})
        for _ in range(self._choice.choice((1, 1, 2, 3, 5, 12))):
            spec = self._choice.choice(TABLES)
            self._change(one, spec, self._choice.choice(spec.kinds))
        undone = self._choice.random() < 0.05
        with connection.cursor() as cursor:
            try:
                cursor.execute("BEGIN")
                for statement in one.statements:
                    cursor.execute(statement)
                if undone:
                    cursor.execute("ROLLBACK")
            except pymysql.MySQLError:
                connection.rollback()  # raises when the connection is gone: then nothing is known
                undone = True
        if undone:
            self._note(one, "rolled back")
            return
        self._note(one, "sent")
        connection.commit()
        self._note(one, "acknowledged")
        self.rows = one.rows
        self.transactions += 1
        self.changes += len(one.touched)

    def _note(self, one: Transaction, outcome: str) -> None:
        at = time.strftime("%H:%M:%S")
        for table, slot, what in one.touched:
            self.history[table, slot].append(f"{at} {what}: {outcome}")
            del self.history[table, slot][:-40]

    def _look_up(self, connection: Any) -> None:
        """Take over what is there of our keys, once no transaction holds them any more."""
        for spec in TABLES:
            with connection.cursor(pymysql.cursors.DictCursor) as cursor:
                cursor.execute(f"SELECT * FROM {spec.name} LOCK IN SHARE MODE")
                found: Rows = {}
                for row in cursor.fetchall():
                    slot = spec.slot({name: str(value) for name, value in row.items()})
                    if slot is not None and slot in self._own:
                        numbers = tuple(int(one) for one in row["history"].split(",")) if "history" in row else ()
                        found[slot] = Row(row["stamp"], row.get(spec.unique, 0), numbers)
            for slot, row in self.rows[spec.name].items():
                have = found[slot].numbers if slot in found else ()
                if have[: len(row.numbers)] != row.numbers:
                    self._lost += f"the source lost acknowledged numbers of {spec.name} {slot}: {row.numbers}, {have}\n"
            for slot in found.keys() | self.rows[spec.name].keys():
                self.history[spec.name, slot].append(f"looked up: {found.get(slot, 'no row')}")
            self.rows[spec.name] = found

    # -- kinds of change

    def _change(self, one: Transaction, spec: TableSpec, kind: str) -> None:
        rows = one.rows[spec.name]
        there = [slot for slot in self._own if slot in rows]
        free = [slot for slot in self._own if slot not in rows]
        self._choice.shuffle(there)
        self._choice.shuffle(free)
        match kind, there, free:
            case "append", _, _:
                self._append(one, spec, self._choice.choice(self._own))
            case ("fresh", _, _):
                self._fresh += SPREAD
                values = {"id": str(self._fresh), **spec.others(self._choice), "stamp": str(self._next())}
                one.statements.append(_insert(spec, values))
            case ("once", _, _) if self._cold[spec.name]:
                self._once(one, spec, self._cold[spec.name].pop())
            case ("insert", _, [slot, *_]):
                self._insert(one, spec, slot)
            case ("upsert", _, _):
                self._insert(one, spec, self._choice.choice(self._own), upsert=True)
            case ("delete", [slot, *_], _):
                self._remove(one, spec, slot)
            case ("rekey", [slot, *_], [other, *_]):
                self._rekey(one, spec, slot, other)
            case ("chain", [first, second, *_], [third, *_]):
                self._rekey(one, spec, second, third)
                self._rekey(one, spec, first, second)
            case ("again", [slot, *_], _):
                self._remove(one, spec, slot)
                self._insert(one, spec, slot)
                if self._choice.random() < 0.5:
                    self._remove(one, spec, slot)
                    if self._choice.random() < 0.5:
                        self._insert(one, spec, slot)
            case ("again", [], [slot, *_]):
                self._insert(one, spec, slot)
                self._remove(one, spec, slot)
            case ("bulk", [_, _, *_], _):
                self._set(one, spec, there, spec.others(self._choice), "bulk")
            case ("spell", [slot, *_], _):
                self._set(one, spec, [slot], spec.key(slot, self._choice), "spell")
            case ("move", [slot, *_], _) if spec.moved:
                self._set(one, spec, [slot], spec.moved(self._choice), "move")
            case ("swap", [first, *rest], _) if rest:
                near = [slot for slot in rest if slot % 4 == first % 4]  # in one target table, where the key is unique
                self._swap(one, spec, first, self._choice.choice(near or rest))
            case ("free", [slot, *_], [other, *_]):
                value = rows[slot].unique
                self._remove(one, spec, slot)
                self._insert(one, spec, other, value=value)
            case ("evict", [slot, other, *_], _):
                value = rows[other].unique
                del rows[other]
                one.touched.append((spec.name, other, f"evicted by {slot}"))
                self._insert(one, spec, slot, value=value, verb="REPLACE")
            case (_, [slot, *_], _):
                self._set(one, spec, [slot], spec.others(self._choice), "update")
            case _:
                self._insert(one, spec, self._choice.choice(free))

    def _once(self, one: Transaction, spec: TableSpec, key: int) -> None:
        """Change, move, give another key to or delete a row that was there before the start."""
        values = {**spec.others(self._choice), "stamp": str(self._next())}
        kind = self._choice.randrange(3)
        if kind == 0:
            one.statements.append(f"DELETE FROM {spec.name} WHERE id = {key}")
            return
        if kind == 1:
            self._fresh += SPREAD
            values["id"] = str(self._fresh)
        sets = ", ".join(f"{name} = {value}" for name, value in values.items())
        one.statements.append(f"UPDATE {spec.name} SET {sets} WHERE id = {key}")

    def _next(self) -> int:
        self._stamp += 1
        return self._stamp

    def _row(self, one: Transaction, spec: TableSpec, slot: int, what: str, row: Row | None) -> None:
        rows = one.rows[spec.name]
        if row is None:
            del rows[slot]
        else:
            rows[slot] = row
        one.touched.append((spec.name, slot, f"{what} {row.stamp if row else ''}".strip()))

    def _where(self, spec: TableSpec, slots: list[int]) -> str:
        each = (" AND ".join(f"{name} = {value}" for name, value in self._key(spec, slot).items()) for slot in slots)
        return " OR ".join(f"({one})" for one in each)

    def _key(self, spec: TableSpec, slot: int) -> Values:
        return spec.key(slot, self._choice)

    def _insert(
        self,
        one: Transaction,
        spec: TableSpec,
        slot: int,
        *,
        upsert: bool = False,
        value: int | None = None,
        verb: str = "INSERT",
    ) -> None:
        stamp = self._next()
        unique = 0
        values = {**self._key(spec, slot), **spec.others(self._choice), "stamp": str(stamp)}
        if spec.unique:
            taken = {row.unique for row in one.rows[spec.name].values()}
            unique = value or self._choice.choice([seat for seat in self._seats() if seat not in taken])
            values[spec.unique] = str(unique)
        sql = _insert(spec, values, verb)
        if upsert:
            also = {name: value for name, value in values.items() if name not in spec.key_columns}
            sql += " ON DUPLICATE KEY UPDATE " + ", ".join(f"{name} = {value}" for name, value in also.items())
        one.statements.append(sql)
        self._row(one, spec, slot, "upsert" if upsert else verb.lower(), Row(stamp, unique))

    def _seats(self) -> Iterator[int]:
        """Unique values of ours; few, so that they are taken again."""
        yield from range(1 + self._own.start * 2, 1 + self._own.stop * 2)

    def _remove(self, one: Transaction, spec: TableSpec, slot: int) -> None:
        one.statements.append(f"DELETE FROM {spec.name} WHERE {self._where(spec, [slot])}")
        self._row(one, spec, slot, "delete", None)

    def _set(self, one: Transaction, spec: TableSpec, slots: list[int], values: Values, what: str) -> None:
        stamp = self._next()
        sets = ", ".join(f"{name} = {value}" for name, value in {**values, "stamp": str(stamp)}.items())
        one.statements.append(f"UPDATE {spec.name} SET {sets} WHERE {self._where(spec, slots)}")
        for slot in slots:
            self._row(one, spec, slot, what, Row(stamp, one.rows[spec.name][slot].unique))

    def _rekey(self, one: Transaction, spec: TableSpec, slot: int, other: int) -> None:
        unique = one.rows[spec.name][slot].unique
        stamp = self._next()
        sets = ", ".join(f"{name} = {value}" for name, value in self._key(spec, other).items())
        one.statements.append(f"UPDATE {spec.name} SET {sets}, stamp = {stamp} WHERE {self._where(spec, [slot])}")
        self._row(one, spec, slot, f"became {other}", None)
        self._row(one, spec, other, f"was {slot}", Row(stamp, unique))

    def _swap(self, one: Transaction, spec: TableSpec, first: int, second: int) -> None:
        rows = one.rows[spec.name]
        values = {first: rows[second].unique, second: rows[first].unique}
        passing = -self._next()
        where = self._where(spec, [first])
        one.statements.append(f"UPDATE {spec.name} SET {spec.unique} = {passing} WHERE {where}")
        for slot in (second, first):
            stamp = self._next()
            sets = f"{spec.unique} = {values[slot]}, stamp = {stamp}"
            one.statements.append(f"UPDATE {spec.name} SET {sets} WHERE {self._where(spec, [slot])}")
            self._row(one, spec, slot, f"swap with {second if slot == first else first}", Row(stamp, values[slot]))

    def _append(self, one: Transaction, spec: TableSpec, slot: int) -> None:
        stamp = self._next()
        before = one.rows[spec.name].get(slot)
        key = self._key(spec, slot)
        if before is None:
            values = ", ".join([*key.values(), f"'{stamp}'", str(stamp)])
            one.statements.append(f"INSERT INTO {spec.name} ({', '.join(key)}, history, stamp) VALUES ({values})")
        else:
            sets = f"history = CONCAT(history, ',{stamp}'), stamp = {stamp}"
            one.statements.append(f"UPDATE {spec.name} SET {sets} WHERE {self._where(spec, [slot])}")
        numbers = (*(before.numbers if before else ()), stamp)
        self._row(one, spec, slot, "append", Row(stamp, numbers=numbers))


def _insert(spec: TableSpec, values: Values, verb: str = "INSERT") -> str:
    return f"{verb} INTO {spec.name} ({', '.join(values)}) VALUES ({', '.join(values.values())})"
