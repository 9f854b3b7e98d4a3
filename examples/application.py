"""An application that goes through a cutover without losing a write: what yours needs, in one file.

It has two ways to its data, one for the old table and one for the shards, and does each piece of work at the side that
the switch names. While the switch says "closed" it begins nothing; it acknowledges a version of the switch once nothing
that it began under an earlier one is open. What fails because writes were stopped under it was not acknowledged to
anybody, and is done again at the side that is open next. See docs/switch.md.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import pymysql

T = TypeVar("T")
RENEWED = 1.0
"""Seconds after which a process says again what it goes by: one of the same name that ends takes the row along."""
log = logging.getLogger("application")
STOPPED = frozenset({1290, 1142, 1044, 1836, 1927, 1053, 2006, 2013, 4031, 1317, 1792})
"""Read-only, no grant, session ended, server gone: as when writes are stopped. Anything else is a fault of ours."""


@dataclass(frozen=True, slots=True)
class Server:
    host: str
    port: int
    user: str
    password: str
    tls: bool = True  # where the server has it

    def connect(self, database: str) -> Any:
        return pymysql.connect(
            host=self.host,
            port=self.port,
            user=self.user,
            password=self.password,
            database=database,
            ssl_disabled=not self.tls,
        )


class Orders(Protocol):
    """A way to the orders. Each call is one transaction, committed when it returns."""

    def save(self, order: int, user: int, value: int, note: str) -> None: ...
    def delete(self, order: int, user: int) -> None: ...


class OneTable:
    """The old way: one table, plain SQL. One shard is a table too."""

    def __init__(self, server: Server, database: str, table: str = "orders") -> None:
        self._server, self._database, self._table = server, database, table

    def save(self, order: int, user: int, value: int, note: str) -> None:
        self._run(
            f"INSERT INTO {self._table} (id, user_id, value, history) VALUES (%s, %s, %s, %s)"
            " ON DUPLICATE KEY UPDATE value = VALUES(value), history = VALUES(history)",
            (order, user, value, note),
        )

    def delete(self, order: int, user: int) -> None:
        self._run(f"DELETE FROM {self._table} WHERE id = %s AND user_id = %s", (order, user))

    def _run(self, statement: str, values: tuple[Any, ...]) -> None:
        with closing(self._server.connect(self._database)) as connection, connection.cursor() as cursor:
            cursor.execute(statement, values)
            connection.commit()


class Shards:
    """The new way: the database by the user, the table by the order, as the migration's sharding rule has it."""

    def __init__(self, databases: list[tuple[Server, str]], tables: int, table: str = "orders") -> None:
        """tables: how many each database has, named table_0, table_1 and so on."""
        self._databases, self._tables, self._table = databases, tables, table

    def save(self, order: int, user: int, value: int, note: str) -> None:
        self._at(order, user).save(order, user, value, note)

    def delete(self, order: int, user: int) -> None:
        self._at(order, user).delete(order, user)

    def _at(self, order: int, user: int) -> OneTable:
        server, database = self._databases[user % len(self._databases)]
        return OneTable(server, database, f"{self._table}_{order % self._tables}")


class Switch:
    """Follows the switch of a migration, and acknowledges what this process goes by. Close it."""

    def __init__(self, state: Server, database: str, migration: str, instance: str, seconds: float = 0.05) -> None:
        """seconds: between two looks."""
        self._state, self._database = state, database
        self._migration, self._instance = migration, instance
        self._seconds = seconds
        self._changed = threading.Condition()
        self._now: tuple[int, str, str] = (
            0,
            "source",
            "closed",
        )  # version, side, writes; nothing before the first look
        self._open: Counter[int] = Counter()  # pieces of work under way, by the version they began under
        self._seen: object = None  # when the row was written last, as it says
        self._told = ""  # why the switch could not be read, when last it could not
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="switch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """This process is gone: nobody waits for it any more."""
        self._ended.set()
        self._thread.join()

    @contextmanager
    def at(self) -> Iterator[str]:
        """The side to work at; waits while writes are closed. Stays so for the cutover until the block ends."""
        with self._changed:
            self._changed.wait_for(lambda: self._now[2] == "open")
            version, side, _ = self._now
            self._open[version] += 1
        try:
            yield side
        finally:
            with self._changed:
                self._open[version] -= 1

    def _follow(self) -> None:
        said = (0, 0.0)
        while not self._ended.wait(self._seconds):
            try:
                with closing(self._state.connect(self._database)) as connection:
                    while not self._ended.wait(self._seconds):
                        said = self._look(connection, said)
            except pymysql.MySQLError as error:
                self._tell(str(error))
        with suppress(pymysql.MySQLError), closing(self._state.connect(self._database)) as connection:
            # Not the row of a process that has taken the name meanwhile: as it was written here last.
            values = (*self._me, self._seen)
            self._do(connection, "DELETE FROM application WHERE migration = %s AND instance = %s AND seen = %s", values)

    def _look(self, connection: Any, said: tuple[int, float]) -> tuple[int, float]:
        """said: the version that was acknowledged last, and when."""
        found = self._do(
            connection,
            "SELECT version, side, writes FROM application_switch WHERE migration = %s",
            (self._migration,),
        )
        if not found:
            self._tell("it has no row: is that the migration's name, and was `migrate init` said?")
            return said
        self._told = ""
        if not said[0]:  # no work begins before the row is there
            said = self._acknowledge(connection, int(found[0][0]))
        with self._changed:
            self._now = (int(found[0][0]), found[0][1], found[0][2])
            self._changed.notify_all()
            version = self._now[0]
            waits = any(count for began, count in self._open.items() if began < version)
        if waits:
            version = said[0]  # still
        if version != said[0] or time.monotonic() - said[1] >= RENEWED:
            said = self._acknowledge(connection, version)
        return said

    def _acknowledge(self, connection: Any, version: int) -> tuple[int, float]:
        """Which version, and when."""
        ((self._seen,),) = self._do(connection, "SELECT NOW(6)", ())
        self._do(
            connection,
            "INSERT INTO application (migration, instance, version, seen) VALUES (%s, %s, %s, %s)"
            " ON DUPLICATE KEY UPDATE version = VALUES(version), seen = VALUES(seen)",
            (*self._me, version, self._seen),
        )
        return version, time.monotonic()

    def _tell(self, why: str) -> None:
        """Once, however often it is looked."""
        if why != self._told:
            log.warning("the switch of '%s' cannot be read, it is looked again: %s", self._migration, why)
        self._told = why

    @property
    def _me(self) -> tuple[str, str]:
        return self._migration, self._instance

    def _do(self, connection: Any, statement: str, values: tuple[Any, ...]) -> Any:
        with connection.cursor() as cursor:
            cursor.execute(statement, values)
            found = cursor.fetchall()
        connection.commit()
        return found


class Application:
    """Does its work at whichever side the switch names, again where writes were stopped under it."""

    def __init__(self, switch: Switch, old: Orders, new: Orders) -> None:
        self._switch = switch
        self._ways: dict[str, Orders] = {"source": old, "target": new}

    def do(self, work: Callable[[Orders], T]) -> T:
        """Work that may be done twice with the same outcome: whether a failed commit took place is not known."""
        while True:
            with self._switch.at() as side:
                try:
                    return work(self._ways[side])
                except pymysql.MySQLError as error:
                    if error.args[0] not in STOPPED:
                        raise
            time.sleep(0.05)  # writes were stopped under us: the switch tells where they go on
