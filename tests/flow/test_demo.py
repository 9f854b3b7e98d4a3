"""The demo itself, small: equal at the end; differences made by hand are named; kills do not matter."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox.demo.migration import PROCESSES
from sandbox.demo.run import Demo, end, named, there_and_back
from sandbox.paths import PROJECT
from sandbox.settings import Flavour
from sandbox.stack import Sandbox
from tests.flow.jdbc import application, data_sources

_ORDERS = 4_000
_RULES = PROJECT / "tests" / "sharding" / "rules" / "demo.yaml"
_SHARDED = {
    "orders": ("id", "user_id"),
    "carts": ("id", "user_id"),
    "payment": ("payment_id", "customer_id"),
    "rental": ("rental_id", "customer_id"),
}
"""The demo's sharded tables: the key, and the column that says which database."""
pytestmark = [pytest.mark.long, pytest.mark.timeout(1500)]  # each test starts Spark; a slow machine is not a failure


@pytest.fixture(scope="module")
def demo_box(flavour: Flavour) -> Iterator[Sandbox]:
    with Sandbox(flavour, targets=2, kafka=True) as box:
        yield box


@pytest.fixture(scope="module")
def demo(demo_box: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """A demo after its copy, its writers and its drain, with every process killed once meanwhile."""
    made = Demo(demo_box, Path(tmp_path_factory.mktemp("demo")), _ORDERS, pause=0.02)
    made.load()
    made.prepare()
    try:
        made.start_writing()
        killed = {process: made.migration.kill(process) for process in PROCESSES}
        made.copy()
        killed |= {process: made.migration.kill(process) for process in reversed(PROCESSES)}
        changed = made.stop_writing()
        made.drain()
        assert changed > 100
        made.migration.wait(
            lambda: all(made.migration.pid(process) not in (None, pid) for process, pid in killed.items()),
            60,
            "every process to be started again",
        )
        yield made
    finally:
        made.migration.stop()


def differences(demo: Demo) -> list[tuple[str, str, str]]:
    """(table, key, kind) of each; the command must have told them by its exit code too."""
    done = demo.migration.run("verify", "--json")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    each = [(table, item["key"][0], item["kind"]) for table, item in named(found)]
    assert found["differences"] == len(each)
    return each


def test_with_every_process_killed_twice_while_writers_wrote_nothing_differs(demo: Demo) -> None:
    found = demo.verify()
    assert named(found) == []
    assert (found["clean"], found["differences"], found["in_motion"]) == (True, 0, 0)
    assert len(found["tables"]) == 18
    assert sum(table["rows"] for table in found["tables"]) > 47_000


def _first_order(demo: Demo) -> tuple[Any, str, str, int]:
    """Some order at the target: its server, database, table and id."""
    for number in range(4):
        server = demo.box.targets[number // 2]
        for table in range(4):
            rows = server.query(f"SELECT id FROM shop_{number}.orders_{table} ORDER BY id LIMIT 1")
            if rows:
                return server, f"shop_{number}", f"orders_{table}", int(rows[0][0])
    raise AssertionError("no orders at the target")


def test_what_was_broken_by_hand_is_named_with_table_and_key(demo: Demo) -> None:
    """A deleted row, a changed byte, and a change that was never published: all three found in one verification."""
    demo.drain()
    server, database, table, order = _first_order(demo)
    server.execute(f"DELETE FROM {table} WHERE id = {order}", database=database)
    demo.box.targets[0].execute("UPDATE film SET title = CONCAT(title, '.') WHERE film_id = 7", database="sakila")
    demo.migration.stop()  # too early: the publisher does not see what follows
    demo.box.source.execute("INSERT INTO language (name) VALUES ('Esperanto')", database="sakila")
    language = demo.box.source.query("SELECT MAX(language_id) FROM sakila.language")[0][0]
    assert sorted(differences(demo)) == sorted(
        [
            ("shop.orders", str(order), "missing"),
            ("sakila.film", "7", "different"),
            ("sakila.language", str(language), "missing"),
        ]
    )
    # so that the stream brings all three
    demo.box.source.execute(f"UPDATE orders SET quantity = quantity + 1 WHERE id = {order}", database="shop")
    demo.box.source.execute("UPDATE film SET length = length + 1 WHERE film_id = 7", database="sakila")
    demo.migration.start()
    demo.drain()


def test_the_application_goes_there_and_back_and_there_and_loses_no_acknowledged_write(
    demo: Demo, tmp_path: Path
) -> None:
    """To the end, as `make demo` does; the last, as nothing can be done with the migration afterwards."""
    moves = there_and_back(demo)
    assert (moves.lost, moves.differences) == ([], 0)
    assert [move.command for move in moves.made] == ["cutover", "rollback", "cutover"]
    assert all(move.gap > 0 for move in moves.made)
    assert moves.writes >= 480
    demo.migration.stop()
    end(demo.migration)
    assert demo.migration.ask("status")["stage"] == "finished"
    the_shards_are_shardingspheres(demo, tmp_path)


def the_shards_are_shardingspheres(demo: Demo, directory: Path) -> None:
    """An application in Java with the real jar finds every row, and writes where the demo's rules say."""
    places = {f"ds_{number}": (demo.box.targets[number // 2], f"shop_{number}") for number in range(4)}
    for server in demo.box.targets:
        server.execute("CREATE USER jar@'%' IDENTIFIED BY 'App-secret-1'", "GRANT ALL ON `shop\\_%`.* TO jar@'%'")
    rules = directory / "rules.yaml"
    rules.write_text(_RULES.read_text("utf-8") + data_sources(places, "jar", "App-secret-1"), "utf-8")
    with application(rules, directory / "jdbc.log") as jar:
        for table, (key, by) in _SHARDED.items():
            rows = at_shards(demo, table, key, by)
            assert sorted(jar.read(f"SELECT {key}, {by} FROM {table}")) == sorted((str(a), str(b)) for a, b in rows)
            assert jar.read(f"SELECT COUNT(*) FROM {table}") == [(str(len(rows)),)]
            for one in rows[:: len(rows) // 200 + 1]:
                assert len(jar.read(f"SELECT * FROM {table} WHERE {key} = ? AND {by} = ?", *one)) == 1, (table, one)
        cart = (900_001, 77)
        jar.write("INSERT INTO carts (id, user_id, value, history) VALUES (?, ?, 5, 'by the jar')", *cart)
        found = demo.box.targets[0].query("SELECT id, user_id FROM shop_1.carts_1 WHERE history = 'by the jar'")
        assert [tuple(map(int, row)) for row in found] == [cart]
        order = at_shards(demo, "orders", "id", "user_id")[0]
        assert jar.write("UPDATE orders SET quantity = quantity + 1 WHERE id = ? AND user_id = ?", *order) == 1
        assert jar.write("DELETE FROM orders WHERE id = ? AND user_id = ?", *order) == 1
        assert order not in at_shards(demo, "orders", "id", "user_id")


def at_shards(demo: Demo, table: str, key: str, by: str) -> list[tuple[int, int]]:
    return [
        (int(row[0]), int(row[1]))
        for number in range(4)
        for one in range(4)
        for row in demo.box.targets[number // 2].query(f"SELECT {key}, {by} FROM shop_{number}.{table}_{one}")
    ]
