"""Columns of tables of a group (`ddl: apply`): two sources of two tables each, altered one after the other under an
application that writes all of them and moves rows between old and new ones. Costs 55 s a server."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.flow import launcher
from tests.flow.grouped import Grouped
from tests.helpers import unique
from tests.waiting import SLOW

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
PLACES = ((0, "orders"), (0, "orders_b"), (1, "orders"), (1, "orders_b"))
ADD = "ADD COLUMN extra VARCHAR(20) NOT NULL DEFAULT 'none' AFTER user_id, ADD COLUMN n INT"
WIDEN = "MODIFY extra VARCHAR(60) NOT NULL DEFAULT 'none'"
PUBLISH = ("publish", "--source", "source")


class Application(threading.Thread):
    """Writes rows of all tables, with the columns that it knows of each or without, and moves them between tables."""

    def __init__(self, group: Grouped) -> None:
        super().__init__(daemon=True)
        self._group = group
        self.knows: list[dict[str, str]] = [{} for _ in PLACES]  # by table: the values of its new columns
        self.writes = self.moves = 0
        self._rows: dict[int, int] = {}  # the table of each key
        self._random = random.Random(4)  # noqa: S311 - which row to write
        self.asked = threading.Event()

    def run(self) -> None:
        with ExitStack() as opened:
            sessions = [
                opened.enter_context(closing(server.connect(self._group.database, autocommit=True)))
                for server in self._group.sources
            ]
            cursors = [opened.enter_context(one.cursor()) for one in sessions]
            while not self.asked.is_set():
                self._write(cursors, self._random.randrange(1000, 1120))
                self.writes += 1
                time.sleep(0.003)

    def stop(self) -> None:
        self.asked.set()
        self.join(SLOW)
        assert not self.is_alive()

    def go_on(self) -> None:
        wanted = self.moves + 30
        self._group.migration.wait(lambda: self.moves >= wanted or not self.is_alive(), SLOW, "rows to move")
        assert self.is_alive(), "the application was refused"

    def _write(self, cursors: list[Any], key: int) -> None:
        there, kind = self._rows.get(key), self._random.randrange(8)
        if there is None:
            self._insert(cursors, self._random.randrange(len(PLACES)), key)
        elif kind == 0:
            self._remove(cursors, there, key)
            del self._rows[key]
        elif kind < 4:
            new = self._chosen(there)
            sets = "".join(f", {name} = {value}" for name, value in new.items())
            source, table = PLACES[there]
            cursors[source].execute(
                f"UPDATE {table} SET user_id = user_id + {kind % 2}, value = {self.writes}{sets} WHERE id = {key}"
            )
        else:
            to = (there + self._random.randrange(1, len(PLACES))) % len(PLACES)
            if kind == 7:
                self._insert(cursors, to, key)
                self._remove(cursors, there, key)
            else:
                self._remove(cursors, there, key)
                self._insert(cursors, to, key)
            self.moves += 1

    def _chosen(self, place: int) -> dict[str, str]:
        return self.knows[place] if self._random.randrange(3) else {}

    def _insert(self, cursors: list[Any], place: int, key: int) -> None:
        source, table = PLACES[place]
        new = self._chosen(place)
        names = "".join(f", {name}" for name in new)
        values = "".join(f", {value}" for value in new.values())
        cursors[source].execute(
            f"INSERT INTO {table} (id, user_id, value, note{names})"
            f" VALUES ({key}, {key + self.writes % 2}, {self.writes}, ''{values})"
        )
        self._rows[key] = place

    def _remove(self, cursors: list[Any], place: int, key: int) -> None:
        cursors[PLACES[place][0]].execute(f"DELETE FROM {PLACES[place][1]} WHERE id = {key}")


@pytest.fixture
def group(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> Iterator[Grouped]:
    tables = ("orders", "orders_b")
    with closing(Grouped(box, kafka, tmp_path, unique("alter"), tables=tables, ddl="apply")) as made:
        made.migration.do("init")
        made.close_copy()
        made.migration.start()
        made.migration.wait(
            lambda: all(one["published"] for one in made.migration.ask("status")["sources"]), SLOW, "both sources"
        )
        yield made


def at(group: Grouped, place: int, *statements: str) -> None:
    """Run statements at a source table; {} stands for its name."""
    source, table = PLACES[place]
    group.sql(source, *(statement.format(table) for statement in statements))


def runs(group: Grouped) -> list[str]:
    """What the targets got, without where that stands, and that nothing is open."""
    last = group.migration.ask("ddl", "status")
    assert last["finished"] is not None
    found = [group.migration.ask("ddl", "status", "--run", str(one + 1)) for one in range(last["number"])]
    return [one["statement"].partition(" */ ")[2] for one in found]


def at_targets(group: Grouped, key: int) -> list[tuple[Any, ...]]:
    return [
        row
        for database in range(2)
        for row in group.target.query(
            f"SELECT extra, n, note FROM {group.name}_{database}.orders_{key % 2} WHERE id = {key}"
        )
    ]


def test_columns_come_to_the_targets_with_the_first_tables_statement_and_the_others_are_found_to_bring_the_same(
    group: Grouped,
) -> None:
    migration = group.migration
    at(group, 0, "INSERT INTO {} VALUES (1, 1, 1, ''), (2, 2, 2, '')")
    at(group, 3, "INSERT INTO {} VALUES (3, 3, 3, ''), (4, 4, 4, '')")
    group.drain()
    migration.stop()
    for place in (0, 2):  # two sources come to it at the same time
        at(group, place, f"ALTER TABLE {{}} {ADD}")
        row = f"INSERT INTO {{}} (id, user_id, value, note, extra, n) VALUES ({10 + place}, 1, 1, '', 'new', 7)"
        at(group, place, row, "UPDATE {} SET extra = 'x' WHERE id = 1")
    launcher.run_killed(migration, "after", "migrate.ddl.runner:begin", 1, *PUBLISH)
    launcher.run_killed(migration, "after", "migrate.ddl.step:send", 2, *PUBLISH)
    launcher.run_killed(migration, "before", "migrate.state.ddl:finish", 1, *PUBLISH)
    migration.start()
    group.drain()
    assert runs(group) == [f"ALTER TABLE orders {ADD}"]
    left = [f"{source}/{group.database}.orders_b" for source in ("second", "source")]
    assert migration.ask("ddl", "status")["group"] == {"name": "orders", "left": left}

    # A row moves from a table that has the columns to one that has not.
    assert at_targets(group, 1) == [("x", None, "")]
    at(group, 3, "INSERT INTO {} VALUES (1, 1, 1, 'moved')")
    at(group, 0, "DELETE FROM {} WHERE id = 1")
    group.drain()
    assert at_targets(group, 1) == [("none", None, "moved")]

    app = Application(group)
    app.knows = [{"extra": "'x'", "n": "5"} if place in (0, 2) else {} for place in range(4)]
    app.start()
    app.go_on()
    at(group, 0, f"ALTER TABLE {{}} {WIDEN}")  # before the two others have the column at all
    app.knows[0] = {"extra": "REPEAT('y', 50)"}
    app.go_on()
    at(group, 1, f"ALTER TABLE {{}} {ADD}")  # behind the first one's, in the same log
    app.knows[1] = {"n": "6"}
    killed = migration.kill("second")
    at(group, 3, f"ALTER TABLE {{}} {ADD}, COMMENT 'last'")
    app.knows[3] = {"extra": "'z'"}
    app.go_on()
    migration.wait(lambda: migration.pid("second") not in (None, killed), SLOW, "the publisher")
    for place in (3, 1, 2):
        at(group, place, f"ALTER TABLE {{}} {WIDEN}")
        app.knows[place] = {"extra": "REPEAT('w', 40)", "n": "8"}
    app.go_on()
    app.stop()
    group.drain()
    assert group.differences() == []
    assert runs(group) == [f"ALTER TABLE orders {ADD}", f"ALTER TABLE orders {WIDEN}"]
    assert migration.ask("status")["halted"] == []
    assert migration.ask("ddl", "status")["group"] == {"name": "orders", "left": []}

    renamed(group)


def renamed(group: Grouped) -> None:
    """The publisher stops in front of it; the way out that it names goes on with rows of both names."""
    migration = group.migration
    at(group, 2, "ALTER TABLE {} RENAME COLUMN n TO m", "UPDATE {} SET m = 100 LIMIT 3")
    at(group, 3, "UPDATE {} SET n = 200 LIMIT 3")  # behind it, in the same log
    (halted,) = migration.wait(lambda: migration.ask("status")["halted"], SLOW, "the publisher to stop")
    assert halted["process"] == "publish:second"
    assert "column `n` is there no more, and rows of the group's other tables still have it" in halted["reason"]
    assert "let the target tables take rows of both definitions" in halted["hint"]

    migration.ask("ddl", "run", "ALTER TABLE orders ADD COLUMN m INT", "--side", "targets")
    migration.stop()
    config = migration.config
    config.write_text(config.read_text("utf-8").replace("ddl: apply", "ddl: ignore"), "utf-8")
    migration.start()
    migration.wait(lambda: not migration.ask("status")["halted"], SLOW, "the publisher to go on")
    for place in (0, 1, 3):
        at(group, place, "UPDATE {} SET n = n + 1", "ALTER TABLE {} RENAME COLUMN n TO m")
    group.drain()
    migration.ask("ddl", "run", "ALTER TABLE orders DROP COLUMN n", "--side", "targets", "--allow-data-loss")
    assert migration.ask("verify", "--repair")["differences"] == 0
    assert group.differences() == []
