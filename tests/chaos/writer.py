"""Writers of a chaos run: transactions of every kind of change, and a ledger of what was acknowledged.

They follow the migration's switch. At the source a transaction has up to a dozen changes. At the targets it has one;
where a row leaves a database for the other, it is deleted in a transaction before.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pymysql

from examples.application import Switch
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


@dataclass(frozen=True)
class Statement:
    """SQL whose table is written {table}. `shard`: where a new row belongs; None: wherever the row is."""

    spec: TableSpec
    sql: str
    shard: int | None = None

    def places(self, sharded: bool) -> Iterator[tuple[int, str]]:
        """(Database, statement) of each place where it is said."""
        if not sharded:
            yield 0, self.sql.replace("{table}", self.spec.name)
            return
        for shard, (database, table) in enumerate(self.spec.places()):
            if self.shard in (None, shard):
                yield database, self.sql.replace("{table}", table)


@dataclass
class Transaction:
    """What is about to be sent, and how each touched key stands after it."""

    rows: dict[str, Rows]
    sharded: bool
    first: int  # no stamp of it is lower
    statements: list[Statement] = field(default_factory=list)
    touched: list[tuple[str, int, str]] = field(default_factory=list)  # table, key, what is done to it

    def say(self, spec: TableSpec, sql: str, shard: int | None = None) -> None:
        self.statements.append(Statement(spec, sql, shard))

    def last_database(self) -> int:
        """That of the last new row, which is written behind the other, so that no row is in both."""
        new = (one for one in reversed(self.statements) if one.shard is not None)
        return next((one.spec.places()[one.shard][0] for one in new if one.shard is not None), 0)


class Writer(threading.Thread):
    """Writes its own keys of every table, so that it knows what must be there.

    A transaction whose outcome is not known is looked up with a locking read, which waits for a commit on its way, at
    the side where applications are then. Every key that it did not touch must be there as it was acknowledged.
    """

    def __init__(
        self,
        connect: Callable[[str], list[Any]],
        switch: Callable[[], Switch],
        number: int,
        writers: int,
        seed: int,
        pause: float,
        scale: float,
    ) -> None:
        """connect: to the databases of a side; one at the source, two at the target. switch: begins to follow it."""
        super().__init__(name=f"writer-{number}", daemon=True)
        self._connect, self._switch = connect, switch
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
        self.failure: BaseException | None = None
        self._pending: Transaction | None = None
        self.history: dict[tuple[str, int], list[str]] = defaultdict(list)
        self.transactions = 0
        self.at_targets = 0  # of these
        self.changes = 0

    def run(self) -> None:
        try:
            self._follow()
        except BaseException as error:
            self.failure = error

    def _follow(self) -> None:
        with closing(self._switch()) as switch:
            while not self._ended():
                with switch.at() as side:
                    pass
                with suppress(pymysql.MySQLError, OSError), ExitStack() as opened:
                    connections = self._open(side, opened)
                    while not self._ended():
                        with switch.at() as now:
                            if now != side:
                                break
                            if self._pending is not None:
                                self._look_up(connections, self._pending)
                            elif not self._stop_asked.is_set():
                                self._write(connections)
                        time.sleep(self._pause * self._choice.random() * 2)
                time.sleep(0.05)

    def _ended(self) -> bool:
        return self._stop_asked.is_set() and self._pending is None

    def _open(self, side: str, opened: ExitStack) -> list[Any]:
        connections = [opened.enter_context(closing(one)) for one in self._connect(side)]
        for connection in connections:
            connection.query("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        return connections

    def end(self) -> None:
        """Write no more, and do not wait for an answer."""
        self._stop_asked.set()

    def stop(self) -> None:
        """Write no more; returns once the outcome of the last transaction is known. Raises Failure."""
        self.end()
        self.join(120)
        if self.is_alive():
            raise Failure(f"{self.name} does not end")
        self.check()

    def check(self) -> None:
        """Raises Failure when an acknowledged write was lost, or the writer ended."""
        if self.failure is not None:
            raise Failure(f"{self.name} ended: {self.failure!r}")
        if self._lost:
            raise Failure(self._lost)

    # -- one transaction

    def _write(self, connections: list[Any]) -> None:
        sharded = len(connections) > 1
        one = Transaction({name: dict(rows) for name, rows in self.rows.items()}, sharded, self._stamp + 1)
        for _ in range(1 if sharded else self._choice.choice((1, 1, 2, 3, 5, 12))):
            spec = self._choice.choice(TABLES)
            self._change(one, spec, self._choice.choice(spec.kinds))
        self._pending = one  # until its outcome is known
        if not (self._send_apart(connections, one) if sharded else self._send(connections[0], one)):
            self._note(one, "rolled back")
            self._pending = None
            return
        self._note(one, "acknowledged")
        self.rows, self._pending = one.rows, None
        self.transactions += 1
        self.changes += len(one.touched)
        self.at_targets += sharded

    def _send(self, connection: Any, one: Transaction) -> bool:
        """In one transaction. Returns whether it was committed; raises when that is not known."""
        undone = self._choice.random() < 0.05
        with connection.cursor() as cursor:
            try:
                cursor.execute("BEGIN")
                for statement in one.statements:
                    for _, sql in statement.places(sharded=False):
                        cursor.execute(sql)
                if undone:
                    cursor.execute("ROLLBACK")
            except pymysql.MySQLError:
                connection.rollback()  # raises when the connection is gone: then nothing is known
                undone = True
        if undone:
            return False
        self._note(one, "sent")
        connection.commit()
        return True

    def _send_apart(self, connections: list[Any], one: Transaction) -> bool:
        """In a transaction for each database. Raises when either was refused: the other may be there."""
        last = one.last_database()
        for number in (1 - last, last):
            statements = [
                sql for each in one.statements for database, sql in each.places(sharded=True) if database == number
            ]
            if not statements:
                continue
            with connections[number].cursor() as cursor:
                cursor.execute("BEGIN")
                for sql in statements:
                    cursor.execute(sql)
            self._note(one, f"sent to database {number}")
            connections[number].commit()
        return True

    def _note(self, one: Transaction, outcome: str) -> None:
        at = time.strftime("%H:%M:%S")
        for table, slot, what in one.touched:
            self.history[table, slot].append(f"{at} {what}: {outcome}")
            del self.history[table, slot][:-40]

    def _look_up(self, connections: list[Any], pending: Transaction) -> None:
        """Take over what is there of the keys that a transaction touched, once no transaction holds them any more."""
        sharded = len(connections) > 1
        touched = {(table, slot) for table, slot, _ in pending.touched}
        for spec in TABLES:
            found: Rows = {}
            for database, sql in Statement(spec, "SELECT * FROM {table} LOCK IN SHARE MODE").places(sharded):
                with connections[database].cursor(pymysql.cursors.DictCursor) as cursor:
                    cursor.execute(sql)
                    for row in cursor.fetchall():
                        slot = spec.slot({name: str(value) for name, value in row.items()})
                        if slot is not None and slot in self._own:
                            numbers = tuple(int(one) for one in row["history"].split(",")) if "history" in row else ()
                            if slot in found:
                                self._lost += f"{spec.name} {slot} is there twice: {found[slot]}, {row}\n"
                            found[slot] = Row(row["stamp"], row.get(spec.unique, 0), numbers)
            for slot in found.keys() | self.rows[spec.name].keys():
                before, now = self.rows[spec.name].get(slot), found.get(slot)
                if (spec.name, slot) in touched:
                    right = now in (None, before) or now.stamp >= pending.first
                    right &= now is None or not before or now.numbers[: len(before.numbers)] == before.numbers
                else:
                    right = now == before
                if not right:
                    self._lost += f"{spec.name} {slot}: {before} was acknowledged, {now} is there\n"
                self.history[spec.name, slot].append(f"looked up: {now or 'no row'}")
            self.rows[spec.name] = found
        for connection in connections:
            connection.rollback()
        self._pending = None

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
                one.say(spec, _insert(spec, values), spec.where(values))
            case ("once", _, _) if self._cold[spec.name]:
                self._once(one, spec, self._cold[spec.name].pop())
            case ("insert", _, [slot, *_]):
                self._insert(one, spec, slot)
            case ("upsert", _, _):
                slot = self._choice.choice(self._own)
                if one.sharded and slot in rows:
                    self._remove(one, spec, slot)  # its row may be in another shard
                self._insert(one, spec, slot, upsert=True)
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
                if one.sharded:
                    self._remove(one, spec, slot)
                    self._insert(one, spec, slot)
                else:
                    self._set(one, spec, [slot], spec.moved(self._choice), "move")
            case ("swap", [first, *rest], _) if rest:
                near = [slot for slot in rest if slot % 4 == first % 4]  # in one target table, where the key is unique
                if near or not one.sharded:
                    self._swap(one, spec, first, self._choice.choice(near or rest))
            case ("free", [slot, *_], [other, *_]):
                value = rows[slot].unique
                self._remove(one, spec, slot)
                self._insert(one, spec, other, value=value)
            case ("evict", [slot, other, *_], _):
                value = rows[other].unique
                if one.sharded:
                    self._remove(one, spec, other)
                    self._remove(one, spec, slot)
                    self._insert(one, spec, slot, value=value)
                    return
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
        if kind == 1:
            self._fresh += SPREAD
            values["id"] = str(self._fresh)
        if kind == 0 or (kind == 1 and one.sharded):
            one.say(spec, f"DELETE FROM {{table}} WHERE id = {key}")
            if kind == 1:
                one.say(spec, _insert(spec, values), spec.where(values))
            return
        one.say(spec, f"UPDATE {{table}} SET {_sets(one, spec, values)} WHERE id = {key}")

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
        one.say(spec, sql, spec.where(values))
        self._row(one, spec, slot, "upsert" if upsert else verb.lower(), Row(stamp, unique))

    def _seats(self) -> Iterator[int]:
        """Unique values of ours; few, so that they are taken again."""
        yield from range(1 + self._own.start * 2, 1 + self._own.stop * 2)

    def _remove(self, one: Transaction, spec: TableSpec, slot: int) -> None:
        one.say(spec, f"DELETE FROM {{table}} WHERE {self._where(spec, [slot])}")
        self._row(one, spec, slot, "delete", None)

    def _set(self, one: Transaction, spec: TableSpec, slots: list[int], values: Values, what: str) -> None:
        stamp = self._next()
        sets = _sets(one, spec, {**values, "stamp": str(stamp)})
        one.say(spec, f"UPDATE {{table}} SET {sets} WHERE {self._where(spec, slots)}")
        for slot in slots:
            self._row(one, spec, slot, what, Row(stamp, one.rows[spec.name][slot].unique))

    def _rekey(self, one: Transaction, spec: TableSpec, slot: int, other: int) -> None:
        unique = one.rows[spec.name][slot].unique
        if one.sharded:
            self._remove(one, spec, slot)
            self._insert(one, spec, other, value=unique)
            return
        stamp = self._next()
        sets = ", ".join(f"{name} = {value}" for name, value in self._key(spec, other).items())
        one.say(spec, f"UPDATE {{table}} SET {sets}, stamp = {stamp} WHERE {self._where(spec, [slot])}")
        self._row(one, spec, slot, f"became {other}", None)
        self._row(one, spec, other, f"was {slot}", Row(stamp, unique))

    def _swap(self, one: Transaction, spec: TableSpec, first: int, second: int) -> None:
        rows = one.rows[spec.name]
        values = {first: rows[second].unique, second: rows[first].unique}
        passing = -self._next()
        where = self._where(spec, [first])
        one.say(spec, f"UPDATE {{table}} SET {spec.unique} = {passing} WHERE {where}")
        for slot in (second, first):
            stamp = self._next()
            sets = f"{spec.unique} = {values[slot]}, stamp = {stamp}"
            one.say(spec, f"UPDATE {{table}} SET {sets} WHERE {self._where(spec, [slot])}")
            self._row(one, spec, slot, f"swap with {second if slot == first else first}", Row(stamp, values[slot]))

    def _append(self, one: Transaction, spec: TableSpec, slot: int) -> None:
        stamp = self._next()
        before = one.rows[spec.name].get(slot)
        key = self._key(spec, slot)
        if before is None:
            values = {**key, "history": f"'{stamp}'", "stamp": str(stamp)}
            one.say(spec, _insert(spec, values), spec.where(values))
        else:
            sets = f"history = CONCAT(history, ',{stamp}'), stamp = {stamp}"
            one.say(spec, f"UPDATE {{table}} SET {sets} WHERE {self._where(spec, [slot])}")
        numbers = (*(before.numbers if before else ()), stamp)
        self._row(one, spec, slot, "append", Row(stamp, numbers=numbers))


def _sets(one: Transaction, spec: TableSpec, values: Values) -> str:
    """What an UPDATE sets; among shards it leaves the row in its own."""
    stays = spec.shard_column if one.sharded and spec.shard_column not in spec.key_columns else None
    return ", ".join(f"{name} = {value}" for name, value in values.items() if name != stays)


def _insert(spec: TableSpec, values: Values, verb: str = "INSERT") -> str:
    return f"{verb} INTO {{table}} ({', '.join(values)}) VALUES ({', '.join(values.values())})"
