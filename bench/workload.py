"""The rows that the capture benchmark moves: a 12-column `orders` table, filled and changed in large or in small
transactions."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from pymysql.cursors import Cursor

from sandbox.database import DatabaseServer

_TABLE = """CREATE TABLE {database}.orders(
 id bigint unsigned primary key, user_id bigint unsigned not null, order_no varchar(32) not null,
 status tinyint not null, amount decimal(12,2) not null, discount decimal(12,2), pay_channel enum('ali','wx','card'),
 note varchar(255), extra json, created_at datetime(3) not null, updated_at datetime(3) not null,
 deleted tinyint(1) not null default 0, key(user_id))"""
_INSERT = "INSERT INTO orders VALUES (%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s)"
_CHANGED = "UPDATE orders SET status = status + 1, updated_at = '2026-01-02 00:00:00' WHERE id BETWEEN {} AND {}"


@dataclass(frozen=True, slots=True)
class Workload:
    """Inserts, updates and deletes, so many rows each, and how many of them one transaction holds."""

    name: str
    inserts: int
    updates: int
    deletes: int
    insert_rows: int
    change_rows: int

    @property
    def database(self) -> str:
        return f"bench_{self.name}"

    @property
    def rows(self) -> int:
        return self.inserts + self.updates + self.deletes


def large(scale: float) -> Workload:
    """1,000-row inserts, 200-row updates and deletes: 375,000 rows at scale 1."""
    unit = max(1, round(300 * scale))
    return Workload("large", 1000 * unit, 200 * unit, 50 * unit // 200 * 200, 1000, 200)


def small(scale: float) -> Workload:
    """One row a transaction: 50,000 rows at scale 1."""
    unit = max(1, round(1000 * scale))
    return Workload("small", 40 * unit, 8 * unit, 2 * unit, 1, 1)


def huge(rows: int) -> Workload:
    """One transaction."""
    return Workload("huge", rows, 0, 0, rows, 1)


def create(server: DatabaseServer, load: Workload) -> None:
    create_table(server, load.database)


def create_table(server: DatabaseServer, database: str) -> None:
    """An empty table `orders` in a new database of that name."""
    server.execute(
        f"DROP DATABASE IF EXISTS {database}", f"CREATE DATABASE {database}", _TABLE.format(database=database)
    )


def fill(server: DatabaseServer, load: Workload) -> str:
    """Run the workload, in binlog files of its own; the name of the first of them."""
    server.execute("FLUSH BINARY LOGS")
    file = str(server.query("SHOW BINARY LOG STATUS")[0][0])
    numbers = random.Random(7)  # noqa: S311  the same rows each time
    with closing(server.connect(load.database, autocommit=False)) as connection, connection.cursor() as cursor:
        for first, last in _steps(1, load.inserts, load.insert_rows):
            insert(cursor, numbers, first, last)
            connection.commit()
        for first, last in _steps(1, load.updates, load.change_rows):
            cursor.execute(_CHANGED.format(first, last))
            connection.commit()
        for first, last in _steps(load.updates + 1, load.deletes, load.change_rows):
            cursor.execute(f"DELETE FROM orders WHERE id BETWEEN {first} AND {last}")
            connection.commit()
    server.execute("FLUSH BINARY LOGS")
    return file


def fill_at_once(server: DatabaseServer, load: Workload) -> None:
    """Insert all rows, made by the server from a thousand, a million a statement; a whole number of thousands."""
    numbers = random.Random(7)  # noqa: S311  the same rows each time
    columns = "user_id, order_no, status, amount, discount, pay_channel, note, extra, created_at, updated_at, deleted"
    server.execute("CREATE TABLE seed LIKE orders", database=load.database)
    with closing(server.connect(load.database)) as connection, connection.cursor() as cursor:
        cursor.executemany(_INSERT.replace("orders", "seed"), [row(numbers, number) for number in range(1, 1001)])
        for first in range(0, load.inserts // 1000, 1000):
            cursor.execute(
                f"INSERT INTO orders SELECT seed.id + ({first} + more.thousand) * 1000, {columns} FROM seed"
                f" JOIN (SELECT id - 1 AS thousand FROM seed WHERE id <= {load.inserts // 1000 - first}) AS more"
            )


def _steps(first: int, count: int, step: int) -> Iterator[tuple[int, int]]:
    for start in range(first, first + count, step):
        yield start, min(start + step, first + count) - 1


def insert(cursor: Cursor, numbers: random.Random, first: int, last: int) -> None:
    """The rows with these ids, without a commit."""
    for start, end in _steps(first, last - first + 1, 1000):
        cursor.executemany(_INSERT, [row(numbers, number) for number in range(start, end + 1)])


def row(numbers: random.Random, number: int) -> tuple[object, ...]:
    """The row with that id, in the order of the table's columns."""
    amount = f"{numbers.random() * 1000:.2f}"
    extra = f'{{"a": {number}, "b": "x"}}'
    at = "2026-01-01 00:00:00.123"
    return (
        number,
        numbers.randrange(1, 100000),
        f"NO{number:020d}",
        numbers.randrange(5),
        amount,
        None,
        "ali",
        f"note é {number}",
        extra,
        at,
        at,
        0,
    )
