"""The application that keeps writing: every kind of change, on the orders and on Sakila."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import pymysql

from sandbox.database import DatabaseServer

Change = Callable[["Writer"], int]
_IGNORED = frozenset({1062, 1213, 1205, 167, 1264, 1467})
"""A key taken meanwhile, a lost race, a SMALLINT key used up: the application would go on too."""


class Writer(threading.Thread):
    """One session that changes rows until `stop()`; `changes` counts the rows it changed."""

    def __init__(self, source: DatabaseServer, seed: int, pause: float = 0.002) -> None:
        super().__init__(name=f"writer-{seed}", daemon=True)
        self._source = source
        self._random = random.Random(seed)
        self._pause = pause
        self._ended = threading.Event()
        self._next_id = 10_000_000 * seed
        self.changes = 0
        self.failure: BaseException | None = None

    def stop(self) -> None:
        """End the writing, and raise what ended it early if anything did."""
        self._ended.set()
        self.join()
        if self.failure is not None:
            raise self.failure

    def run(self) -> None:
        try:
            with self._source.connect() as self._connection:
                while not self._ended.is_set():
                    self._change()
                    self._ended.wait(self._pause)
        except BaseException as error:
            self.failure = error

    def _change(self) -> None:
        change = self._random.choice(CHANGES)
        try:
            self.changes += change(self)
        except pymysql.MySQLError as error:
            if error.args[0] not in _IGNORED:
                raise

    def execute(self, sql: str, *args: Any) -> int:
        """Rows the statement changed."""
        with self._connection.cursor() as cursor:
            return int(cursor.execute(sql, args))

    def one(self, sql: str, *args: Any) -> int | None:
        with self._connection.cursor() as cursor:
            cursor.execute(sql, args)
            row = cursor.fetchone()
            return int(row[0]) if row else None

    def new_id(self) -> int:
        self._next_id += 1
        return self._next_id

    def below(self, limit: int) -> int:
        return self._random.randint(1, limit)

    def order(self) -> int | None:
        """Some order's id, old or new."""
        start = self.below(250_000) if self._random.random() < 0.5 else self._next_id - self.below(500)
        return self.one("SELECT id FROM shop.orders WHERE id >= %s ORDER BY id LIMIT 1", start)

    def payment(self) -> int | None:
        start = self.below(16_000)
        return self.one(
            "SELECT payment_id FROM sakila.payment WHERE payment_id >= %s ORDER BY payment_id LIMIT 1", start
        )


def _insert_orders(writer: Writer) -> int:
    rows = [
        (writer.new_id(), writer.below(50_000), writer.below(10**9) / 7, f'{{"n": {writer.below(9)}, "s": "é🎁"}}')
        for _ in range(writer.below(5))
    ]
    marks = ", ".join(["(%s, %s, 'SO-new', %s, 'new', %s, NOW(3), 1, 0.1, NULL, x'00ff00')"] * len(rows))
    return writer.execute(
        "INSERT INTO shop.orders (id, user_id, order_no, amount, status, detail, created_at, quantity, discount, note,"
        f" payload) VALUES {marks}",
        *(value for row in rows for value in row),
    )


def _update_order(writer: Writer) -> int:
    return writer.execute(
        "UPDATE shop.orders SET amount = amount + 0.0001, status = 'paid', note = %s, quantity = quantity + 1"
        " WHERE id = %s",
        f"seen {writer.below(1000)} times",
        writer.order(),
    )


def _update_many_orders(writer: Writer) -> int:
    return writer.execute("UPDATE shop.orders SET discount = discount / 3 WHERE id > %s LIMIT 20", writer.order())


def _delete_order(writer: Writer) -> int:
    return writer.execute("DELETE FROM shop.orders WHERE id = %s", writer.order())


def _delete_and_insert_again(writer: Writer) -> int:
    order = writer.order()
    changed = writer.execute("DELETE FROM shop.orders WHERE id = %s", order)
    if not changed:
        return 0
    return changed + writer.execute(
        "INSERT INTO shop.orders (id, user_id, order_no, amount, status, detail, created_at, quantity, discount,"
        " payload) VALUES (%s, %s, 'SO-again', 1, 'done', '[]', NOW(3), 0, 0, '')",
        order,
        writer.below(50_000),
    )


def _change_order_key(writer: Writer) -> int:
    return writer.execute("UPDATE shop.orders SET id = %s WHERE id = %s", writer.new_id(), writer.order())


def _change_order_shard(writer: Writer) -> int:
    return writer.execute("UPDATE shop.orders SET user_id = %s WHERE id = %s", writer.below(50_000), writer.order())


def _insert_payment(writer: Writer) -> int:
    return writer.execute(
        "INSERT INTO sakila.payment (customer_id, staff_id, rental_id, amount, payment_date)"
        " VALUES (%s, %s, NULL, %s, NOW())",
        writer.below(599),
        writer.below(2),
        writer.below(90_000) / 100,
    )


def _update_payment(writer: Writer) -> int:
    return writer.execute("UPDATE sakila.payment SET amount = amount + 0.01 WHERE payment_id = %s", writer.payment())


def _delete_payment(writer: Writer) -> int:
    return writer.execute("DELETE FROM sakila.payment WHERE payment_id = %s", writer.payment())


def _change_payment_key(writer: Writer) -> int:
    new = 20_000 + writer.below(10_000)
    return writer.execute("UPDATE sakila.payment SET payment_id = %s WHERE payment_id = %s", new, writer.payment())


def _change_payment_shard(writer: Writer) -> int:
    return writer.execute(
        "UPDATE sakila.payment SET customer_id = %s WHERE payment_id = %s", writer.below(599), writer.payment()
    )


def _return_rental(writer: Writer) -> int:
    return writer.execute(
        "UPDATE sakila.rental SET return_date = NOW(), customer_id = %s WHERE rental_id = %s",
        writer.below(599),
        writer.below(16_000),
    )


def _recast(writer: Writer) -> int:
    """An actor of one film goes over to another: both columns are the key."""
    film, other = writer.below(1000), writer.below(1000)
    actor = writer.one("SELECT actor_id FROM sakila.film_actor WHERE film_id = %s LIMIT 1", film)
    return writer.execute(
        "UPDATE sakila.film_actor SET film_id = %s WHERE actor_id = %s AND film_id = %s", other, actor, film
    )


def _describe_film(writer: Writer) -> int:
    """A trigger writes the same into film_text."""
    return writer.execute(
        "UPDATE sakila.film SET description = %s, rating = 'NC-17', special_features = 'Trailers,Deleted Scenes'"
        " WHERE film_id = %s",
        f"Described {writer.below(1000)} times",
        writer.below(1000),
    )


def _categorise(writer: Writer) -> int:
    return writer.execute(
        "UPDATE sakila.film_category SET category_id = %s WHERE film_id = %s", writer.below(16), writer.below(1000)
    )


def _several_in_one_transaction(writer: Writer) -> int:
    writer.execute("BEGIN")
    changed = sum(change(writer) for change in (_insert_orders, _update_order, _insert_payment, _change_order_shard))
    writer.execute("COMMIT")
    return changed


CHANGES: tuple[Change, ...] = (
    _insert_orders,
    _insert_orders,
    _update_order,
    _update_order,
    _update_many_orders,
    _delete_order,
    _delete_and_insert_again,
    _change_order_key,
    _change_order_shard,
    _insert_payment,
    _update_payment,
    _delete_payment,
    _change_payment_key,
    _change_payment_shard,
    _return_rental,
    _recast,
    _describe_film,
    _categorise,
    _several_in_one_transaction,
)
