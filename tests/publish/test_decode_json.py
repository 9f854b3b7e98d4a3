"""MySQL's binary JSON, on a real server, against the text the server itself prints for the column."""

from __future__ import annotations

import json
import math
import random
import re
import struct
from typing import Any

import pytest
from decode_support import changes, decoder_cache, run, select
from hypothesis import given, settings
from hypothesis import strategies as st

from migrate.mysql import typed_json
from migrate.publish.decode.json_binary import double_text, json_text
from sandbox.stack import Sandbox

DATABASE = "decode_json"
SCALARS = [
    "CAST('null' AS JSON)", "'true'", "'false'", "'0'", "'-1'", "'32767'", "'-32768'", "'32768'", "'65535'", "'65536'",
    "'2147483647'", "'-2147483648'", "'4294967295'", "'9223372036854775807'", "'-9223372036854775808'",
    "'4294967296'", "'18446744073709551615'", "'18446744073709551616'", "'1.0'", "'-0.0'", "'1e20'", "'1.5e-10'",
    "'\"\"'", "'\"text\"'",
    "'\"quote \\\\\" slash \\\\\\\\ / tab \\\\t nl \\\\n cr \\\\r bs \\\\b ff \\\\f\"'",
    "'\"\\\\u0001\\\\u001f\\\\u007f\"'",
    "'\"中文 🎁 é\"'", "'[]'", "'{}'", "JSON_QUOTE(REPEAT('x', 127))", "JSON_QUOTE(REPEAT('x', 128))",
    "JSON_QUOTE(REPEAT('é', 9000))", "JSON_QUOTE(REPEAT('y', 70000))", "JSON_QUOTE(REPEAT('z', 2200000))",
]  # fmt: skip
_UNSIGNED = ", ".join(f"CAST({number} AS UNSIGNED)" for number in (3, 40000, 65535, 70000, 4294967295, 2**64 - 1))
UNSIGNED = [  # MySQL keeps them apart from signed ones
    f"JSON_ARRAY({_UNSIGNED})",
    f"JSON_ARRAY({_UNSIGNED}, REPEAT('x', 70000))",
    "CAST(CAST(40000 AS UNSIGNED) AS JSON)",
    "CAST(CAST(4294967295 AS UNSIGNED) AS JSON)",
]
OPAQUE = [
    "CAST(CAST('2006-02-15' AS DATE) AS JSON)", "CAST(CAST('0001-01-01' AS DATE) AS JSON)",
    "CAST(CAST('2006-02-15 04:34:33.123456' AS DATETIME(6)) AS JSON)",
    "CAST(CAST('9999-12-31 23:59:59' AS DATETIME) AS JSON)", "CAST(TIMESTAMP('2006-02-15 04:34:33') AS JSON)",
    "CAST(CAST('-838:59:59' AS TIME) AS JSON)", "CAST(CAST('-00:00:00.5' AS TIME(1)) AS JSON)",
    "CAST(CAST('100:00:00.000001' AS TIME(6)) AS JSON)", "CAST(CAST(1.50 AS DECIMAL(10,2)) AS JSON)",
    "CAST(CAST(-0.00001 AS DECIMAL(5,5)) AS JSON)", "CAST(CAST(0 AS DECIMAL(5,2)) AS JSON)",
    "CAST(CAST(REPEAT('9', 65) AS DECIMAL(65,0)) AS JSON)",
    "CAST(-99999999999999999999999999999999999.999999999999999999999999999999 AS JSON)",
    "JSON_OBJECT('b', CAST('bytes' AS BINARY))", "JSON_ARRAY(CAST(REPEAT('x', 200) AS BINARY), b'1010', 0x00FF)",
    "JSON_OBJECT('y', CAST('2006' AS YEAR), 'e', CAST(CURRENT_DATE AS DATE))",
    "JSON_ARRAY(1.5, 1e0, 15e-1, TRUE, NULL)",
    "JSON_ARRAY(5000000000, 4294967295, 4294967296, -5000000000, 9223372036854775807)",
    "JSON_ARRAY(CAST(ST_GeomFromText('POINT(1 2)') AS JSON))", "JSON_ARRAY(REPEAT(0x00, 57), REPEAT(0x01, 58))",
    "JSON_OBJECT('t', CAST('10:11:12' AS TIME), 'n', JSON_OBJECT('d', CAST(12.340 AS DECIMAL(8,3))))",
]  # fmt: skip
NESTED = [
    "'[1, \"two\", [3, {\"four\": [null, true]}], {}]'", "'{\"bb\": 1, \"a\": 2, \"ccc\": {\"\": 3}, \"B\": [ ]}'",
    "'{\"é\": 1, \"e\": 2, \"quote\\\\\"key\": \"\\\\n\"}'", "'{\"a\": {\"b\": 1}, \"a.b\": [[[[]]]]}'",
    "'[70000, -70000, 4294967296, 1.5, \"x\"]'", "CONCAT(REPEAT('[', 99), '1', REPEAT(']', 99))",
]  # fmt: skip


def decoded(box: Sandbox, expressions: list[str]) -> tuple[list[str | None], list[str | None]]:
    """What the decoder makes of these values, without the marks of types, and what the server prints."""
    inserts = [f"INSERT INTO j VALUES ({number}, {text})" for number, text in enumerate(expressions)]
    events = run(box.source, DATABASE, "CREATE TABLE j (id INT PRIMARY KEY, j JSON)", *inserts)
    images = [after for _, after in changes(decoder_cache(box.source), events) if after]
    server = select(box.source, f"SELECT CAST(j AS CHAR) FROM {DATABASE}.j ORDER BY id")
    return [without_marks(image[1]) for image in images], [row[0] for row in server]


def without_marks(text: str | None) -> str | None:
    """Marks stand outside of strings, where white space other than a blank is always escaped."""
    return None if text is None else re.sub(r"[\t\n\r]", "", text)


@pytest.mark.parametrize("expressions", [SCALARS, UNSIGNED, OPAQUE, NESTED])
def test_the_stream_marks_the_scalars_that_the_copy_marks(mysql_box: Sandbox, expressions: list[str]) -> None:
    """The server itself tells the copy each scalar's type."""
    inserts = [f"INSERT INTO j VALUES ({number}, {text})" for number, text in enumerate(expressions)]
    events = run(mysql_box.source, DATABASE, "CREATE TABLE j (id INT PRIMARY KEY, j JSON)", *inserts)
    stream = [after[1] for _, after in changes(decoder_cache(mysql_box.source), events) if after]
    copy = select(mysql_box.source, f"SELECT {typed_json.selected('j')} FROM {DATABASE}.j ORDER BY id")
    assert [typed_json.from_server(row[0].encode()) for row in copy] == stream
    marked = [text for text in stream if text != without_marks(text)]
    assert bool(marked) == (expressions in (UNSIGNED, OPAQUE))


@pytest.mark.parametrize(
    "expressions", [SCALARS, UNSIGNED, OPAQUE, NESTED], ids=["scalars", "unsigned", "opaque", "nested"]
)
def test_json_is_printed_as_the_server_prints_it(mysql_box: Sandbox, expressions: list[str]) -> None:
    ours, servers = decoded(mysql_box, [*expressions, "NULL"])

    assert len(servers) == len(expressions) + 1
    assert ours == servers


def random_document(source: random.Random, depth: int = 0) -> Any:
    kind = source.randrange(9 if depth < 4 else 6)
    if kind == 0:
        return source.choice([None, True, False])
    if kind in (1, 2):
        return source.randrange(-(1 << source.randrange(1, 64)), 1 << source.randrange(1, 64))
    if kind == 3:
        return source.uniform(-1, 1) * 10.0 ** source.randrange(-300, 300)
    if kind in (4, 5):
        return "".join(source.choice('abc"\\\n\t€é🎁\x01 /') for _ in range(source.choice([0, 1, 5, 140])))
    members = [random_document(source, depth + 1) for _ in range(source.choice([0, 1, 3, 7, 70 if depth < 2 else 2]))]
    if kind == 6:
        return members
    return {f"{source.choice(['k', 'é', 'long key '])}{number}": value for number, value in enumerate(members)}


def literal(document: Any) -> str:
    text = json.dumps(document, ensure_ascii=False)
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def test_random_documents_are_printed_as_the_server_prints_them(mysql_box: Sandbox) -> None:
    source = random.Random(20060215)  # noqa: S311  repeatable, not secret
    ours, servers = decoded(mysql_box, [literal(random_document(source)) for _ in range(400)])

    assert ours == servers


def test_documents_above_64_kb_are_printed_as_the_server_prints_them(mysql_box: Sandbox) -> None:
    numbers = [-1, 0, 40000, 70000, -70000, 2**40, 1.5, "s", None, True, [], {}, [1], {"a": -5}]
    documents: list[Any] = [
        {f"key {number}": numbers[number % len(numbers)] for number in range(20000)},
        [numbers[number % len(numbers)] for number in range(70000)],
        {"large": ["x" * 1000] * 100, "small": {"a": [1, 40000, -40000, 70000, None]}},
        [["y" * 70000, -3, {"k": -3, "l": 70000, "m": None}]],
    ]

    ours, servers = decoded(mysql_box, [literal(document) for document in documents])

    assert ours == servers


def test_any_double_is_printed_as_the_server_prints_it(mysql_box: Sandbox) -> None:
    source = random.Random(19700101)  # noqa: S311  repeatable, not secret
    doubles = [struct.unpack("<d", source.randbytes(8))[0] for _ in range(3000)]
    doubles += [source.uniform(-1, 1) * 10.0**exponent for exponent in range(-20, 25) for _ in range(40)]
    doubles += [float(f"{digits}e{exponent}") for digits in ("1", "-9.5", "123456789012345.6", "9007199254740993")
                for exponent in range(-40, 40)]  # fmt: skip
    doubles += [5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 0.1, 1 / 3, 1e15, 1e14, 999999999999999.9]
    doubles = [number for number in doubles if math.isfinite(number)]
    documents = [literal(doubles[at : at + 500]) for at in range(0, len(doubles), 500)]

    ours, servers = decoded(mysql_box, documents)

    assert [text and text.split(", ") for text in ours] == [text and text.split(", ") for text in servers]


def test_json_changed_in_place_is_printed_as_the_server_prints_it(mysql_box: Sandbox) -> None:
    """JSON_SET and its kin leave holes in the stored document, which then stands in the log as it is."""
    steps = [
        "JSON_SET(j, '$.a', 'short')", "JSON_REPLACE(j, '$.c[1]', 7)", "JSON_REMOVE(j, '$.b')",
        "JSON_SET(j, '$.a', NULL)", "JSON_REMOVE(j, '$.c[0]')", "JSON_SET(j, '$.new', JSON_OBJECT('x', 1.5))",
    ]  # fmt: skip
    document = '{"a": "a text long enough to leave room", "b": [1, 2, 3], "c": ["one", "two", {"d": 1}]}'
    events = run(
        mysql_box.source, DATABASE, "CREATE TABLE j (id INT PRIMARY KEY, j JSON)", "CREATE TABLE seen (j LONGTEXT)",
        f"INSERT INTO j VALUES (1, '{document}')",
        *(text for step in steps for text in (f"UPDATE j SET j = {step}", "INSERT INTO seen SELECT j FROM j")),
    )  # fmt: skip

    found = changes(decoder_cache(mysql_box.source), events)
    updated = [without_marks(after[1]) for before, after in found if before and after]
    printed = [after[0] for before, after in found if before is None and after and len(after) == 1]
    assert len(updated) == len(steps)
    assert updated == printed


def test_json_not_null_added_to_existing_rows_is_null(mysql_box: Sandbox) -> None:
    events = run(
        mysql_box.source, DATABASE, "CREATE TABLE j (id INT PRIMARY KEY)", "INSERT INTO j VALUES (1)",
        "SET sql_mode = ''", "ALTER TABLE j ADD j JSON NOT NULL", "UPDATE j SET id = 2",
    )  # fmt: skip

    servers = select(mysql_box.source, f"SELECT CAST(j AS CHAR) FROM {DATABASE}.j")[0][0]
    assert changes(decoder_cache(mysql_box.source), events)[-1] == (("1", servers), ("2", servers))


@settings(deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_text_of_a_double_reads_back_as_the_same_double(number: float) -> None:
    text = double_text(number)

    assert float(text) == number
    assert ("." in text) or ("e" in text)
    assert "e+" not in text


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_json_cannot_hold_a_number_that_is_not_finite(number: float) -> None:
    with pytest.raises(ValueError, match="holds the number"):
        json_text(b"\x0b" + struct.pack("<d", number))


def test_members_that_point_to_each_other_end_in_an_error() -> None:
    """Each of 100 levels would double what is printed."""
    levels = b"".join(
        struct.pack("<HHBHBH", 2, 60000, 2, 10 * (level + 1), 2, 10 * (level + 1)) for level in range(100)
    )

    with pytest.raises(ValueError, match="malformed"):
        json_text(b"\x02" + levels)
    with pytest.raises(ValueError, match="malformed"):
        json_text(b"\x02" + struct.pack("<HHBH", 1, 7, 2, 0))


@settings(deadline=None)
@given(st.binary(max_size=80))
def test_arbitrary_bytes_are_a_document_or_an_error(raw: bytes) -> None:
    try:
        text = json_text(raw)
    except ValueError:
        return
    assert text
