"""Values on the way to the target: the short cut gives what the long way gives."""

from __future__ import annotations

import pytest

from migrate.chunks.column_codecs import text_of, to_parameters, to_text
from migrate.model.errors import StopError
from migrate.model.table import Column, Kind
from migrate.mysql.values import from_server, parameter

RAW = {
    Kind.INT: [b"0", b"-3", b"18446744073709551615"],
    Kind.DECIMAL: [b"-0.10", b"12345678901234567890123456789012345.123456789012345678901234567890"],
    Kind.FLOAT: [b"0.10000000149011612", b"1e20", b"-0"],
    Kind.DOUBLE: [b"1e-300", b"100000000000000000000", b"0.1"],
    Kind.BIT: [b"77777"],
    Kind.ENUM: [b"0", b"3"],
    Kind.SET: [b"0", b"18446744073709551615"],
    Kind.DATE: [b"0000-00-00"],
    Kind.DATETIME: [b"9999-12-31 23:59:59.999999"],
    Kind.TIMESTAMP: [b"2020-02-02 02:02:02.000"],
    Kind.TIME: [b"-838:59:59.00"],
    Kind.YEAR: [b"0000", b"2155"],
    Kind.TEXT: [b"", "😀ü".encode(), b"0"],
    Kind.RAWTEXT: [b"\xe9", b"\x00\xfc"],
    Kind.BINARY: [b"", b"\xff\x00\x00", b"'\\%s"],
    Kind.GEOMETRY: [bytes(range(25))],
    Kind.VECTOR: [b"\x00\x00\x80?"],
    Kind.JSON: ['{"a": [1, null, "ü"]}'.encode()],
    Kind.UUID: [b"123e4567-e89b-12d3-a456-426655440000"],
    Kind.INET: [b"::1"],
}


@pytest.mark.parametrize("kind", Kind)
def test_a_column_is_carried_as_its_canonical_text_would_be(kind: Kind) -> None:
    column = Column("c", kind.value, kind, "latin1")
    raw = [None, *RAW[kind]]
    read, write = from_server(column), parameter(column)
    assert to_parameters(column)(raw) == [write(read(value)) for value in raw]
    assert to_text(column)(raw) == [read(value) for value in raw]


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind not in (Kind.JSON, Kind.GEOMETRY)])
def test_a_keys_parameter_leads_back_to_its_text(kind: Kind) -> None:
    column = Column("c", kind.value, kind, "latin1")
    for raw in RAW[kind]:
        text = from_server(column)(raw)
        assert text is not None
        assert text_of(column)(parameter(column)(text)) == text


@pytest.mark.parametrize("kind", [Kind.TEXT, Kind.JSON])
def test_half_a_character_is_refused_by_its_columns_name(kind: Kind) -> None:
    column = Column("c", kind.value, kind, "utf8mb4")
    raw = [b'"ok"', b'"\xed\xa0\xbd"']
    for read in (to_parameters(column), to_text(column)):
        with pytest.raises(StopError, match=rf"^column c \({kind.value}\) holds text that is not UTF-8") as stop:
            read(raw)
        assert "HEX(`c`) REGEXP " in stop.value.hint
