"""A row condition keeps the same rows in the server as on the texts of their images."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import product

import pytest

from migrate.model.errors import ConfigError
from migrate.model.rowfilter import Comparison, make_filter
from migrate.mysql.quoting import quote
from migrate.mysql.rowfilter import and_rows
from migrate.mysql.values import from_server, parameter, placeholder, selected
from sandbox.stack import Sandbox
from tests.helpers import catalog_table, scratch, session, unique

CASES: list[tuple[str, list[str | None], list[object]]] = [
    ("BIGINT", ["-9223372036854775808", "-1", "0", "9223372036854775807", None], [-1, 0, "7.5", 9223372036854775807]),
    ("BIGINT UNSIGNED", ["0", "9007199254740993", "18446744073709551615"], [9007199254740993, 9007199254740992, 2**64]),
    ("DECIMAL(65,30)", ["0." + "0" * 29 + "1", "1." + "0" * 30, "-7.5" + "0" * 29], [1, "0." + "0" * 29 + "1", -7.5]),
    ("BIT(64)", ["0", "9223372036854775808", "18446744073709551615"], [9223372036854775808, 0]),
    (
        "YEAR",
        ["0000", "1901", "1970", "2007", "2024", "2069", "2155"],
        [0, 1901, 2023, 2155, 70, 7, 69, 69.5, 99, 100, 1900, -1],
    ),
    ("INT(10) UNSIGNED ZEROFILL", ["7", "10", "4294967295"], [7, 10]),
    ("DATE", ["0000-00-00", "2024-00-00", "2024-02-29", None], ["2024-02-29", "0000-00-00"]),
    (
        "DATETIME(6)",
        ["0000-00-00 00:00:00.000000", "2024-02-29 23:59:59.000001"],
        ["2024-02-29", "2024-02-29 23:59:59"],
    ),
    ("DATE NOT NULL", ["0000-00-00", "2024-00-00", "2024-02-29"], ["2024-02-29", "0000-00-00"]),
    ("DATETIME(3) NOT NULL", ["0000-00-00 00:00:00.000", "2024-02-29 23:59:59.001"], ["0000-00-00", "2024-02-29"]),
    ("TIMESTAMP(3) NOT NULL", ["0000-00-00 00:00:00.000", "2024-02-29 23:59:59.001"], ["0000-00-00", "2024-02-29"]),
    ("TIMESTAMP(3) NULL", ["2024-03-31 01:30:00.001", "1970-01-01 00:00:01.000"], ["2024-03-31 01:30:00.001"]),
    ("VARCHAR(20) CHARACTER SET utf8mb4", ["", "a", "A", "a ", "é", "e", None], ["a", "", "é", "%s"]),
    ("CHAR(20) CHARACTER SET utf8mb3", ["", "a", "A", "€"], ["a", "€"]),
    ("ENUM('new','it''s','')", ["1", "2", "3", None], ["new", "it's", ""]),
]


@pytest.mark.parametrize("definition", [case[0] for case in CASES])
def test_the_server_and_the_texts_agree(box: Sandbox, definition: str) -> None:
    """Rows of the year 1970 that a server finds by 70, and zero dates that it finds by IS NULL, were copied and then
    deleted by the stream's next change, or called different for ever."""
    texts, values = next(case[1:] for case in CASES if case[0] == definition)
    with ExitStack() as stack:
        database = stack.enter_context(scratch(box.source, "rows"))
        writer = stack.enter_context(session(box.source, database))
        reader = stack.enter_context(session(box.source, database, raw_results=True))
        name = unique("f")
        writer.execute(f"CREATE TABLE {name} (n INT PRIMARY KEY AUTO_INCREMENT, {quote('v%')} {definition})")
        table = catalog_table(writer, database, name)
        column = table.by_name["v%"]
        for text in texts:
            mark = f"INSERT INTO {name} ({quote('v%')}) VALUES ({placeholder(column)})"
            writer.execute(mark, [parameter(column)(text)])
        rows = reader.query(f"SELECT n, {selected(column)} FROM {name}", [])
        images = {int(number): {"v%": from_server(column)(raw)} for number, raw in rows}
        assert [image["v%"] for image in images.values()] == texts
        judged = 0
        for comparison, value in product(Comparison, [*values, None]):
            listed = [value, values[0]] if comparison is Comparison.IN else [value]
            try:
                kept = make_filter(table, [("v%", comparison, listed)])
            except ConfigError:
                continue
            assert kept is not None
            where, arguments = and_rows("n > %s OR n < 0", [0], kept)
            found = {int(row[0]) for row in writer.query(f"SELECT n FROM {name} WHERE {where}", arguments)}
            here = {number for number, image in images.items() if kept.keeps(image)}
            assert found == here, (comparison, listed, where)
            judged += 1
        assert judged > len(values) * 2
