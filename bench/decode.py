"""Rows a second of the row decoder alone, on a real server's binlog of the demo's `orders` row.

    .venv/bin/python -m bench.decode [mariadb|mysql] [rows]

Starts a server of its own, fills `shop.orders` (10,000-row transactions), updates and deletes some rows, adds
one-row transactions, and decodes the binlog files three times from memory, on one core.
"""

from __future__ import annotations

import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from migrate.publish.decode.rows import (
    MARIADB_CHARSETS_SQL,
    MYSQL_CHARSETS_SQL,
    ROW_EVENTS,
    DecoderCache,
    charsets_from_rows,
)
from migrate.publish.decode.tablemap import peek_table_id
from sandbox.database import DatabaseServer
from sandbox.demo_data import create_orders
from sandbox.settings import Flavour

TABLE_MAP = 19
Event = tuple[int, bytes]
_COPY = "INSERT INTO orders SELECT {id}, user_id, order_no, amount, status, detail, created_at, updated_at,"
_COPY += " quantity, discount, note, payload FROM orders WHERE id = {seed}"


def events(path: Path) -> Iterator[Event]:
    """(type, body) of the table maps and row events of a binlog file; 19 bytes of header, 4 of checksum."""
    data, at = path.read_bytes(), 4
    while at < len(data):
        kind, size = data[at + 4], struct.unpack_from("<I", data, at + 9)[0]
        if kind == TABLE_MAP or kind in ROW_EVENTS:
            yield kind, data[at + 19 : at + size - 4]
        at += size


def fill(server: DatabaseServer, rows: int) -> None:
    create_orders(server, rows)
    server.execute(
        f"UPDATE orders SET quantity = quantity + 1, note = 'changed' WHERE id <= {rows // 5}",
        f"DELETE FROM orders WHERE id > {rows - rows // 20}",
        "FLUSH BINARY LOGS",
        *(_COPY.format(id=rows + number, seed=1 + number % 1000) for number in range(rows // 10)),
        "FLUSH BINARY LOGS",
        database="shop",
    )


def decode(found: list[Event], cache: DecoderCache) -> int:
    """Decode every row event; the number of rows."""
    maps: dict[int, bytes] = {}
    rows = 0
    for kind, body in found:
        if kind == TABLE_MAP:
            maps[peek_table_id(body)] = body
        else:
            rows += len(cache.get(maps[peek_table_id(body)]).decode(kind, body))
    return rows


def measure(flavour: Flavour, rows: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        server = DatabaseServer(flavour, Path(directory) / "db")
        server.start()
        try:
            fill(server, rows)
            mariadb = flavour is Flavour.MARIADB
            sql = MARIADB_CHARSETS_SQL if mariadb else MYSQL_CHARSETS_SQL
            charsets = charsets_from_rows(server.query(sql))
            files = sorted(server.data.glob("binlog.0*"))[-3:-1]
            logs = [list(events(path)) for path in files]
        finally:
            server.stop()
        for what, found in zip(("large transactions", "one-row transactions"), logs, strict=True):
            for _ in range(3):
                begin, cpu = time.perf_counter(), time.process_time()
                count = decode(found, DecoderCache(charsets, mariadb=mariadb))
                seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
                rate = f"{count / seconds:,.0f} rows/s, {count / cpu:,.0f} rows per CPU second"
                print(f"{flavour} {what}: {count} rows, {rate}")  # noqa: T201  what it is for


if __name__ == "__main__":
    flavours = [Flavour(sys.argv[1])] if len(sys.argv) > 1 else list(Flavour)
    for each in flavours:
        measure(each, int(sys.argv[2]) if len(sys.argv) > 2 else 200_000)
