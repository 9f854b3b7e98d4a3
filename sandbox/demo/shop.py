"""The shop: the example application with its carts, which goes through the cutovers of the demo."""

from __future__ import annotations

import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from itertools import pairwise

from examples.application import Application, OneTable, Orders, Server, Shards, Switch
from sandbox.database import DatabaseServer
from sandbox.demo.migration import Migration
from sandbox.errors import SandboxError
from sandbox.stack import Sandbox

CREATE = (
    "CREATE TABLE shop.carts (id BIGINT UNSIGNED NOT NULL PRIMARY KEY, user_id BIGINT UNSIGNED NOT NULL,"
    " value BIGINT NOT NULL, history TEXT NOT NULL) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"
)
DATABASES, TABLES = 4, 4
_SLOW = 120.0


class Working(threading.Thread, ABC):
    """A process of an application, as a thread: does one piece of work after the other, at the side that is open."""

    def __init__(self, application: Application, keys: range) -> None:
        super().__init__(daemon=True)
        self._application = application
        self._keys = keys
        self._ended = threading.Event()
        self.done = 0
        self._times: list[float] = []  # when each write was acknowledged
        self.failure: BaseException | None = None

    def run(self) -> None:
        chosen = random.Random(self._keys.start)
        try:
            while not self._ended.wait(0.025):
                self._work(chosen.choice(self._keys), chosen)
                self._times.append(time.monotonic())
                self.done += 1
        except BaseException as error:
            self.failure = error

    @abstractmethod
    def _work(self, key: int, chosen: random.Random) -> None:
        """One piece of work on an order, until it is acknowledged."""

    def wait_for(self, more: int) -> None:
        """Until so many more pieces of work are done."""
        wanted = self.done + more
        Migration.wait(lambda: self.failure is not None or self.done >= wanted, _SLOW, f"{more} more orders")

    def longest_gap(self, since: float) -> float:
        """Seconds from one acknowledged write to the next, at most, from a moment of `time.monotonic` on."""
        times = [since, *(one for one in self._times if one > since)]
        return max((later - earlier for earlier, later in pairwise(times)), default=0.0)

    def end(self) -> None:
        """Begin nothing more, and do not wait for what is under way."""
        self._ended.set()

    def stop(self) -> None:
        self.end()
        self.join(_SLOW)
        if self.failure is not None:
            raise self.failure
        if self.is_alive():
            raise SandboxError("the application does not end")


class Carts(Working):
    """Saves and deletes carts; `values`: what was acknowledged last of each."""

    def __init__(self, application: Application, keys: range) -> None:
        super().__init__(application, keys)
        self.values: dict[int, int | None] = {}

    def _work(self, key: int, chosen: random.Random) -> None:
        value = self.done
        if chosen.random() < 0.2:
            self._application.do(partial(deleted, key, key % 7))
            self.values[key] = None
        else:
            self._application.do(partial(saved, key, key % 7, value))
            self.values[key] = value


def saved(key: int, user: int, value: int, orders: Orders) -> None:
    orders.save(key, user, value, "written")


def deleted(key: int, user: int, orders: Orders) -> None:
    orders.delete(key, user)


class Processes(ABC):
    """Processes of an application, each with a switch of its own."""

    def __init__(self, working: Sequence[Working], switches: Sequence[Switch]) -> None:
        self._working, self._switches = working, switches

    def start(self) -> None:
        for one in self._working:
            one.start()

    def wait_for(self, more: int) -> None:
        """Until each process has done so many more pieces of work."""
        for one in self._working:
            one.wait_for(more)

    def longest_gap(self, since: float) -> float:
        """Seconds for which some process had no write acknowledged, at most."""
        return max(one.longest_gap(since) for one in self._working)

    def stop(self) -> int:
        """End; returns how many writes were acknowledged."""
        for one in self._working:
            one.stop()
        for switch in self._switches:
            switch.close()
        return sum(one.done for one in self._working)

    @abstractmethod
    def lost(self) -> list[str]:
        """Acknowledged writes that the new side does not have as they were acknowledged last."""


class Shop(Processes):
    """The demo's: carts in one table at the source, by user and cart at the targets."""

    def __init__(self, box: Sandbox, state: str, migration: str, processes: int = 2) -> None:
        """state: the database of the migration's state, at the first target."""
        self._box = box
        servers = [(server_of(box.targets[number // 2]), f"shop_{number}") for number in range(DATABASES)]
        shards = Shards(servers, TABLES, "carts")
        switches = switches_of(box, state, migration, processes)
        self.working = [
            Carts(
                Application(switch, OneTable(server_of(box.source), "shop", "carts"), shards),
                range(1000 * number + 1, 1000 * number + 201),
            )
            for number, switch in enumerate(switches)
        ]
        super().__init__(self.working, switches)

    def lost(self) -> list[str]:
        found: dict[int, int] = {}
        for number in range(DATABASES):
            for table in range(TABLES):
                rows = self._box.targets[number // 2].query(f"SELECT id, value FROM shop_{number}.carts_{table}")
                found |= {int(key): int(value) for key, value in rows}
        return [
            f"cart {key}: {found.get(key)} instead of {value}"
            for one in self.working
            for key, value in one.values.items()
            if found.get(key) != value
        ]


def switches_of(box: Sandbox, state: str, migration: str, processes: int) -> list[Switch]:
    return [Switch(server_of(box.targets[0]), state, migration, f"shop-{number}") for number in range(processes)]


def server_of(server: DatabaseServer) -> Server:
    return Server(server.host, server.port, server.user, server.password, tls=False)
