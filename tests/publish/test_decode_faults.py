"""What the decoder must refuse, by name, on real servers; and MariaDB's other ways to write the same rows."""

from __future__ import annotations

import pytest
from decode_support import PARTIAL_UPDATE_ROWS, changes, decoder_cache, run, select, server_variables

from migrate.model.errors import StopError
from migrate.publish.decode.rows import MARIADB_CHARSETS_SQL, DecoderCache, charsets_from_rows, compile_table
from migrate.publish.decode.tablemap import parse_table_map
from sandbox.settings import Flavour
from sandbox.stack import Sandbox
from tests.types.matrix import Case, printed_cases_of

DATABASE = "decode_faults"


@pytest.mark.parametrize("image", ["MINIMAL", "NOBLOB"])
@pytest.mark.parametrize("statement", ["UPDATE f SET a = 2", "DELETE FROM f"])
def test_an_event_without_all_columns_stops_and_names_the_table(box: Sandbox, image: str, statement: str) -> None:
    events = run(
        box.source,
        DATABASE,
        "CREATE TABLE f (id INT PRIMARY KEY, a INT, t TEXT)",
        "INSERT INTO f VALUES (1, 1, 'x')",
        f"SET SESSION binlog_row_image = '{image}'",
        statement,
    )

    cache = decoder_cache(box.source)
    assert changes(cache, events[:1]) == [(None, ("1", "1", "x"))]
    with pytest.raises(StopError, match=rf"{DATABASE}\.f: .*binlog_row_image is not FULL"):
        changes(cache, events[1:])


def test_an_insert_without_all_columns_stops(mysql_box: Sandbox) -> None:
    events = run(
        mysql_box.source, DATABASE, "CREATE TABLE f (id INT PRIMARY KEY, a INT, t TEXT)",
        "SET SESSION binlog_row_image = 'MINIMAL'", "INSERT INTO f (id) VALUES (1)",
    )  # fmt: skip

    with pytest.raises(StopError, match=rf"{DATABASE}\.f: .*binlog_row_image is not FULL"):
        changes(decoder_cache(mysql_box.source), events)


def test_a_partial_json_update_stops_and_names_the_option(mysql_box: Sandbox) -> None:
    events = run(
        mysql_box.source,
        DATABASE,
        "CREATE TABLE f (id INT PRIMARY KEY, j JSON)",
        """INSERT INTO f VALUES (1, '{"a": 1, "b": "text"}')""",
        "SET SESSION binlog_row_value_options = 'PARTIAL_JSON'",
        "UPDATE f SET j = JSON_SET(j, '$.a', 2)",
    )

    assert events[1][1] == PARTIAL_UPDATE_ROWS
    with pytest.raises(StopError, match=rf"{DATABASE}\.f: .*binlog_row_value_options") as stop:
        changes(decoder_cache(mysql_box.source), events[1:])
    assert "binlog_row_value_options=''" in stop.value.hint


def test_half_a_character_stops_and_says_how_such_rows_are_found(box: Sandbox) -> None:
    """A surrogate of UTF-16 by itself, which both servers store in a utf8mb4 column when they convert UCS-2."""
    events = run(
        box.source,
        DATABASE,
        "CREATE TABLE f (id INT PRIMARY KEY, s VARCHAR(9) CHARACTER SET utf8mb4)",
        "INSERT INTO f VALUES (1, _ucs2 0xD83D)",
    )
    with pytest.raises(StopError, match=rf"^{DATABASE}\.f: column 's' holds text that is not UTF-8") as stop:
        changes(decoder_cache(box.source), events)
    assert "HEX(`s`) REGEXP '^(..)*ED[AB]'" in stop.value.hint


def test_a_log_without_signedness_stops_and_names_the_column(mariadb_box: Sandbox) -> None:
    with server_variables(mariadb_box.source, binlog_row_metadata="NO_LOG"):
        events = run(
            mariadb_box.source, DATABASE, "CREATE TABLE f (d DATE, a INT UNSIGNED)",
            "INSERT INTO f VALUES (NULL, 4294967295)", "CREATE TABLE g (d DATE, t VARCHAR(9))",
            "INSERT INTO g VALUES (NULL, 'x')",
        )  # fmt: skip

    cache = decoder_cache(mariadb_box.source)
    with pytest.raises(StopError, match=rf"{DATABASE}\.f: column number 2 has no signedness.*binlog_row_metadata"):
        cache.get(events[0][0])
    with pytest.raises(StopError, match=rf"{DATABASE}\.g: column number 2 has no character set"):
        cache.get(events[1][0])


def test_a_collation_the_server_did_not_list_stops_and_names_the_column(box: Sandbox) -> None:
    events = run(box.source, DATABASE, "CREATE TABLE f (t TEXT)", "INSERT INTO f VALUES ('x')")

    with pytest.raises(StopError, match=rf"{DATABASE}\.f: column 't' has the collation \d+"):
        compile_table(parse_table_map(events[0][0]), {63: "binary"})


def test_every_collation_of_the_server_is_known(box: Sandbox) -> None:
    """MariaDB's UCA 14.0.0 collations have no id in information_schema.COLLATIONS."""
    collations = ["utf8mb4_bin", "utf8mb3_general_ci", "latin1_german2_ci", "ascii_bin"]
    collations += ["uca1400_ai_ci", "utf8mb4_uca1400_german2_as_cs"] if box.source.flavour is Flavour.MARIADB else []
    collations += ["utf8mb4_0900_ai_ci"] if box.source.flavour is Flavour.MYSQL else []
    for collation in collations:
        charset = collation.split("_")[0].replace("uca1400", "utf8mb4")
        events = run(
            box.source, DATABASE, f"CREATE TABLE f (t VARCHAR(9) CHARACTER SET {charset} COLLATE {collation})",
            "INSERT INTO f VALUES ('x')",
        )  # fmt: skip
        assert changes(decoder_cache(box.source), events) == [(None, ("x",))]


def test_the_event_of_another_layout_of_the_table_stops(box: Sandbox) -> None:
    events = run(
        box.source, DATABASE, "CREATE TABLE f (a INT)", "INSERT INTO f VALUES (1)",
        "ALTER TABLE f ADD b INT", "INSERT INTO f VALUES (1, 2)",
    )  # fmt: skip

    decoder = decoder_cache(box.source).get(events[0][0])
    with pytest.raises(StopError, match=rf"{DATABASE}\.f: a row event has 2 columns, its table map 1"):
        decoder.decode(*events[1][1:])


def test_decoders_are_kept_by_layout_not_by_table_id(box: Sandbox) -> None:
    events = run(
        box.source, DATABASE, "CREATE TABLE f (a INT)", "INSERT INTO f VALUES (1)", "FLUSH TABLES",
        "INSERT INTO f VALUES (2)", "ALTER TABLE f ADD b INT", "INSERT INTO f VALUES (3, 4)",
    )  # fmt: skip

    cache = decoder_cache(box.source)
    first, second, third = (cache.get(table_map) for table_map, _, _ in events)
    assert first is second
    assert third is not first
    cache.clear()
    assert cache.get(events[0][0]) is not first


def test_compressed_row_events_are_decoded(mariadb_box: Sandbox) -> None:
    statements = (
        "CREATE TABLE c (id INT PRIMARY KEY, a VARCHAR(200), b VARBINARY(200))",
        *(f"INSERT INTO c VALUES ({number}, REPEAT('ä', {number}), REPEAT('z', 100))" for number in range(100)),
        "INSERT INTO c SELECT id + 1000, a, b FROM c",
        "UPDATE c SET a = CONCAT(a, 'end') WHERE id > 5",
        "DELETE FROM c WHERE id < 1050",
    )
    plain = run(mariadb_box.source, DATABASE, *statements)
    with server_variables(mariadb_box.source, log_bin_compress="1", log_bin_compress_min_len="10"):
        compressed = run(mariadb_box.source, DATABASE, *statements)

    assert {kind for _, kind, _ in compressed} == {166, 167, 168}
    assert {kind for _, kind, _ in plain} == {23, 24, 25}
    cache = decoder_cache(mariadb_box.source)
    assert changes(cache, compressed) == changes(cache, plain)


@pytest.mark.parametrize("damage", ["method", "length", "data", "end"])
def test_a_damaged_compressed_event_stops(mariadb_box: Sandbox, damage: str) -> None:
    with server_variables(mariadb_box.source, log_bin_compress="1", log_bin_compress_min_len="10"):
        events = run(
            mariadb_box.source, DATABASE, "CREATE TABLE c (a VARCHAR(200))", "INSERT INTO c VALUES (REPEAT('x', 100))"
        )

    table_map, kind, body = events[0]
    start = 10  # behind table id, flags, the number of columns and their bitmap
    assert body[start] == 0x81  # zlib, a length of one byte
    broken = {
        "method": body[:start] + b"\x91" + body[start + 1 :],
        "length": body[: start + 1] + bytes([body[start + 1] + 1]) + body[start + 2 :],
        "data": body[: start + 8] + bytes([body[start + 8] ^ 0xFF]) + body[start + 9 :],
        "end": body[:-1],
    }[damage]
    with pytest.raises(StopError, match=rf"{DATABASE}\.c: a compressed row event"):
        decoder_cache(mariadb_box.source).get(table_map).decode(kind, broken)


OLD = [case for case in printed_cases_of("mariadb") if case.name.startswith(("DATETIME(", "TIMESTAMP(", "TIME("))]


@pytest.mark.parametrize("case", OLD, ids=[case.name for case in OLD])
def test_temporal_values_in_the_old_format_need_the_column_type_and_are_exact(mariadb_box: Sandbox, case: Case) -> None:
    with server_variables(mariadb_box.source, mysql56_temporal_format="0"):
        events = run(
            mariadb_box.source,
            DATABASE,
            f"CREATE TABLE o (id INT PRIMARY KEY, v {case.type})",
            *(f"INSERT INTO o VALUES ({number}, {value})" for number, value in enumerate(case.values)),
        )

    servers = select(mariadb_box.source, f"SELECT CAST(v AS CHAR) FROM {DATABASE}.o ORDER BY id")
    images = [after for _, after in changes(decoder_cache(mariadb_box.source), events) if after]
    assert [image[1:] for image in images] == servers
    with pytest.raises(StopError, match=rf"{DATABASE}\.o: column 'v' is a \w+ in the format from before MySQL 5.6"):
        changes(decoder_cache(mariadb_box.source, with_types=False), events)


def test_types_the_log_cannot_tell_apart_are_bytes_without_the_column_type(mariadb_box: Sandbox) -> None:
    events = run(
        mariadb_box.source, DATABASE, "CREATE TABLE u (u UUID, i INET6)",
        "INSERT INTO u VALUES ('123e4567-e89b-12d3-a456-426655440000', '::1')",
    )  # fmt: skip
    charsets = charsets_from_rows(mariadb_box.source.query(MARIADB_CHARSETS_SQL))

    bare = DecoderCache(charsets, mariadb=True)
    assert changes(bare, events) == [
        (None, (bytes.fromhex("123e4567e89b12d3a456426655440000").decode("latin-1"), "\0" * 15 + "\1"))
    ]
    wrong = DecoderCache(charsets, mariadb=True, column_types=lambda database, table: {"u": "inet4"})
    with pytest.raises(StopError, match=rf"{DATABASE}\.u: column 'u' is said to be INET4"):
        changes(wrong, events)
