"""A whole migration from MySQL to MariaDB, and one from MariaDB to MySQL: init, stream, copy, verification, check."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import Flow, wait
from tests.helpers import unique

pytestmark = pytest.mark.long

UCA = {"mysql": "utf8mb4_0900_ai_ci", "mariadb": "utf8mb4_uca1400_nopad_ai_ci"}
COLUMNS = (
    ", price DOUBLE NULL, ratio FLOAT NULL, amount DECIMAL(20,4) NULL, detail JSON NULL,"
    " note VARCHAR(50) COLLATE {uca}, status ENUM('new','paid') NULL, at DATETIME(3) NULL,"
    " seen TIMESTAMP(6) NULL, bits BIT(11) NULL, bin BINARY(6) NULL, g GEOMETRY NULL,"
    " latin VARCHAR(9) CHARACTER SET latin1 NULL"
)
MORE = (
    "verify: {master: 'local[2]', rechecks: 4, recheck_seconds: 0.5, chunk_rows: 150}\n"
    "copy: {chunk_rows: 200, master: 'local[2]'}\ncheck: {wait_seconds: 60}\n"
)
ROWS = 400


def document(of: str, number: str) -> str:
    """SQL for a document; on MySQL with scalars of types that JSON's text does not show."""
    plain = f"JSON_OBJECT('n', {number}, 'ü', JSON_ARRAY(1.5, 1e-9, NULL, 'two  '))"
    typed = f"JSON_OBJECT('price', 1.10, 'n', {number}, 'd', DATE'2006-02-15')"
    return f"IF({number} % 3 = 0, {typed}, {plain})" if of == "mysql" else plain


def fill(source: Any, database: str, first: int, rows: int) -> None:
    """Rows with even keys; numbers small and large, texts with spaces behind them, NULL and nothing."""
    source.execute(
        "SET SESSION cte_max_recursion_depth = 100000" if source.flavour == "mysql" else "DO 0",
        "INSERT INTO orders WITH RECURSIVE seq (n) AS"
        f" (SELECT 0 UNION ALL SELECT n + 1 FROM seq WHERE n + 1 < {rows})"
        f" SELECT {first} + 2 * n, n DIV 2, n, CONCAT('h', n),"
        " IF(n % 7 = 0, NULL, (n - 100) / 3e0 * POW(10, n % 60 - 40)),"
        " (n - 100) / 7e0 * POW(10, n % 40 - 30), IF(n % 5 = 0, 0, n / 3),"
        f" {document(source.flavour, 'n')}, ELT(1 + n % 4, CONCAT('n', n, ' '), '', NULL, 'É%s\\\\'),"
        " IF(n % 2, 'new', 'paid'), '2024-03-31 02:30:00.123', '2024-03-31 02:30:00.123456', n, x'612000',"
        " ST_GeomFromText(CONCAT('POINT(', n, ' -2.5)')), 'äö' FROM seq",
        database=database,
    )


@pytest.fixture
def flow(crossed: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> Iterator[Flow]:
    columns = COLUMNS.format(uca=UCA[crossed.source.flavour])
    with closing(
        Flow(crossed, kafka, tmp_path, unique("mixed"), crossed.source, more=MORE, columns=columns, lease=20)
    ) as flow:
        yield flow


def at_target(flow: Flow, database: int, *statements: str) -> None:
    flow.box.targets[database].execute(*statements, database=f"{flow.name}_{database}")


def named(found: Any) -> dict[str, tuple[str, str]]:
    """Kinds by key; where rows differ, also the columns."""
    kinds = {one["key"][0]: (one["kind"], one["detail"].rpartition(": ")[2]) for one in found}
    return {key: (kind, columns if kind == "different" else "") for key, (kind, columns) in kinds.items()}


def row(flow: Flow, key: int) -> tuple[int, int, str]:
    """Of a row its database, its table there, and a condition."""
    ((user, number),) = flow.box.source.query(f"SELECT user_id, id FROM {flow.database}.orders WHERE id = {key}")
    return user % 2, number % 2, f"id = {key}"


def plant(flow: Flow) -> dict[str, tuple[str, str]]:
    """Every kind of difference, each the smallest there is; what must be named."""
    planted: dict[str, tuple[str, str]] = {}

    def change(key: int, column: str, value: str) -> None:
        database, table, where = row(flow, key)
        at_target(flow, database, f"UPDATE orders_{table} SET {column} = {value} WHERE {where}")
        planted[str(key)] = ("different", column)

    at_target(flow, 0, "SELECT 1")
    change(1002, "price", "1.0000000000000003e-7")
    change(1004, "ratio", "-1.0000001e-8")
    change(1006, "amount", "NULL")
    change(1008, "detail", "REPLACE(detail, '1.5', '1.6')")
    change(1010, "detail", "REPLACE(detail, ': ', ':  ')") if flow.box.source.flavour == "mysql" else None
    change(1012, "note", "CONCAT(note, ' ')")
    change(1014, "note", "''")
    change(1016, "note", "'0'")
    change(1018, "note", "'e'")
    change(1020, "seen", "seen + INTERVAL 1 MICROSECOND")
    change(1022, "bin", "x'612001'")
    change(1024, "history", "'h9999999'")
    change(1028, "history", "'h0000024'")
    for key, found in ((1030, "missing"), (1032, "misplaced"), (1034, "duplicated")):
        database, table, where = row(flow, key)
        if found != "missing":
            at_target(flow, database, f"INSERT INTO orders_{1 - table} SELECT * FROM orders_{table} WHERE {where}")
        if found != "duplicated":
            at_target(flow, database, f"DELETE FROM orders_{table} WHERE {where}")
        planted[str(key)] = (found, "")
    at_target(flow, 1, "INSERT INTO orders_0 (id, user_id, value, history) VALUES (99998, 1, 1, '')")
    planted["99998"] = ("extra", "")
    return planted


@pytest.mark.timeout(900)
def test_a_migration_to_the_other_flavour_is_exact_and_its_verification_sees_every_planted_difference(
    flow: Flow, tmp_path: Path
) -> None:
    source = flow.box.source
    fill(source, flow.database, 2, ROWS)
    told = flow.migration.do("preflight")
    assert "collations that" in told
    flow.migration.do("init")
    flow.child("publish", "publish", "--source", "main")
    wait(flow.position, "the publisher to begin")
    for process in ("consume", "commit", "requeue"):
        flow.child(process, process)
    writer = flow.writer(lambda: source.connect(flow.database), 10_001)
    fill(source, flow.database, 20_002, ROWS)  # by the stream
    writer.wait_for(20)
    flow.migration.do("copy")
    source.execute("UPDATE orders SET value = value + 1, ratio = -1e-8 WHERE id % 10 = 4", database=flow.database)
    writer.wait_for(50)
    live = flow.migration.ask("verify", accept=(0, 1))
    assert live["differences"] == 0, "a live write is no difference"
    writer.wait_for(50)
    writer.stop()
    flow.drain()
    assert flow.differences(source) == []

    rows = [
        f"({key}, 1, 1, '{history}', 1.0000000000000002e-7, -1e-8, 0, {document(source.flavour, '1')}, {note})"
        for key, history, note in (
            *((key, "x", "'abc'") for key in (1002, 1004, 1006, 1008, 1010, 1012, 1020, 1022, 1030, 1032, 1034)),
            (1014, "x", "NULL"), (1016, "x", "''"), (1018, "x", "'é'"), (1024, "h0000024", "''"),
            (1028, "h9999999", "''"),
        )
    ]  # fmt: skip
    source.execute(
        "DELETE FROM orders WHERE id BETWEEN 1000 AND 1100",
        "INSERT INTO orders (id, user_id, value, history, price, ratio, amount, detail, note)"
        f" VALUES {', '.join(rows)}",
        "UPDATE orders SET seen = '2024-03-31 02:30:00.1', bin = x'6120' WHERE id BETWEEN 1000 AND 1100",
        database=flow.database,
    )
    flow.drain()
    assert flow.differences(source) == []
    assert flow.migration.ask("check", "--once")["differences"] == 0

    planted = plant(flow)
    checked = flow.migration.ask("check", "--once", accept=(1,))
    assert named(checked["named"]) == planted
    page = tmp_path / "paper.html"
    paper = flow.migration.ask("verify", "--repair", "--page", str(page))
    assert (paper["clean"], paper["repaired"], "MySQL and MariaDB" in paper["method"]) == (True, len(planted), True)
    assert named(paper["tables"][0]["mended"]) == planted
    assert all(f"<code>{key}</code>" in page.read_text("utf-8") for key in planted)
    assert flow.differences(source) == []
    again = tmp_path / "again.html"
    flow.migration.do("verify", "--show", "--page", str(again))
    assert again.read_text("utf-8").partition("</head>")[2] == page.read_text("utf-8").partition("</head>")[2]
    assert flow.migration.run("verify", "--mode", "count", "--page", str(again)).returncode == 2


OWN = {  # columns that only this flavour has; of a table made by hand; values
    "mariadb": (
        ", u UUID NULL, i INET6 NULL, v INET4 NULL",
        ", u CHAR(36) CHARACTER SET ascii NULL, i VARCHAR(39) CHARACTER SET ascii NULL,"
        " v VARCHAR(39) CHARACTER SET ascii NULL",
        ("'123e4567-e89b-12d3-a456-426655440000', '::ffff:1.2.3.4', '1.2.3.4'", "NULL, NULL, NULL"),
        "u = '123e4567-e89b-12d3-a456-426655440001'",
    ),
    "mysql": (
        ", v VECTOR(2) NULL",
        ", v VARBINARY(8) NULL",
        ("STRING_TO_VECTOR('[1,-0.0]')", "NULL"),
        "v = CONCAT(LEFT(v, 7), x'00')",
    ),
}


def test_types_that_the_target_has_not_go_into_tables_made_by_hand(
    crossed: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    source = crossed.source
    columns, by_hand, (values, nothing), other = OWN[source.flavour]
    with closing(Flow(crossed, kafka, tmp_path, unique("byhand"), source, more=MORE, columns=columns)) as flow:
        refused = flow.migration.run("init")
        assert refused.returncode == 3
        create = f"(id BIGINT UNSIGNED PRIMARY KEY, user_id BIGINT NOT NULL, value BIGINT NOT NULL{by_hand})"
        create = create.replace(by_hand, f", history MEDIUMTEXT COLLATE utf8mb4_bin NOT NULL{by_hand}")
        for number, server in enumerate(crossed.targets):
            server.execute(f"CREATE DATABASE {flow.name}_{number} CHARACTER SET utf8mb4")
            at_target(flow, number, *(f"CREATE TABLE orders_{table} {create}" for table in range(2)))
        flow.migration.do("init")
        flow.child("publish", "publish", "--source", "main")
        wait(flow.position, "the publisher to begin")
        flow.start_targets()
        rows = ", ".join(f"({key}, {key}, 1, 'h', {values if key % 3 else nothing})" for key in range(1, 20))
        source.execute(f"INSERT INTO orders VALUES {rows}", "DELETE FROM orders WHERE id = 7", database=flow.database)
        flow.drain()
        looked = flow.migration.ask("verify", "--mode", "order")
        assert (looked["tables"][0]["rows"], looked["tables"][0]["differences"]) == (18, 0)
        at_target(
            flow, 1, f"UPDATE orders_1 SET {other} WHERE id = 5", "UPDATE orders_1 SET history = 'H' WHERE id = 1"
        )
        looked = flow.migration.ask("verify", "--mode", "order", accept=(1,))
        columns = "u" if source.flavour == "mariadb" else "v"
        assert named(looked["tables"][0]["named"]) == {"1": ("different", "history"), "5": ("different", columns)}
