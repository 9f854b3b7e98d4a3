"""The application of the re-sharding demo: writes orders, and gives them to other users, whose rows are elsewhere."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from examples.application import Application, Orders, Shards
from sandbox.database import DatabaseServer
from sandbox.demo.shop import Processes, Working, deleted, saved, server_of, switches_of
from sandbox.stack import Sandbox

USERS = 500
_KEYS = 100  # orders of each process
_ROWS = 500  # in a statement
_COLUMNS = (
    "id BIGINT UNSIGNED NOT NULL PRIMARY KEY, user_id BIGINT UNSIGNED NOT NULL, value BIGINT NOT NULL,"
    " history VARCHAR(40) NOT NULL, KEY user (user_id)"
)


class Order(NamedTuple):
    """A row that is read: where it stands, and what it is."""

    database: int
    table: int
    id: int
    user: int
    value: int


class Moving(Working):
    """`values`: user and value of each order as they were acknowledged last; None: it was deleted."""

    def __init__(self, application: Application, keys: range, sources: int) -> None:
        super().__init__(application, keys)
        self._sources = sources
        self.values: dict[int, tuple[int, int] | None] = {key: (first_user(key, sources), 0) for key in keys}
        self.moves = 0  # between source servers

    def _work(self, key: int, chosen: random.Random) -> None:
        had, kind, user, value = self.values[key], chosen.random(), chosen.randrange(USERS), self.done
        if had is not None and kind < 0.2:
            self._application.do(partial(deleted, key, had[0]))
            self.values[key] = None
            return
        if had is not None and kind < 0.6:
            apart = had[0] % self._sources != user % self._sources
            self._application.do(partial(_given, key, had[0], user, value, apart and kind < 0.4))
            self.moves += apart
        else:
            user = user if had is None else had[0]
            self._application.do(partial(saved, key, user, value))
        self.values[key] = (user, value)


def _given(key: int, before: int, after: int, value: int, first: bool, orders: Orders) -> None:
    """To another user: the new row first, where it cannot stand in the table of the old one, or that goes first."""
    if first:
        orders.save(key, after, value, "given")
    orders.delete(key, before)
    if not first:
        orders.save(key, after, value, "given")


class ReshardShop(Processes):
    """Orders by user and id, over the sources before and over the targets after the switch."""

    def __init__(self, box: Sandbox, state: str, migration: str, processes: int = 2) -> None:
        """state: the database of the migration's state, at the first target."""
        self._box = box
        old = len(box.sources)
        new = [(server_of(server_at(box, n)), f"shop_{n}") for n in range(2 * old)]
        before = Shards([(server_of(server), f"old_{n}") for n, server in enumerate(box.sources)], old)
        switches = switches_of(box, state, migration, processes)
        self.working = [
            Moving(Application(switch, before, Shards(new, 2 * old)), range(_KEYS * n, _KEYS * (n + 1)), old)
            for n, switch in enumerate(switches)
        ]
        super().__init__(self.working, switches)

    @property
    def moves(self) -> int:
        """Orders that went to another source server, or would have."""
        return sum(one.moves for one in self.working)

    def lost(self) -> list[str]:
        found = {row.id: (row.user, row.value) for row in at_targets(self._box)}
        return [
            f"order {key}: {found.get(key)} instead of {value}"
            for one in self.working
            for key, value in one.values.items()
            if found.get(key) != value
        ]


def server_at(box: Sandbox, database: int) -> DatabaseServer:
    """The target that has a database."""
    return box.targets[database // len(box.sources)]


def first_user(order: int, sources: int) -> int:
    """Whose an order is that was there before: every table of every source gets as many."""
    every = order // sources
    return every % sources + sources * (every // sources % (USERS // sources))


def load(box: Sandbox, orders: int) -> None:
    """Make the tables of the sources, and fill them."""
    old = len(box.sources)
    rows = orders // old**2
    for number, server in enumerate(box.sources):
        server.execute(f"CREATE DATABASE old_{number}")
        for table in range(old):
            server.execute(f"CREATE TABLE orders_{table} ({_COLUMNS})", database=f"old_{number}")
            server.execute(*_fill(number, table, old, rows), database=f"old_{number}")


def _fill(number: int, table: int, old: int, rows: int) -> Iterator[str]:
    for low in range(0, rows, _ROWS):
        high = min(low + _ROWS, rows) - 1
        yield (
            f"INSERT INTO orders_{table} WITH RECURSIVE seq (n) AS"
            f" (SELECT {low} UNION ALL SELECT n + 1 FROM seq WHERE n < {high})"
            f" SELECT {table} + {old} * ({number} + {old} * n), {number} + {old} * (n % {USERS // old}), 0, 'copied'"
            " FROM seq"
        )


def at_sources(box: Sandbox) -> Iterator[Order]:
    """Every row of the sources, read with the server's own client."""
    for number, server in enumerate(box.sources):
        yield from _rows(server, f"old_{number}", number, len(box.sources))


def at_targets(box: Sandbox) -> Iterator[Order]:
    for number in range(2 * len(box.sources)):
        yield from _rows(server_at(box, number), f"shop_{number}", number, 2 * len(box.sources))


def _rows(server: DatabaseServer, database: str, number: int, tables: int) -> Iterator[Order]:
    every = (f"SELECT {number}, {table}, id, user_id, value FROM orders_{table}" for table in range(tables))
    for row in server.query(" UNION ALL ".join(every), database=database):
        yield Order(*map(int, row))


def differences(box: Sandbox) -> list[str]:
    """Rows that are not once at both sides, alike, and where they belong; told by arithmetic and the servers alone."""
    found: list[str] = []
    sides = []
    for side, rows, count in (
        ("sources", at_sources(box), len(box.sources)),
        ("targets", at_targets(box), 2 * len(box.sources)),
    ):
        there: dict[int, tuple[int, int]] = {}
        for row in rows:
            if (row.user % count, row.id % count) != (row.database, row.table):
                found.append(f"order {row.id} is misplaced at the {side}")
            if row.id in there:
                found.append(f"order {row.id} is twice at the {side}")
            there[row.id] = (row.user, row.value)
        sides.append(there)
    before, after = sides
    return found + [
        f"order {key}: {before.get(key)} at the sources, {after.get(key)} at the targets"
        for key in sorted({*before, *after})
        if before.get(key) != after.get(key)
    ]
