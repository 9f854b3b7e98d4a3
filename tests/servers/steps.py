"""What is done with each pair of servers. Each step raises AssertionError where something is not as at the source, and
returns in a few words what it did.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pymysql

from migrate.chunks.chosen_tables import chosen_tables
from migrate.chunks.sessions import Sessions, forget
from migrate.model.chunk import Chunk
from migrate.state import database
from migrate.verify.chunk_check import CheckJob, compare_chunk
from sandbox.broker import KafkaBroker
from sandbox.database import DatabaseServer
from sandbox.stack import Sandbox
from tests.failover.replicated import replicated
from tests.failover.support import Flow, wait
from tests.helpers import scratch, unique
from tests.types.case import MARIADB, bytes_case, values
from tests.types.matrix import Case, cases_of
from tests.types.outcome import CellKey
from tests.types.special import special_tables
from tests.types.test_mixed import asked, seen, taken
from tests.types.ways import SESSION, Ways, Wide, streamed, wide_tables

MORE = (
    "verify: {rechecks: 5, recheck_seconds: 0.5, chunk_rows: 200, master: 'local[2]'}\n"
    "copy: {chunk_rows: 200, master: 'local[2]'}\n"
    "cutover: {stop: read_only, wait_seconds: 1, freeze_seconds: 60, max_lag_seconds: 60}\n"
)
COLUMNS = (
    ", price DOUBLE NULL, amount DECIMAL(20,4) NULL, note VARCHAR(50) CHARACTER SET utf8mb4 NULL,"
    " latin VARCHAR(9) CHARACTER SET latin1 NULL, status ENUM('new','paid') NULL, flags SET('a','b') NULL,"
    " at DATETIME(3) NULL, seen TIMESTAMP(6) NULL, bits BIT(11) NULL, bin BINARY(6) NULL, small TINYINT UNSIGNED NULL"
)

NEWER = (
    bytes_case(
        "VECTOR(3)", "VECTOR(3)", values("VEC_FromText('[1,-2.5,3e10]')", zero="VEC_FromText('[0,0,0]')"), MARIADB
    ),
)
"""Types of MariaDB since 10.11, the usual server."""


def refused_types(server: DatabaseServer, cases: Sequence[Case]) -> set[str]:
    """Names of those whose column a server does not have, or has with other values."""
    refused = set()
    with scratch(server, "had") as name, closing(server.connect(name)) as connection, connection.cursor() as cursor:
        for statement in SESSION:
            cursor.execute(statement)
        for case in cases:
            try:
                cursor.execute(f"CREATE TABLE t (c {case.type}) CHARACTER SET utf8mb4")
                for value in case.values:
                    cursor.execute(f"INSERT INTO t VALUES ({value})")
                cursor.execute(f"SELECT {case.exact.format('c')} FROM t")  # no arguments: % is %
            except pymysql.MySQLError:
                refused.add(case.name)
            cursor.execute("DROP TABLE IF EXISTS t")
    return refused


def tables_for(box: Sandbox) -> tuple[list[Wide], set[str]]:
    """Those of the matrix that both servers have, and the names of the types that one of them has not."""
    target = box.targets[0]
    alike, same = box.source.flavour == target.flavour, box.source.release == target.release
    known = [*cases_of(box.flavour), *(NEWER if box.flavour == "mariadb" else ())]
    cases = [one if alike and same else asked(one) for one in known if alike or taken(one)]
    special = special_tables()
    asked_of = [*cases, *(case for table in special for case in table.cases)]
    refused = refused_types(box.source, asked_of) | refused_types(target, asked_of)
    kept = [table for table in special if not refused.intersection(case.name for case in table.cases)]
    return [*wide_tables([one for one in cases if one.name not in refused]), *kept], refused


def types(box: Sandbox, kafka: KafkaBroker, directory: Path) -> str:
    """Every type that both have, by the stream, by the copy, and through the verification."""
    tables, refused = tables_for(box)
    with streamed(box, kafka, directory, tables) as ways:
        truth = seen(tables, {table.name: ways.truth(table) for table in tables})
        for copies in (False, True):
            if copies:
                ways.copy()
            found = seen(tables, {table.name: ways.found(table) for table in tables})
            wrong = {key: (value, found.get(key)) for key, value in truth.items() if value != found.get(key)}
            assert wrong == {}, _told(ways, wrong)
            assert found.keys() == truth.keys()
            _verified(ways)
    missing = f", {len(refused)} not there" if refused else ""
    return f"{sum(len(table.cases) for table in tables)} types, {len(truth)} values{missing}"


def _told(ways: Ways, wrong: dict[tuple[str, int, str], Any]) -> str:
    names = {(table.name, column): case.type for table in ways.tables for column, case in _pairs(table)}
    cells: dict[CellKey, Any] = {}
    for (table, key, column), pair in wrong.items():
        cells.setdefault((table, names[table, column]), (key, *pair))
    return f"{len(wrong)} values differ: {cells}"


def _pairs(table: Wide) -> Sequence[tuple[str, Case]]:
    return list(zip(table.columns, table.cases, strict=True))


def _verified(ways: Ways) -> None:
    """The verification calls nothing different."""
    settings = ways.settings
    state, sessions = database.engine(settings.state), Sessions(settings)
    try:
        for planned in chosen_tables(settings, state, None):
            checked = compare_chunk(CheckJob(settings, (planned,)), Chunk(0, None, None))
            assert checked.rows > 4
            assert list(checked.suspects.keys) == [], planned.table.full_name
    finally:
        forget()
        sessions.close()
        state.dispose()


def fill(box: Sandbox, schema: str, first: int, rows: int) -> None:
    """Rows with even keys from `first` on, of every column of `COLUMNS`; in words that every server has."""
    values = [
        f"({first + 2 * n}, {n // 2}, {n}, 'h{n}', {n}e0/7, {n}/3, {text}, 'äö', {1 + n % 2}, {n % 4},"
        f" '2024-03-31 02:30:00.123', '2024-03-31 02:30:00.123456', {n % 2000}, x'612000', {n % 256})"
        for n, text in ((n, ("NULL", "''", "'É%s\\\\'", f"'n{n} 🎁 '")[n % 4]) for n in range(rows))
    ]
    for start in range(0, rows, 200):
        box.source.execute(f"INSERT INTO orders VALUES {', '.join(values[start : start + 200])}", database=schema)


def flow(box: Sandbox, kafka: KafkaBroker, directory: Path, *, back: bool = True) -> str:
    """Preflight, stream and copy beside a writer, verification; then a cutover, and where `back` a rollback."""
    name = unique("pair")
    with closing(Flow(box, kafka, directory, name, box.source, more=MORE, columns=COLUMNS, lease=20)) as made:
        migration, source = made.migration, box.source
        fill(box, made.database, 20_002, 400)
        told = migration.do("preflight")
        migration.do("init")
        made.child("publish", "publish", "--source", "main")
        wait(made.position, "the publisher to begin")
        for process in ("consume", "commit", "requeue"):
            made.child(process, process)
        writer = made.writer(lambda: source.connect(made.database), 101)
        fill(box, made.database, 40_002, 400)
        writer.wait_for(20)
        migration.do("copy")
        source.execute("UPDATE orders SET value = value + 1, note = 'u' WHERE id % 10 = 4", database=made.database)
        writer.wait_for(30)
        writer.stop()
        made.drain()
        assert made.differences(source) == []
        assert migration.ask("verify")["clean"] is True
        box.targets[0].execute("UPDATE orders_0 SET latin = 'ä' WHERE id = 20002", database=f"{made.name}_0")
        assert migration.ask("verify", accept=(1,))["differences"] == 1
        assert migration.ask("verify", "--repair")["clean"] is True
        assert made.differences(source) == []
        rows = len(made.source_rows(source))
        if back:
            _there_and_back(made, box)
        return f"{rows} rows, preflight: {told.count('note')} notes"


def _there_and_back(made: Flow, box: Sandbox) -> None:
    made.start_reverse()
    migration, source = made.migration, box.source
    try:
        migration.ask("verify")
        migration.ask("cutover")
        insert = "INSERT INTO orders_1 (id, user_id, value, history) VALUES"
        box.targets[0].execute(f"{insert} (5001, 2, 7, 'new side')", database=f"{made.name}_0")
        box.targets[1].execute("UPDATE orders_0 SET value = 99 WHERE id = 20004", database=f"{made.name}_1")
        box.targets[0].execute("DELETE FROM orders_0 WHERE id = 20010", database=f"{made.name}_0")
        migration.ask("rollback")
        assert made.source_rows(source)[5001][:4] == (5001, 2, 7, "new side")
        assert made.differences(source) == []
        source.execute(
            "INSERT INTO orders (id, user_id, value, history) VALUES (5003, 1, 8, 'old side')", database=made.database
        )
        migration.ask("cutover")
        assert made.differences(source) == []
    finally:
        for server in (source, *box.targets):
            server.execute("SET GLOBAL read_only = 0")


def failover(box: Sandbox, kafka: KafkaBroker, directory: Path, root: Path) -> str:
    """The source's server goes in the middle of writes; the publisher goes on at its replica, and nothing is lost."""
    with replicated(box, kafka, directory, root) as made:
        made.write(1)
        made.written(60)
        made.fail_over()
        made.written(60)
        wait(made.switched, "the publisher to go on")
        made.check()
        assert made.flow.position()["incarnation"] == 2
        by = "GTID" if made.flow.position()["gtid_set"] else "time"
    return f"by {by}"
