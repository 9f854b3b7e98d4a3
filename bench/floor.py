"""The floor: the workload's rows into the same places with nothing around, as fast as one session writes them."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from bench import workload
from bench.consumer import DATABASES, TABLES
from bench.topic import cpu_seconds
from bench.workload import Workload
from sandbox.database import DatabaseServer

_STATEMENT_ROWS = 1000
_COLUMNS = (
    "id",
    "user_id",
    "order_no",
    "status",
    "amount",
    "discount",
    "pay_channel",
    "note",
    "extra",
    "created_at",
    "updated_at",
    "deleted",
)
Row = tuple[object, ...]
Places = dict[tuple[int, int], list[Row]]


@dataclass(frozen=True, slots=True)
class Written:
    """The inserts of the workload; a commit a statement of a thousand rows."""

    rows: int
    seconds: float
    cpu_target: float  # seconds of the target's server

    def figures(self) -> dict[str, float]:
        return {
            "rows": self.rows,
            "rows_per_second": round(self.rows / self.seconds),
            "cpu_seconds_of_target": round(self.cpu_target, 2),
        }


def measure(target: DatabaseServer, load: Workload, directory: Path) -> dict[str, Written]:
    """Both ways, one after the other, each into empty tables. The statements are made before the clock starts."""
    numbers = random.Random(7)  # noqa: S311  the same rows each time
    rows: Places = {}
    for number in range(1, load.inserts + 1):
        row = workload.row(numbers, number)
        rows.setdefault((int(str(row[1])) % DATABASES, number % TABLES), []).append(row)
    target.execute("SET GLOBAL local_infile = 1")
    return {
        "multi-row upsert": _write(target, load, "upsert", _upserts(target, rows)),
        "load data": _write(target, load, "load", _loads(directory, rows)),
    }


def _parts(rows: Places, name: str) -> Iterator[tuple[str, list[Row]]]:
    """A table and a thousand of its rows, all tables in turn, as a stream brings them."""
    for start in range(0, max(map(len, rows.values())), _STATEMENT_ROWS):
        for (database, table), some in rows.items():
            if part := some[start : start + _STATEMENT_ROWS]:
                yield f"floor_{name}_{database}.orders_{table}", part


def _upserts(target: DatabaseServer, rows: Places) -> list[str]:
    taken = ", ".join(f"{name} = VALUES({name})" for name in _COLUMNS)
    with closing(target.connect()) as connection:
        return [
            f"INSERT INTO {place} VALUES "
            + ",".join(f"({','.join(map(connection.literal, row))})" for row in part)
            + f" ON DUPLICATE KEY UPDATE {taken}"
            for place, part in _parts(rows, "upsert")
        ]


def _loads(directory: Path, rows: Places) -> list[str]:
    statements = []
    for number, (place, part) in enumerate(_parts(rows, "load")):
        file = directory / f"floor-{number}.tsv"
        lines = ("\t".join("\\N" if value is None else str(value) for value in row) for row in part)
        file.write_text("\n".join(lines) + "\n", "utf-8")
        statements.append(f"LOAD DATA LOCAL INFILE '{file}' REPLACE INTO TABLE {place} CHARACTER SET utf8mb4")
    return statements


def _write(target: DatabaseServer, load: Workload, name: str, statements: Sequence[str]) -> Written:
    for database in range(DATABASES):
        there = f"floor_{name}_{database}"
        workload.create_table(target, there)
        copies = (f"CREATE TABLE {there}.orders_{table} LIKE {there}.orders" for table in range(TABLES))
        target.execute(*copies)
    with closing(target.connect(local_infile=True)) as connection, connection.cursor() as cursor:
        began, cpu = time.monotonic(), cpu_seconds(target.pid)
        for statement in statements:
            cursor.execute(statement)
        took, spent = time.monotonic() - began, cpu_seconds(target.pid) - cpu
        counts = (
            f"SELECT COUNT(*) AS n FROM floor_{name}_{database}.orders_{table}"
            for database in range(DATABASES)
            for table in range(TABLES)
        )
        cursor.execute(f"SELECT SUM(n) FROM ({' UNION ALL '.join(counts)}) AS counts")
        (found,) = cursor.fetchone() or (0,)
    if found != load.inserts:
        raise AssertionError(f"{name}: {found} rows arrived, not {load.inserts}")
    return Written(load.inserts, took, spent)
