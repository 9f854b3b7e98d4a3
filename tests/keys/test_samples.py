"""Tables whose keys matched nothing, or their neighbours too, as they were met."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from migrate.chunks.sessions import forget, kept
from migrate.model.chunk import Chunk
from migrate.mysql.connection import Connection
from migrate.target.rows import PlaceWriter
from migrate.verify.chunk_check import CheckJob, compare_chunk
from migrate.verify.lookup import look_up
from sandbox.stack import Sandbox
from tests.helpers import catalog_table
from tests.keys.laid import lay_rows, sides

_NUMBERED = "n INT NOT NULL, v INT NOT NULL"
_WIDE_SET = ",".join(f"'m{number}'" for number in range(1, 65))


@pytest.fixture(scope="module")
def databases(box: Sandbox) -> Iterator[tuple[Connection, str, str]]:
    with sides(box) as found:
        yield found
        forget()


@pytest.mark.parametrize(
    ("part", "texts"), [("ENUM('a','b','c','d')", ("1", "2", "3", "4")), ("SET('x','y','z')", ("0", "5", "2", "7"))]
)
def test_enum_and_set_in_a_composite_key(
    box: Sandbox, databases: tuple[Connection, str, str], part: str, texts: tuple[str, ...]
) -> None:
    definition = f"id INT UNSIGNED NOT NULL, kind {part} NOT NULL, {_NUMBERED}, PRIMARY KEY (id, kind)"
    keys = [*zip(("1", "1", "2", "3"), texts, strict=True)]
    laid = lay_rows(box, *databases, definition, keys)
    job, whole = CheckJob(laid.settings, (laid.planned,)), Chunk(0, None, None)
    laid.one.query("UPDATE t SET v = 99 WHERE n < 2")
    laid.one.query("DELETE FROM t WHERE n >= 2")
    assert {*compare_chunk(job, whole).suspects.keys} == {*keys}
    seen = look_up(kept(laid.settings), [laid.planned], keys)
    assert [bool(seen[key].source) for key in keys] == [True] * 4
    assert [bool(seen[key].targets) for key in keys] == [True, True, False, False]
    writer = PlaceWriter(laid.table, "t")
    with laid.one.transaction():
        assert writer.present(laid.one, keys) == {*keys[:2]}
        writer.update(laid.one, [laid.row(number) for number in (0, 1)])
        writer.insert(laid.one, [laid.row(number) for number in (2, 3)])
    assert not compare_chunk(job, whole).suspects.keys
    with laid.one.transaction():
        assert writer.delete(laid.one, keys[:2]) == 2
    assert laid.values() == {2: 0, 3: 0}


@pytest.mark.parametrize(
    ("definition", "prefix", "suffix"),
    [
        ("id DECIMAL(20,0) NOT NULL", "12345678901234560", ""),
        ("id DECIMAL(30,10) NOT NULL", "12345678901234.00000000", ""),
        ("id DECIMAL(20,0) NOT NULL, a INT NOT NULL", "12345678901234560", "1"),
    ],
)
def test_a_batch_that_deletes_most_rows_of_a_table_with_a_decimal_key(
    box: Sandbox, databases: tuple[Connection, str, str], definition: str, prefix: str, suffix: str
) -> None:
    key = "id, a" if suffix else "id"
    texts = [f"{prefix}{number:02d}" for number in range(20)]
    keys = [(text, suffix) if suffix else (text,) for text in texts]
    laid = lay_rows(box, *databases, f"{definition}, {_NUMBERED}, PRIMARY KEY ({key})", keys)
    writer = PlaceWriter(laid.table, "t")
    laid.one.query("ANALYZE TABLE t")
    with laid.one.transaction():
        assert writer.present(laid.one, keys[:18]) == {*keys[:18]}
        assert writer.delete(laid.one, keys[:18]) == 18
    assert laid.values() == {18: 0, 19: 0}


@pytest.mark.parametrize(
    ("definition", "held", "taken"),
    [
        ("DECIMAL(20,0)", ("9007199254740992", "9007199254740993", "9007199254740994"), "9007199254740993"),
        (f"SET({_WIDE_SET})", ("9223372036854775808", "9223372036854775809", "1"), "9223372036854775809"),
        ("ENUM('3','2','1')", ("1", "2", "3"), "3"),
        ("VARCHAR(9) CHARACTER SET latin1 COLLATE latin1_general_cs", ("A", "a", "\xe9"), "a"),
    ],
)
def test_a_row_makes_way_for_its_own_unique_value_alone(
    box: Sandbox, databases: tuple[Connection, str, str], definition: str, held: tuple[str, ...], taken: str
) -> None:
    one, _, target = databases
    one.query("DROP TABLE IF EXISTS t")
    one.query(f"CREATE TABLE t (id INT NOT NULL PRIMARY KEY, u {definition} NOT NULL, UNIQUE KEY (u))")
    table = catalog_table(one, target, "t")
    writer = PlaceWriter(table, "t")
    with one.transaction():
        writer.insert(one, [{"id": str(number), "u": text} for number, text in enumerate(held)])
        assert writer.insert_taking(one, [{"id": "9", "u": taken}]) == [{"id": str(held.index(taken))}]
    assert {row[0] for row in one.query("SELECT id FROM t")} == {0, 1, 2, 9} - {held.index(taken)}
