"""Whole table layouts on the real servers: many columns, many NULLs, every DECIMAL, odd names, partitions."""

from __future__ import annotations

import pytest
from decode_support import RawEvent, changes, decoder_cache, run, select, server_variables

from migrate.model.errors import StopError
from migrate.publish.decode.rows import Image
from migrate.publish.decode.tablemap import parse_table_map
from sandbox.settings import Flavour
from sandbox.stack import Sandbox
from tests.types.matrix import Case, printed_cases_of

DATABASE = "decode_layouts"


def after_images(box: Sandbox, events: list[RawEvent]) -> list[Image | None]:
    return [after for _, after in changes(decoder_cache(box.source), events)]


def printed(row: tuple[object, ...]) -> Image:
    return tuple(None if value is None else str(value) for value in row)


def fitting(flavour: str) -> list[Case]:
    """The types that fit into one row of 65,535 bytes together."""
    large = ("VARCHAR(16000)", "VARBINARY(60000)", "COMPRESSED", "VECTOR(16383)", "ENUM of 3000")
    many = ("CHAR(100)", "VARCHAR(100)")
    return [
        case
        for case in printed_cases_of(flavour)
        if not any(name in case.name for name in large) and not case.type.startswith(many)
    ]


def test_a_row_of_every_type_is_decoded_with_any_column_null(box: Sandbox) -> None:
    cases = fitting(box.source.flavour)
    columns = ", ".join(f"c{number} {case.type}" for number, case in enumerate(cases))
    rows = [[case.values[index % len(case.values)] for case in cases] for index in range(10)]
    rows += [
        ["NULL" if pattern >> number % 7 & 1 else case.values[0] for number, case in enumerate(cases)]
        for pattern in range(1, 128)
    ]
    inserts = [f"INSERT INTO wide VALUES ({number}, {', '.join(row)})" for number, row in enumerate(rows)]

    events = run(box.source, DATABASE, f"CREATE TABLE wide (id INT PRIMARY KEY, {columns})", *inserts)

    selected = ", ".join(case.select.format(f"c{number}") for number, case in enumerate(cases))
    expected = [
        (str(key), *(None if text is None else case.read(str(text)) for case, text in zip(cases, texts, strict=True)))
        for key, *texts in select(box.source, f"SELECT id, {selected} FROM {DATABASE}.wide ORDER BY id")
    ]
    assert after_images(box, events) == expected


def test_a_decimal_of_any_precision_and_scale_is_decoded(box: Sandbox) -> None:
    largest = 38 if box.source.flavour is Flavour.MARIADB else 30
    shapes = [
        (precision, scale)
        for precision in range(1, 66)
        for scale in sorted({0, min(precision, largest), precision // 3, min(precision // 2, largest), 1, 5})
        if scale <= min(precision, largest)
    ]
    columns = ", ".join(f"d{number} DECIMAL({p},{s})" for number, (p, s) in enumerate(shapes))
    digits = ("9" * 65, "1" + "0" * 64, "0" * 64 + "1", "1234567890" * 7)
    rows = []
    for text in digits:
        for sign in ("", "-"):
            cells = (f"{sign}{text[65 - p : 65 - s] or '0'}.{text[65 - s : 65]}" for p, s in shapes)
            rows.append(f"INSERT INTO d VALUES ({', '.join(cells)})")

    events = run(box.source, DATABASE, f"CREATE TABLE d ({columns})", *rows)

    found = select(box.source, f"SELECT * FROM {DATABASE}.d")
    assert len(shapes) > 250
    assert after_images(box, events) == [tuple(format(value, "f") for value in row) for row in found]


def test_bits_of_every_width_are_decoded(box: Sandbox) -> None:
    columns = ", ".join(f"b{bits} BIT({bits})" for bits in range(1, 65))
    rows = [[value & (1 << bits) - 1 for bits in range(1, 65)] for value in (0, 1, 2**64 - 1, 0xA5A5A5A5A5A5A5A5)]
    inserts = [f"INSERT INTO b VALUES ({', '.join(map(str, row))})" for row in rows]

    events = run(box.source, DATABASE, f"CREATE TABLE b ({columns})", *inserts)

    assert after_images(box, events) == [printed(tuple(row)) for row in rows]


def test_a_table_of_more_than_250_columns_is_decoded(box: Sandbox) -> None:
    columns = ", ".join(f"c{number} INT" for number in range(600))
    values = ", ".join("NULL" if number % 3 else str(-number) for number in range(600))

    events = run(
        box.source, DATABASE, f"CREATE TABLE many ({columns})", f"INSERT INTO many VALUES ({values})",
        "UPDATE many SET c599 = 7", "DELETE FROM many",
    )  # fmt: skip

    first = tuple(None if number % 3 else str(-number) for number in range(600))
    second = (*first[:-1], "7")
    assert changes(decoder_cache(box.source), events) == [(None, first), (first, second), (second, None)]


def test_generated_and_invisible_columns_have_their_place_in_the_image(box: Sandbox) -> None:
    events = run(
        box.source,
        DATABASE,
        "CREATE TABLE g (a INT, v INT AS (a + 1) VIRTUAL, hidden INT INVISIBLE DEFAULT 5, s INT AS (a * 2) STORED,"
        " PRIMARY KEY (a), KEY (v))",
        "INSERT INTO g (a) VALUES (1)",
        "UPDATE g SET a = 10",
        "DELETE FROM g",
    )

    one, ten = ("1", "2", "5", "2"), ("10", "11", "5", "20")
    assert changes(decoder_cache(box.source), events) == [(None, one), (one, ten), (ten, None)]
    columns = parse_table_map(events[0][0]).columns
    assert [column.name for column in columns] == ["a", "v", "hidden", "s"]
    if box.source.flavour is Flavour.MYSQL:  # MariaDB does not log visibility
        assert [column.visible for column in columns] == [True, True, False, True]


def test_odd_names_are_read_and_never_become_code(box: Sandbox) -> None:
    names = ["select", "a`b", 'quote"s', "it's", "dot.ted", "two words", "naïve €", "表", "{0}$1", "\\x", "#"]
    names.append("');raise SystemExit#")
    columns = ", ".join("`{}` INT".format(name.replace("`", "``")) for name in names)

    events = run(
        box.source, DATABASE,
        f"CREATE TABLE `tab``le.表 \"` ({columns}, e ENUM('\");x=(\"', '{{1}}'))",
        f"INSERT INTO `tab``le.表 \"` VALUES ({', '.join(map(str, range(len(names))))}, 2)",
    )  # fmt: skip

    assert parse_table_map(events[0][0]).full_name == f'{DATABASE}.tab`le.表 "'
    assert [column.name for column in parse_table_map(events[0][0]).columns] == [*names, "e"]
    assert after_images(box, events) == [(*map(str, range(len(names))), "2")]


def test_rows_of_a_partitioned_table_are_decoded(box: Sandbox) -> None:
    events = run(
        box.source,
        DATABASE,
        "CREATE TABLE p (a INT PRIMARY KEY, t VARCHAR(10)) PARTITION BY HASH (a) PARTITIONS 3",
        "INSERT INTO p VALUES (1, 'x'), (2, 'y'), (3, NULL)",
        "UPDATE p SET a = a + 10",
        "DELETE FROM p",
    )

    rows = {("1", "x"): ("11", "x"), ("2", "y"): ("12", "y"), ("3", None): ("13", None)}
    found = changes(decoder_cache(box.source), events)
    assert sorted(found, key=str) == sorted(
        [*((None, row) for row in rows), *rows.items(), *((row, None) for row in rows.values())], key=str
    )


def test_a_timestamp_is_utc_whatever_the_session_that_wrote_it(box: Sandbox) -> None:
    events = run(
        box.source, DATABASE, "CREATE TABLE z (t TIMESTAMP(3) NULL, d DATETIME(3))",
        "SET time_zone = '+09:00'", "INSERT INTO z VALUES ('2024-01-01 08:30:00.5', '2024-01-01 08:30:00.5')",
        "SET time_zone = '-03:30'", "INSERT INTO z VALUES ('2024-01-01 08:30:00.5', '2024-01-01 08:30:00.5')",
    )  # fmt: skip

    written = "2024-01-01 08:30:00.500"
    assert after_images(box, events) == [
        ("2023-12-31 23:30:00.500", written),
        ("2024-01-01 12:00:00.500", written),
    ]


def test_a_statement_of_several_events_has_all_its_rows(box: Sandbox) -> None:
    events = run(
        box.source, DATABASE, "CREATE TABLE big (a INT, b VARBINARY(9000))",
        "INSERT INTO big VALUES (1, REPEAT('x', 9000)), (2, REPEAT('y', 9000)), (3, NULL)",
    )  # fmt: skip

    assert len(events) > 1
    assert [image[0] for image in after_images(box, events) if image] == ["1", "2", "3"]


def test_keys_and_values_of_the_table_map_are_read(box: Sandbox) -> None:
    events = run(
        box.source, DATABASE,
        "CREATE TABLE k (a INT UNSIGNED, e ENUM('x','ÿ') CHARACTER SET latin1, s SET('one','zwö'), g POINT,"
        " n TEXT NOT NULL, c VARCHAR(20) CHARACTER SET ascii, PRIMARY KEY (c, a))",
        "INSERT INTO k VALUES (1, 1, 1, NULL, '', '')",
        "CREATE TABLE prefixed (a INT, t VARCHAR(100), PRIMARY KEY (t(10), a))",
        "INSERT INTO prefixed VALUES (1, 'x')",
        "CREATE TABLE keyless (a INT)",
        "INSERT INTO keyless VALUES (1)",
    )  # fmt: skip

    mariadb = box.source.flavour is Flavour.MARIADB
    keyed, prefixed, keyless = (parse_table_map(event[0], mariadb=mariadb) for event in events)
    assert keyed.primary_key == (5, 0)
    assert prefixed.primary_key == (1, 0)
    assert keyless.primary_key is None
    assert keyed.columns[1].values == (b"x", b"\xff")
    assert keyed.columns[2].values == (b"one", "zwö".encode())
    assert keyed.columns[3].geometry_type == 1
    assert [column.unsigned for column in keyed.columns] == [True, None, None, None, None, None]
    assert [column.nullable for column in keyed.columns] == [False, True, True, True, False, False]
    charsets = dict(box.source.query("SELECT ID, CHARACTER_SET_NAME FROM information_schema.COLLATIONS"))
    named = [charsets[column.collation] for column in keyed.columns if column.collation]
    assert [name for name in named if name != "binary"] == ["latin1", "utf8mb4", "utf8mb4", "ascii"]


def test_geometry_needs_to_know_who_wrote_the_event_when_the_log_does_not_say(mariadb_box: Sandbox) -> None:
    events = run(
        mariadb_box.source, DATABASE, "CREATE TABLE g (g POINT, c VARCHAR(9) CHARACTER SET ascii, b BLOB)",
        "INSERT INTO g VALUES (NULL, 'x', 0xFF)",
    )  # fmt: skip

    assert after_images(mariadb_box, events) == [(None, "x", "\xff")]
    with pytest.raises(StopError, match=rf"{DATABASE}\.g has a GEOMETRY column"):
        parse_table_map(events[0][0])


def test_minimal_metadata_is_enough_to_decode_by_place(box: Sandbox) -> None:
    with server_variables(box.source, binlog_row_metadata="MINIMAL"):
        events = run(
            box.source,
            DATABASE,
            "CREATE TABLE m (a INT UNSIGNED, e ENUM('x','y'), t VARCHAR(9) CHARACTER SET latin1, d DATETIME(2))",
            "INSERT INTO m VALUES (4294967295, 'y', 'ä', '2024-01-01')",
        )

    assert [column.name for column in parse_table_map(events[0][0]).columns] == [None] * 4
    assert after_images(box, events) == [("4294967295", "2", "ä", "2024-01-01 00:00:00.00")]
