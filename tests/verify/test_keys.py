"""Keys of every kind through the whole copy of a table in chunks of a few rows: each row once, and as it was."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from migrate.chunks.mark import ChunkMark
from migrate.chunks.sessions import Sessions, forget
from migrate.copy.table_copy import Attempt, ChunkResult, TableCopy
from migrate.copy.tasks import CopyJob, WriteChunk, read_chunk
from migrate.verify import checksum
from migrate.verify.checksum import Form
from sandbox.settings import Flavour
from sandbox.stack import Sandbox
from tests.copy.setup import Laid, alike, lay, one_place

_ROWS = 3
_PRIMARY = "PRIMARY KEY"


@dataclass(frozen=True)
class Case:
    """A table's key columns, its rows' keys as SQL, and on which flavour alone there is such a thing."""

    name: str
    columns: str
    key: str
    values: tuple[str, ...]
    only: Flavour | None = None
    constraint: str = _PRIMARY


def texts(*values: str) -> tuple[str, ...]:
    return tuple(f"'{value}'" for value in values)


PADDED = texts(
    "", "Anna", "anne  ", "BERT", "bert b", "CÄSAR", "Dora ", "dorb", "Éa", "eb", "ß", "st", "Z", "zz ", "🎁"
)
"""No two are one where neither case nor accents nor spaces at the end count; some have such spaces all the same."""
UNPADDED = texts("", " ", "a", "a ", "a  ", "B", "b b", "b ", "É", "é ", "ß", "ß ", "st", "Z", "🎁")
"""Spaces at the end count."""
EACH = texts("", "A", "a", "á", "Á", "Aa", "aA", "aa", "b", "B", "É", "é", "ß", "SS", "ss", "🎁")
UUIDS = texts(
    *(f"{number:08x}-{number % 3:04x}-1{number % 7:03x}-{8 + number % 4:x}000-{number:012x}" for number in range(16))
)

CASES = [
    Case(
        "integer with gaps of billions",
        "k BIGINT UNSIGNED NOT NULL",
        "k",
        (
            "0",
            "1",
            "2",
            "5000000000",
            "5000000001",
            "9000000000000000000",
            "9223372036854775808",
            "18446744073709551615",
        ),
    ),
    Case(
        "negative integer",
        "k BIGINT NOT NULL",
        "k",
        ("-9223372036854775808", "-5000000000", "-2", "-1", "0", "1", "7000000000", "9223372036854775807"),
    ),
    Case(
        "composite",
        "a INT NOT NULL, b VARCHAR(9) COLLATE utf8mb4_general_ci NOT NULL, c DATETIME(6) NOT NULL",
        "a, b, c",
        tuple(
            f"{a}, '{b}', '2024-02-29 12:00:00.{c:06d}'"
            for a in (-1, 0, 5)
            for b in ("", "É ", "f")
            for c in (0, 1, 999999)
        ),
    ),
    Case("varchar, general_ci", "k VARCHAR(20) COLLATE utf8mb4_general_ci NOT NULL", "k", PADDED),
    Case("char, unicode_ci", "k CHAR(20) COLLATE utf8mb4_unicode_ci NOT NULL", "k", PADDED),
    Case("varchar, 0900_ai_ci", "k VARCHAR(20) COLLATE utf8mb4_0900_ai_ci NOT NULL", "k", UNPADDED, Flavour.MYSQL),
    Case("varchar, 0900_as_cs", "k VARCHAR(20) COLLATE utf8mb4_0900_as_cs NOT NULL", "k", EACH, Flavour.MYSQL),
    Case(
        "varchar, uca1400_ai_ci", "k VARCHAR(20) COLLATE utf8mb4_uca1400_ai_ci NOT NULL", "k", PADDED, Flavour.MARIADB
    ),
    Case(
        "varchar, uca1400_nopad_ai_ci",
        "k VARCHAR(20) COLLATE utf8mb4_uca1400_nopad_ai_ci NOT NULL",
        "k",
        UNPADDED,
        Flavour.MARIADB,
    ),
    Case("varchar, bin", "k VARCHAR(20) COLLATE utf8mb4_bin NOT NULL", "k", EACH),
    Case("char(36)", "k CHAR(36) CHARACTER SET ascii NOT NULL", "k", UUIDS),
    Case("uuid", "k UUID NOT NULL", "k", UUIDS, Flavour.MARIADB),
    Case(
        "binary",
        "k BINARY(4) NOT NULL",
        "k",
        ("X''", "X'0001'", "X'20'", "X'2000FF'", "X'5C27'", "X'61'", "X'FF'"),
    ),
    Case(
        "varbinary",
        "k VARBINARY(4) NOT NULL",
        "k",
        ("X''", "X'00'", "X'0000'", "X'20'", "X'61'", "X'6100'", "X'6120'", "X'FF'"),
    ),
    Case(
        "decimal",
        "k DECIMAL(40,10) NOT NULL",
        "k",
        texts("-123456789012345678901234567890.0000000001", "-123456789012345678901234567890", "-1.5", "-0.0000000001")
        + texts(
            "0", "0.0000000001", "1.5", "123456789012345678901234567889.9999999999", "123456789012345678901234567890"
        ),
    ),
    Case(
        "datetime(6)",
        "k DATETIME(6) NOT NULL",
        "k",
        texts("1000-01-01", "1969-12-31 23:59:59.999999", "2024-02-29 12:00:00", "2024-02-29 12:00:00.000001")
        + texts("2024-02-29 12:00:00.1", "2024-03-31 02:30:00", "9999-12-31 23:59:59.999999"),
    ),
    Case(
        "a unique key", "k BIGINT NOT NULL, n INT", "k", tuple(f"{n * n}, NULL" for n in range(11)), None, "UNIQUE KEY"
    ),
    Case(
        "a unique key of texts",
        "b VARCHAR(9) COLLATE utf8mb4_general_ci NOT NULL, a INT NOT NULL",
        "b, a",
        tuple(f"'{b}', {a}" for a in (-1, 2) for b in ("", "É ", "f", "G ")),
        None,
        "UNIQUE KEY",
    ),
]


def copied(laid: Laid, attempt: Attempt) -> ChunkResult:
    """Copy one chunk of a table with one place as a task does."""
    job = CopyJob(laid.settings, laid.table)
    writer = WriteChunk(job, attempt)
    for item in read_chunk(job, attempt):
        if isinstance(item, ChunkMark):
            writer.mark(item)
        else:
            for line in item.lines:
                writer.rows(0, (line, 1))
    return writer.result()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("load", ["auto", "insert"])
def test_each_row_is_copied_once_whatever_its_key(box: Sandbox, tmp_path: Path, case: Case, load: str) -> None:
    if case.only not in (None, box.source.flavour):
        pytest.skip("the other flavour's")
    create = f"CREATE TABLE {{t}} ({case.columns}, v INT NOT NULL, {case.constraint} ({case.key}))"
    rows = ", ".join(f"({value}, {number})" for number, value in enumerate(case.values))
    few = {"copy": {"chunk_rows": _ROWS, "load": load}}
    laid = lay(box, tmp_path, create, one_place("t"), fill=[f"INSERT INTO {{t}} VALUES {rows}"], extra=few)
    count = len(case.values)
    attempts: list[Attempt] = []
    with closing(Sessions(laid.settings)) as sessions:
        copy = TableCopy(laid.settings, laid.table, laid.state(), sessions)
        assert copy.begin()
        while wave := copy.wave(4):
            attempts += wave
            copy.settle([copied(laid, attempt) for attempt in wave])
        copy.finish()
        forget()
        assert len(attempts) == -(-count // _ROWS)
        read, inserted, present = copy.counts.rows_read, copy.counts.rows_inserted, copy.counts.rows_present
        assert (read, inserted, present) == (count, count, 0), "a gap or an overlap"
        for attempt in attempts:
            assert alike(sessions, laid.table, attempt.chunk)
            form = Form(sessions.flavours([laid.table]))
            total, _ = checksum.source_total(sessions.source, [laid.table], attempt.chunk, form)
            assert total.rows == min(_ROWS, count - _ROWS * attempt.chunk.number)
    names = ", ".join(f"HEX({part.strip()})" for part in case.key.split(","))
    (at_target,) = laid.target_rows(f"v, {names}").values()
    assert sorted(at_target) == sorted(laid.source_rows(f"v, {names}"))
