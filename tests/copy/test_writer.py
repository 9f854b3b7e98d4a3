"""What a copy's transaction does with rows that are there, were deleted, or are being written by the stream."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from migrate.chunks.line import build
from migrate.copy.writer import ChunkWriter, Values, Written
from migrate.model.change import Key
from migrate.model.chunk import Chunk
from migrate.model.coordinate import Coordinate
from migrate.model.errors import OwnershipLost
from migrate.mysql.connection import Connection
from migrate.mysql.quoting import quote
from migrate.state.chunks import CopyCounts
from migrate.state.record import Partition
from migrate.target import chunk_fence, ledger
from migrate.target.chunk_fence import WHOLE_TABLE
from migrate.target.decide import Intent
from migrate.target.part import Part, Work, apply
from migrate.target.pool import TargetPool, connect_database
from migrate.target.reached import Claim, take
from migrate.target.rows import PlaceWriter
from sandbox.stack import Sandbox
from tests.copy.setup import Laid, lay, one_place, spread

CREATE = "CREATE TABLE {t} (id INT PRIMARY KEY, v VARCHAR(20))"
CREATE_CI = "CREATE TABLE {t} (id VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY, v VARCHAR(20))"
CREATE_UNIQUE = "CREATE TABLE {t} (id INT PRIMARY KEY, v VARCHAR(20) UNIQUE)"
AT = Coordinate(1, 1, 4, 0)
Way = dict[str, Any]


class Copying:
    """Chunk 0 of the laid table, with attempt 1 open in every database."""

    def __init__(self, laid: Laid) -> None:
        self.laid = laid
        self.pool = TargetPool(laid.settings)
        self.open(1)

    def open(self, attempt: int) -> None:
        for database in self.laid.table.databases:
            for chunk in (Chunk(WHOLE_TABLE, None, None), Chunk(0, None, None)):
                session = self.pool.get(database)
                chunk_fence.open_attempt(session, self.laid.settings.name, self.laid.table.table, chunk, attempt)

    def write(self, rows: list[Values], *, attempt: int = 1, last: bool = False, place: int = 0) -> Written:
        pool = TargetPool(self.laid.settings, loads=True)
        table = self.laid.table.table
        lines = [build(table, [None if value is None else str(value).encode() for value in row]) for row in rows]
        try:
            writer = ChunkWriter(self.laid.settings, self.laid.table, pool, 0, attempt)
            return writer.write({place: [(b"".join(lines), len(lines))] if lines else []}, last=last)
        finally:
            pool.close()

    def rows(self) -> list[tuple[object, ...]]:
        return self.laid.target_rows()[str(self.laid.table.places[0])]

    def session(self) -> Connection:
        return connect_database(self.laid.settings, self.laid.table.places[0].database)

    def put(self, sql: str) -> None:
        connection = self.session()
        connection.execute(sql.replace("{t}", quote(self.laid.table.places[0].table)))
        connection.close()


@pytest.fixture(params=["auto", "insert"])
def way(request: pytest.FixtureRequest) -> Way:
    """By LOAD DATA, and without it."""
    return {"copy": {"load": request.param, "write_rows": 2}}


@pytest.fixture
def copying(box: Sandbox, tmp_path: Path, way: Way) -> Copying:
    return Copying(lay(box, tmp_path, CREATE, one_place("t"), extra=way))


def note_delete(copying: Copying, connection: Connection, key: Key) -> None:
    table, place = copying.laid.table.table, copying.laid.table.places[0].table
    (key_hash,) = ledger.key_hashes(connection, table, [key])
    ledger.put(connection, copying.laid.settings.name, table, place, [(key, key_hash, AT, True)])


def test_a_key_that_the_ledger_of_its_group_names_is_taken_out(copying: Copying) -> None:
    """The row was deleted at one source, or moved to another, after the copy had read it."""
    planned = copying.laid.table
    grouped = copying.laid.plan.tables[planned.table.id] = replace(planned, group="all")
    session, migration, place = copying.session(), copying.laid.settings.name, planned.places[0].table
    (key_hash,) = ledger.key_hashes(session, planned.table, [("1",)])
    ledger.put(session, migration, grouped.noted_as, place, [(("1",), key_hash, AT, False)])
    assert copying.write([(1, "a"), (2, "b")]) == Written(CopyCounts(rows_inserted=1, taken_out=1))
    assert copying.rows() == [(2, "b")]
    session.close()


def test_what_is_absent_is_inserted_and_what_is_there_stays(copying: Copying) -> None:
    copying.put("INSERT INTO {t} VALUES (2, 'newer')")
    assert copying.write([(1, "a"), (2, "older"), (3, None)]) == Written(CopyCounts(rows_inserted=2, rows_present=1))
    assert copying.rows() == [(1, "a"), (2, "newer"), (3, None)]


def test_an_older_attempt_writes_nothing(copying: Copying) -> None:
    copying.open(2)
    with pytest.raises(OwnershipLost, match="attempt 1 was superseded"):
        copying.write([(1, "a")], attempt=1)
    assert copying.rows() == []
    copying.write([(1, "a")], attempt=2)
    assert copying.rows() == [(1, "a")]


def test_nothing_is_written_under_a_closed_chunk(copying: Copying) -> None:
    copying.write([(1, "a")], last=True)
    with pytest.raises(OwnershipLost):
        copying.write([(2, "b")])
    assert copying.rows() == [(1, "a")]


def test_the_last_write_closes_the_chunk_in_databases_without_rows_too(box: Sandbox, tmp_path: Path, way: Way) -> None:
    copying = Copying(lay(box, tmp_path, CREATE, spread("id", "t")))
    copying.write([(8, "a")], last=True)
    for database in copying.laid.table.databases:
        closed = copying.pool.get(database).query("SELECT chunk, closed FROM _migrate_chunk_fence ORDER BY chunk")
        assert closed == [(-1, 0), (0, 1)]


def test_a_key_in_the_ledger_is_taken_out_again(copying: Copying) -> None:
    connection = copying.session()
    note_delete(copying, connection, ("2",))
    assert copying.write([(1, "a"), (2, "deleted")]) == Written(CopyCounts(rows_inserted=1, taken_out=1))
    assert copying.rows() == [(1, "a")]


def test_a_ledger_entry_of_an_equal_key_of_another_case_counts(box: Sandbox, tmp_path: Path, way: Way) -> None:
    copying = Copying(lay(box, tmp_path, CREATE_CI, one_place("t"), extra=way))
    connection = copying.session()
    note_delete(copying, connection, ("ABC",))
    copying.put("INSERT INTO {t} VALUES ('x', 'newer')")
    assert copying.write([("abc", "deleted"), ("X", "older"), ("y", "b")]) == Written(
        CopyCounts(rows_inserted=1, rows_present=1, taken_out=1)
    )
    assert copying.rows() == [("x", "newer"), ("y", "b")]


def test_a_taken_unique_value_leaves_the_row_to_the_stream(box: Sandbox, tmp_path: Path, way: Way) -> None:
    copying = Copying(lay(box, tmp_path, CREATE_UNIQUE, one_place("t"), extra=way))
    copying.put("INSERT INTO {t} VALUES (9, 'taken'), (2, 'newer')")
    rows: list[Values] = [(1, "a"), (2, "older"), (3, "taken"), (4, "b"), (5, None), (6, None)]
    assert copying.write(rows) == Written(CopyCounts(rows_inserted=4, rows_present=1, conflicts=1), left=[("3",)])
    assert copying.rows() == [(1, "a"), (2, "newer"), (4, "b"), (5, None), (6, None), (9, "taken")]


@pytest.mark.timeout(60)
def test_a_delete_in_flight_is_waited_for(copying: Copying) -> None:
    """The stream noted a delete and has not committed: the copy must not commit the row past it."""
    stream = copying.session()
    stream.raw.begin()
    note_delete(copying, stream, ("1",))
    done: list[Written] = []
    copy = threading.Thread(target=lambda: done.append(copying.write([(1, "deleted")])))
    copy.start()
    copy.join(1.0)
    assert copy.is_alive(), "the copy committed although a delete of its key was in flight"
    stream.raw.commit()
    copy.join(30)
    assert done == [Written(CopyCounts(taken_out=1))]
    assert copying.rows() == []


@pytest.mark.timeout(60)
def test_a_delete_that_comes_while_the_copy_has_inserted_finds_the_row(copying: Copying) -> None:
    """The other order: the copy's row is not committed yet when the stream looks for it; then it waits."""
    laid = copying.laid
    migration, table, place = laid.settings.name, laid.table.table, laid.table.places[0]
    copy = copying.session()
    partition = Partition(migration, "topic", 0)
    stream = copying.session()
    take(stream, Claim(partition, 1, "h"), ["main"])
    copy.raw.begin()
    chunk_fence.check(copy, migration, table, 0, 1)
    copy.execute(f"INSERT INTO {quote(place.table)} VALUES (1, 'a')")
    assert not ledger.any_locked(copy, migration, table, place.table)
    part = Part(
        Claim(partition, 1, "h"), {"main": AT}, [Work(PlaceWriter(table, place.table), [Intent(("1",), None, AT)])]
    )
    deleted: list[int] = []
    delete = threading.Thread(
        target=lambda: deleted.append(apply(stream, [part], 1, lambda _partition, _empties: None).deleted)
    )
    delete.start()
    delete.join(1.0)
    assert delete.is_alive(), "the stream did not wait for the copy's row"
    copy.raw.commit()
    delete.join(30)
    assert deleted == [1]
    assert copying.rows() == []


def test_rows_of_many_statements_are_one_transaction(box: Sandbox, tmp_path: Path, way: Way) -> None:
    """A refused value in the last statement leaves nothing behind."""
    laid = lay(box, tmp_path, CREATE, one_place("t"), extra=way)
    copying = Copying(laid)
    rows: list[Values] = [(1, "a"), (2, "b"), (3, "c"), (4, "x" * 21)]
    with pytest.raises(Exception, match="Data too long"):
        copying.write(rows)
    assert copying.rows() == []
