"""Pages of every kind of key, on real servers: no gap, no overlap, none too large, and no table scan."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

import pytest

from migrate.chunks.keyrange import condition
from migrate.chunks.planner import Planner
from migrate.model.change import Key
from migrate.model.chunk import Chunk
from migrate.model.table import Table
from migrate.mysql.catalog import load_table
from migrate.mysql.connection import Connection, connect
from migrate.mysql.keys import order
from migrate.mysql.quoting import table as full_name
from migrate.mysql.values import from_server, selected
from sandbox.stack import Sandbox
from tests.helpers import scratch, server_of, session, unique

_ROWS = 7


@dataclass(frozen=True)
class Case:
    name: str
    columns: str
    key: str
    values: str  # a SELECT's fields, over n = 0 …
    rows: int = 40


CASES = [
    Case(
        "integer with gaps of billions",
        "k BIGINT UNSIGNED",
        "k",
        "IF(n < 20, n, 18446744073709551615 - n * 5000000000)",
    ),
    Case("negative integer", "k INT", "k", "n * 100000 - 2000000"),
    Case("one row", "k INT", "k", "n", 1),
    Case("as many rows as a page", "k INT", "k", "n", _ROWS),
    Case("two full pages", "k INT", "k", "n", 2 * _ROWS),
    Case("no row", "k INT", "k", "n", 0),
    Case("zerofill", "k INT(8) ZEROFILL", "k", "n * 3"),
    Case(
        "composite",
        "a INT, b VARCHAR(9), c DATE",
        "a, b, c",
        "n DIV 15, CONCAT('b', n DIV 5 MOD 3), '2020-01-01' + INTERVAL n DAY",
    ),
    Case("composite with one first part", "a INT, k INT", "a, k", "1, n"),
    Case("varchar general_ci", "k VARCHAR(20) COLLATE utf8mb4_general_ci", "k", "CONCAT(IF(n MOD 2, 'É', 'z'), n)"),
    Case("varchar unicode_ci", "k VARCHAR(20) COLLATE utf8mb4_unicode_ci", "k", "CONCAT(IF(n MOD 2, 'ß', 'SZ '), n)"),
    Case(
        "latin1 of a collation not its default",
        "k VARCHAR(9) CHARACTER SET latin1 COLLATE latin1_general_cs",
        "k",
        "CONCAT(IF(n MOD 2, 'é', 'E'), n)",
    ),
    Case("quotes and percent signs", "k VARCHAR(20)", "k", "CONCAT('%s''\\\\', n)"),
    Case("binary", "k BINARY(16)", "k", "UNHEX(LEFT(SHA2(n, 256), 32))"),
    Case("varbinary with trailing zeros", "k VARBINARY(9)", "k", "CONCAT(n MOD 10, REPEAT(CHAR(0), n DIV 10))"),
    Case(
        "decimal beyond a double",
        "k DECIMAL(40,10)",
        "k",
        "CAST('12345678901234567890.0000000001' AS DECIMAL(40,10)) + n * 0.0000000001",
    ),
    Case("datetime(6)", "k DATETIME(6)", "k", "'2020-01-01 00:00:00.000001' + INTERVAL n MICROSECOND"),
    Case("timestamp", "k TIMESTAMP(3) DEFAULT '2000-01-01'", "k", "'2020-03-29 00:30:00' + INTERVAL n * 5 MINUTE"),
    Case("time", "k TIME(2)", "k", "SEC_TO_TIME(n * 1000 - 20000)"),
    Case("year", "k YEAR", "k", "IF(n = 0, 0, 1950 + n)"),
    Case("bit", "k BIT(64)", "k", "IF(n < 20, n, 18446744073709551615 - n)"),
    Case("double", "k DOUBLE", "k", "n / 7e0 - 2"),
    Case("enum", "k ENUM('z','y','x','w','v','u','t','s','r','q')", "k", "1 + n", 10),
    Case("set", "k SET('a','b','c','d','e')", "k", "n", 32),
    Case("name with backtick and percent", "`a``%s` INT", "`a``%s`", "n"),
]
MARIADB = [
    Case("uuid", "k UUID", "k", "CONCAT(LEFT(SHA2(n, 256), 8), '-1111-2222-3333-444444444444')"),
    Case("inet6", "k INET6", "k", "CONCAT('2001:db8::', HEX(n * 999))"),
]
MYSQL = [
    Case("varchar 0900_ai_ci", "k VARCHAR(20) COLLATE utf8mb4_0900_ai_ci", "k", "CONCAT(IF(n MOD 2, 'É', 'z '), n)")
]


@contextmanager
def made(box: Sandbox, case: Case) -> Iterator[tuple[Connection, Table]]:
    """The case's table on the source, and a session that gives raw results."""
    database = unique("plan")
    box.source.execute(f"CREATE DATABASE {database} CHARACTER SET utf8mb4")
    connection = connect(server_of(box.source), "source", database=database)
    columns = ", ".join(f"{part} NOT NULL" if "DEFAULT" not in part else part for part in _parts(case.columns))
    create = f"CREATE TABLE t ({columns}, v INT, PRIMARY KEY ({case.key}))"
    connection.execute(create.replace("%", "%%"))
    numbers = "WITH RECURSIVE seq (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM seq WHERE n < %s)"
    if case.rows:
        fields = case.values.replace("%", "%%")
        connection.execute(f"INSERT INTO t {numbers} SELECT {fields}, n FROM seq", [case.rows - 1])
    found = load_table(connection, "main", database, "t")
    connection.close()
    raw = connect(server_of(box.source), "source", raw_results=True)
    yield raw, found
    raw.close()
    box.source.execute(f"DROP DATABASE {database}")


def _parts(columns: str) -> list[str]:
    """Column definitions, split at commas outside brackets."""
    depth, parts = 0, [""]
    for character in columns:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def keys_in(connection: Connection, table: Table, low: Key | None, high: Key | None) -> list[Key]:
    fields = ", ".join(selected(column) for column in table.key_columns)
    where, arguments = condition(table, low, high)
    name = full_name(table.database, table.name)
    rows = connection.query(f"SELECT {fields} FROM {name} WHERE {where} ORDER BY {order(table)}", arguments)
    readers = [from_server(column) for column in table.key_columns]
    return [tuple(str(read(value)) for read, value in zip(readers, row, strict=True)) for row in rows]


def check_pages(connection: Connection, table: Table, pages: list[Chunk], expected: list[Key]) -> None:
    """Every key in exactly one page, in the server's order, at most `_ROWS` a page, and pages that join."""
    assert [page.number for page in pages] == list(range(len(pages)))
    assert [page.low for page in pages[1:]] == [page.high for page in pages[:-1]]
    found = [keys_in(connection, table, page.low, page.high) for page in pages]
    assert [key for keys in found for key in keys] == expected
    assert all(len(keys) <= _ROWS for keys in found)


def cases(box: Sandbox) -> list[Case]:
    return [*CASES, *(MARIADB if box.source.flavour == "mariadb" else MYSQL)]


@pytest.mark.parametrize("case", [*CASES, *MARIADB, *MYSQL], ids=lambda case: case.name)
def test_pages_cover_each_key_once(box: Sandbox, case: Case) -> None:
    if case not in cases(box):
        pytest.skip("the other flavour's type")
    with made(box, case) as (connection, table):
        planner = Planner(connection, table, _ROWS)
        everything = keys_in(connection, table, None, None)
        assert len(everything) == case.rows
        assert planner.last_key() == (everything[-1] if everything else None)

        copied = list(planner.copied(0, None, planner.last_key()))
        assert len(copied) == -(-case.rows // _ROWS)
        check_pages(connection, table, copied, everything)

        covering = list(planner.covering())
        assert (covering[0].low, covering[-1].high) == (None, None)
        check_pages(connection, table, covering, everything)


def test_planning_goes_on_behind_a_bound_and_stops_at_the_last_key_of_its_beginning(box: Sandbox) -> None:
    with made(box, Case("plain", "k INT", "k", "n * 10", 20)) as (connection, table):
        planner = Planner(connection, table, _ROWS)
        pages = planner.copied(5, ("60",), ("150",))
        assert list(pages) == [Chunk(5, ("60",), ("130",)), Chunk(6, ("130",), ("150",))]
        assert list(planner.copied(7, ("150",), ("150",))) == []
        assert list(planner.copied(7, ("195",), ("199",))) == []  # keys that went meanwhile


@pytest.mark.parametrize("columns", ["k INT", "a INT, k INT"])
def test_a_page_far_into_the_table_reads_only_its_own_entries_of_the_index(box: Sandbox, columns: str) -> None:
    """One value of the first part in every row: the worst case for a composite key."""
    key = ", ".join(part.split()[0] for part in columns.split(", "))
    values = "n" if key == "k" else "1, n"
    with made(box, Case("many", columns, key, values, 900)) as (connection, table):
        low: Key = ("800",) if key == "k" else ("1", "800")
        until: Key = ("899",) if key == "k" else ("1", "899")
        connection.query("FLUSH STATUS")
        assert len(list(Planner(connection, table, 50).copied(0, low, until))) == 2
        handlers = connection.query("SHOW SESSION STATUS LIKE 'Handler_read%%'")
        assert sum(int(row[1]) for row in handlers) < 250


@pytest.mark.parametrize("first", ["sparse", "dense"])
def test_pages_over_two_tables_leave_no_key_of_either_out_and_are_large_in_none(box: Sandbox, first: str) -> None:
    with (
        made(box, Case("sparse", "k INT", "k", "n * 1000", 20)) as (one, sparse),
        made(box, Case("dense", "k INT", "k", "n + 3000", 40)) as (other, dense),
    ):
        planners = [Planner(one, sparse, _ROWS), Planner(other, dense, _ROWS)]
        if first == "dense":
            planners.reverse()
        pages = list(planners[0].covering(others=planners[1:]))
        assert (pages[0].low, pages[-1].high) == (None, None)
        for connection, table in ((one, sparse), (other, dense)):
            check_pages(connection, table, pages, keys_in(connection, table, None, None))
        again = list(planners[0].covering(4, pages[3].high, planners[1:]))
        for connection, table in ((one, sparse), (other, dense)):
            check_pages(connection, table, [*pages[:4], *again], keys_in(connection, table, None, None))


def test_a_page_reads_no_more_keys_than_it_has_whatever_other_indexes_there_are(box: Sandbox) -> None:
    with box_table(box) as (reader, table):
        read = "SHOW SESSION STATUS WHERE Variable_name IN ('Handler_read_next', 'Handler_read_key')"

        def keys_read() -> int:
            return sum(int(row[1]) for row in reader.query(read))

        planner = Planner(reader, table, 4000)
        before = keys_read()
        assert planner.page_end(("1000",), ("19000",)) == ("5000",)
        assert keys_read() - before < 5000, "it read keys beyond the page"


@contextmanager
def box_table(box: Sandbox) -> Iterator[tuple[Connection, Table]]:
    """20,000 rows, with a further index of few values, which covers the key."""
    with scratch(box.source, "pages") as database:
        box.source.execute(
            "CREATE TABLE t (id INT PRIMARY KEY, few INT NOT NULL, pad CHAR(100) NOT NULL, KEY (few))",
            f"CREATE UNIQUE INDEX alike ON t (id) {'INVISIBLE' if box.flavour == 'mysql' else 'IGNORED'}",
            "INSERT INTO t WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 1000)"
            " SELECT a.n + 1000 * (b.n - 1), a.n MOD 5, REPEAT('x', 100) FROM s a JOIN s b ON b.n <= 20",
            "ANALYZE TABLE t",
            database=database,
        )
        with session(box.source) as plain:
            table = load_table(plain, "main", database, "t")
        with closing(connect(server_of(box.source), "source", raw_results=True)) as reader:
            yield reader, table
