"""Damaged events, without a server: a StopError or whole rows, never anything else.

The events are from MariaDB 10.11 and MySQL 9.7: one row with every kind of value, one of NULLs; then an update
of the first one.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from migrate.model.errors import StopError
from migrate.publish.decode.rows import Change, RowDecoder, compile_table
from migrate.publish.decode.tablemap import parse_table_map, peek_table, peek_table_id


@dataclass(frozen=True)
class Captured:
    table_map: bytes
    write_type: int
    write: bytes
    update_type: int
    update: bytes


def _captured(table_map: str, write_type: int, write: str, update_type: int, update: str) -> Captured:
    return Captured(bytes.fromhex(table_map), write_type, bytes.fromhex(write), update_type, bytes.fromhex(update))


MARIADB = _captured(
    (
        "1d000000000001000473686f7000016f0014080109f6fefe100d0a1211130405fe0ffcfefcff161404f701f801030103"
        "00020408ee68200002fe040404eeff0f01018803062d083f3f2e3f07010104370269640174016d06616d6f756e740165"
        "017301620179016407637265617465640274730274690166017801630176016e026269016a01670a0108050703016101"
        "620163060f03036e6577047061696404646f6e65080100"
    ),
    23,
    (
        "1d0000000000010014ffff0f0000f0ffffffffffffffffff0000807ffffffffffffff3f27f020504016a4fac0f99781e"
        "48a104ce65e11a7f7f3747b2cdcccc3d9a9999999999b93f0600c3a9f09f8e8101e4020000ff0261622f0000007b2261"
        "223a205b312c202278222c206e756c6c2c20312e355d2c20226b6579223a207b2262223a2037303030307d7d19000000"
        "000000000101000000000000000000f03f0000000000000040eeffff010000000000000001"
    ),
    24,
    (
        "1d0000000000010014ffff0fffff0f0000f0ffffffffffffffffff0000807ffffffffffffff3f27f020504016a4fac0f"
        "99781e48a104ce65e11a7f7f3747b2cdcccc3d9a9999999999b93f0600c3a9f09f8e8101e4020000ff0261622f000000"
        "7b2261223a205b312c202278222c206e756c6c2c20312e355d2c20226b6579223a207b2262223a2037303030307d7d19"
        "000000000000000101000000000000000000f03f00000000000000400080f0ffffffffffffffffff0000808000000000"
        "0000010000020504016a4fac0f99781e48a104ce65e11a7f7f3747b2cdcccc3d9a9999999999b93f0600c3a9f09f8e81"
        "020000ff0261622f0000007b2261223a205b312c202278222c206e756c6c2c20312e355d2c20226b6579223a207b2262"
        "223a2037303030307d7d19000000000000000101000000000000000000f03f0000000000000040"
    ),
)
MYSQL = _captured(
    (
        "79000000000001000473686f7000016f0014080109f6fefe100d0a1211130405fe0ffcfef5ff161404f701f801030103"
        "00020408ee68200002fe040404eeff0f0101880306fcff00083f3f07010104370269640174016d06616d6f756e740165"
        "017301620179016407637265617465640274730274690166017801630176016e026269016a01670a03fcff0005070301"
        "6101620163060f03036e6577047061696404646f6e650801000c03fffff0"
    ),
    30,
    (
        "7900000000001100020014ffffff000000ffffffffffffffffff0000807ffffffffffffff3f27f020504016a4fac0f99"
        "781e48a104ce65e11a7f7f3747b2cdcccc3d9a9999999999b93f0600c3a9f09f8e8101e4020000ff0261624100000000"
        "020040001200010013000300021600003000616b657904001a000501000c10000400000b12000178000000000000f83f"
        "010010000b000100070c00627011010019000000000000000101000000000000000000f03f0000000000000040eeff0f"
        "010000000000000001"
    ),
    31,
    (
        "7900000000001100020014ffffffffffff000000ffffffffffffffffff0000807ffffffffffffff3f27f020504016a4f"
        "ac0f99781e48a104ce65e11a7f7f3747b2cdcccc3d9a9999999999b93f0600c3a9f09f8e8101e4020000ff0261624100"
        "000000020040001200010013000300021600003000616b657904001a000501000c10000400000b120001780000000000"
        "00f83f010010000b000100070c00627011010019000000000000000101000000000000000000f03f0000000000000040"
        "008000ffffffffffffffffff00008080000000000000010000020504016a4fac0f99781e48a104ce65e11a7f7f3747b2"
        "cdcccc3d9a9999999999b93f0600c3a9f09f8e81020000ff026162410000000002004000120001001300030002160000"
        "3000616b657904001a000501000c10000400000b12000178000000000000f83f010010000b000100070c006270110100"
        "19000000000000000101000000000000000000f03f0000000000000040"
    ),
)
CHARSETS = {8: "latin1", 45: "utf8mb4", 46: "utf8mb4", 63: "binary", 255: "utf8mb4"}
FULL = (
    "18446744073709551615", "-1", "-8388608", "-12.3456", "2", "5", "1025", "2006", "2006-02-15",
    "2006-02-15 04:34:33.123", "2024-02-29 23:59:59", "-12:34:56.78", "0.10000000149011612", "0.1", "é🎁", "ä",
    "\0\xff", "ab\0\0", '{"a": [1, "x", null, 1.5], "key": {"b": 70000}}',
    bytes.fromhex("000000000101000000000000000000f03f0000000000000040").decode("latin-1"),
)  # fmt: skip
EMPTY = ("1", None, None, None, "1", *[None] * 15)
CHANGED = (*FULL[:3], "1.0000", *FULL[4:15], None, *FULL[16:])

both = pytest.mark.parametrize("log", [MARIADB, MYSQL], ids=["mariadb", "mysql"])


def decoder_of(log: Captured) -> RowDecoder:
    return compile_table(parse_table_map(log.table_map, mariadb=log is MARIADB), CHARSETS)


def assert_whole(changes: list[Change], width: int) -> None:
    for change in changes:
        for image in change:
            assert image is None or len(image) == width
            assert image is None or all(value is None or type(value) is str for value in image)


@both
def test_undamaged_events_are_decoded(log: Captured) -> None:
    decoder = decoder_of(log)

    assert decoder.decode(log.write_type, log.write) == [(None, FULL), (None, EMPTY)]
    assert decoder.decode(log.update_type, log.update) == [(FULL, CHANGED)]
    assert peek_table_id(log.write) == peek_table_id(log.table_map) == decoder.table_map.table_id
    assert peek_table(log.table_map) == (decoder.table_map.table_id, "shop", "o")


@both
def test_an_event_cut_short_anywhere_stops_or_gives_its_first_rows(log: Captured) -> None:
    decoder = decoder_of(log)
    for kind, body in ((log.write_type, log.write), (log.update_type, log.update)):
        whole = decoder.decode(kind, body)
        stopped = 0
        for end in range(len(body)):
            try:
                changes = decoder.decode(kind, body[:end])
            except StopError:
                stopped += 1
            else:
                assert changes == whole[: len(changes)]
                assert len(changes) < len(whole)
        assert stopped == len(body) - len(whole)  # all but the cuts right before a row


@both
@settings(deadline=None)
@given(tail=st.binary(min_size=1, max_size=11))
def test_bytes_left_over_stop(log: Captured, tail: bytes) -> None:
    """A row has at least 12 bytes: 3 of NULL bits, the key and the ENUM."""
    for kind, body in ((log.write_type, log.write), (log.update_type, log.update)):
        with pytest.raises(StopError, match=r"shop\.o"):
            decoder_of(log).decode(kind, body + tail)


@both
@settings(deadline=None)
@given(data=st.data())
def test_a_damaged_event_stops_or_gives_whole_rows(log: Captured, data: st.DataObject) -> None:
    kind, body = data.draw(st.sampled_from([(log.write_type, log.write), (log.update_type, log.update)]))
    damaged = bytearray(body)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        changes = decoder_of(log).decode(kind, bytes(damaged))
    except StopError:
        return
    assert_whole(changes, 20)


@both
@settings(deadline=None)
@given(kind=st.sampled_from([23, 24, 25, 30, 31, 32, 166, 167, 168, 169, 170, 171]), body=st.binary(max_size=200))
def test_arbitrary_bytes_stop_or_give_whole_rows(log: Captured, kind: int, body: bytes) -> None:
    try:
        changes = decoder_of(log).decode(kind, body)
    except StopError:
        return
    assert_whole(changes, 20)


@both
@settings(deadline=None)
@given(data=st.data())
def test_a_damaged_table_map_stops_or_is_a_table_map(log: Captured, data: st.DataObject) -> None:
    damaged = bytearray(log.table_map)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        table_map = parse_table_map(bytes(damaged), mariadb=log is MARIADB)
        changes = compile_table(table_map, CHARSETS).decode(log.write_type, log.write)
    except StopError:
        return
    assert_whole(changes, len(table_map.columns))


@both
def test_a_table_map_cut_short_stops(log: Captured) -> None:
    whole = parse_table_map(log.table_map, mariadb=True)
    for end in range(len(log.table_map)):
        try:
            table_map = parse_table_map(log.table_map[:end], mariadb=True)
        except StopError:
            continue
        assert table_map.columns != whole.columns or table_map.primary_key is None  # metadata fields are optional


@pytest.mark.parametrize(
    ("kind", "reason"),
    [(39, "binlog_row_value_options"), (20, "event type 20"), (99, "event type 99")],
)
def test_other_events_stop_by_name(kind: int, reason: str) -> None:
    with pytest.raises(StopError, match=rf"shop\.o: .*{reason}"):
        decoder_of(MYSQL).decode(kind, MYSQL.write)


def test_an_unknown_type_byte_stops_and_names_table_and_column() -> None:
    body = MYSQL.table_map.replace(b"\x10\x0d\x0a\x12", b"\x10\x0d\xc8\x12")  # DATE becomes type 200

    with pytest.raises(StopError, match=r"shop\.o has the unknown type byte 200 in column 'd'"):
        parse_table_map(body)


def test_unknown_optional_metadata_stops() -> None:
    with pytest.raises(StopError, match=r"shop\.o carries optional metadata of the unknown type 77"):
        parse_table_map(MYSQL.table_map + b"\x4d\x01\x00")


def test_a_null_in_a_column_that_is_not_null_stops_and_names_it() -> None:
    start = 8 + 2 + 1 + 3  # post-header, extra data, width, bitmap
    body = MYSQL.write[:start] + b"\x10" + MYSQL.write[start + 1 :]

    with pytest.raises(StopError, match=r"shop\.o: column 'e' is NULL although it is NOT NULL"):
        decoder_of(MYSQL).decode(30, body)


@pytest.mark.parametrize(
    ("right", "wrong", "reason"),
    [
        ("f27f02", "000002", "column 'amount' holds a DECIMAL group with too many digits"),
        ("020504016a", "090504016a", "column 'e' holds an index beyond its values"),
        ("020504016a", "020904016a", "column 's' holds a bit beyond its values"),
        ("0504016a", "05ff016a", "column 'b' holds more bits than it has"),
        ("99781e48a1", "99781ff8a1", "column 'created' holds the time of day"),
        ("04ce65e11a7f", "ffff65e11a7f", "column 'created' holds a value that its type cannot have"),
        ("cdcccc3d", "0000807f", "column 'f' holds a number that is not finite"),
        ("c3a9f09f", "c3c3f09f", "column 'c' holds text that is not UTF-8"),
        ("0261622f", "0561622f", "column 'bi' holds more than its 4 bytes"),
    ],
)
def test_a_value_its_type_cannot_have_stops_and_names_the_column(right: str, wrong: str, reason: str) -> None:
    log = MARIADB
    assert bytes.fromhex(right) in log.write
    body = log.write.replace(bytes.fromhex(right), bytes.fromhex(wrong))

    with pytest.raises(StopError) as stop:
        decoder_of(log).decode(log.write_type, body)
    assert str(stop.value).startswith(f"shop.o: {reason}")


def test_json_that_is_damaged_stops_and_names_the_column() -> None:
    body = MYSQL.write.replace(bytes.fromhex("0000020040"), bytes.fromhex("0000020041"))

    with pytest.raises(StopError, match=r"shop\.o: column 'j' holds malformed JSON"):
        decoder_of(MYSQL).decode(30, body)
