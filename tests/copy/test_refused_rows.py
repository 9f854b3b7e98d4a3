"""Rows that the target refuses in the copy: named, parked, and as right as ever when the stream comes to them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from migrate.chunks.line import build
from migrate.copy.writer import ChunkWriter, Written
from migrate.model.change import Key
from migrate.model.chunk import Chunk
from migrate.model.coordinate import Coordinate
from migrate.model.errors import OwnershipLost, StopError
from migrate.model.message import Row
from migrate.mysql.connection import Connection
from migrate.state.chunks import CopyCounts
from migrate.state.record import Partition
from migrate.target import chunk_fence, ledger, parked, write_context
from migrate.target.chunk_fence import WHOLE_TABLE
from migrate.target.decide import Intent
from migrate.target.parked import SetAside
from migrate.target.part import Part, Work, apply
from migrate.target.pool import TargetPool
from migrate.target.reached import Claim, take
from migrate.target.rows import PlaceWriter
from sandbox.stack import Sandbox
from tests.copy.setup import Laid, lay, one_place
from tests.failover.support import wait

CREATE = "CREATE TABLE {t} (id INT PRIMARY KEY, v VARCHAR(20), n INT)"
AT = Coordinate(1, 1, 4, 0)


class Copying:
    """Chunk 0 of a laid table with one place, its fences open."""

    def __init__(self, laid: Laid) -> None:
        self.laid = laid
        self.name = laid.settings.name
        self.target = laid.connect(0)
        for chunk in (Chunk(WHOLE_TABLE, None, None), Chunk(0, None, None)):
            chunk_fence.open_attempt(self.target, self.name, laid.table.table, chunk, 1)

    def close(self) -> None:
        self.target.close()

    def write(self, *rows: tuple[Any, ...], aside: dict[Key, str] | None = None, attempt: int = 1) -> Written:
        table = self.laid.table.table
        lines = [build(table, [None if value is None else str(value).encode() for value in row]) for row in rows]
        with closing(TargetPool(self.laid.settings, loads=True)) as pool:
            writer = ChunkWriter(self.laid.settings, self.laid.table, pool, 0, attempt, aside)
            return writer.write({0: [(b"".join(lines), len(lines))]}, last=True)

    def keys(self) -> list[int]:
        (rows,) = self.laid.target_rows("id").values()
        return [int(row[0]) for row in rows]

    def parked(self) -> dict[Key, tuple[str, str]]:
        return {one.key: (one.refusal, one.reason) for one in parked.every(self.target, self.name)}

    def partition(self) -> Partition:
        partition = Partition(self.name, "topic", 0)
        take(self.target, Claim(partition, 1, "h"), ["main"])
        return partition

    def stream(self, session: Connection, key: Key, row: Row | None) -> None:
        """A change of the stream, in a transaction of its own."""
        writer = PlaceWriter(self.laid.table.table, "t")
        work = [Work(writer, [Intent(key, row, AT)])]
        apply(session, [Part(Claim(Partition(self.name, "topic", 0), 1, "h"), {"main": AT}, work)], 0, lambda *_: None)


def laid(box: Sandbox, tmp_path: Path, narrower: str, create: str = CREATE, **copy: object) -> Laid:
    made = lay(box, tmp_path, create, one_place("t"), extra={"copy": copy})
    with closing(made.connect(0)) as target:
        target.execute(f"ALTER TABLE t {narrower}")
    return made


@pytest.fixture(params=["auto", "insert"])
def copying(box: Sandbox, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Copying]:
    """Into `v VARCHAR(3)`, by LOAD DATA and without it; what is refused is parked."""
    with closing(Copying(laid(box, tmp_path, "MODIFY v VARCHAR(3)", load=request.param, refused="park"))) as made:
        yield made


REFUSALS = {
    "too long": ("MODIFY v VARCHAR(3)", (7, "long", 1), "'v'"),
    "out of range": ("MODIFY n TINYINT", (7, "a", 128), "'n'"),
    "not null": ("MODIFY n INT NOT NULL", (7, "a", None), "'n'"),
    "not a number": ("MODIFY v INT", (7, "a", 1), "v"),
    "not a label": ("MODIFY v ENUM('1', '2')", (7, "a", 1), "'v'"),
    "check": ("ADD CONSTRAINT small CHECK (n < 5)", (7, "a", 5), "small"),
    "no partition": ("PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (7))", (7, "a", 1), "partition"),
}


@pytest.mark.parametrize("how", REFUSALS)
@pytest.mark.parametrize("load", ["auto", "insert"])
def test_a_refused_row_is_named_with_table_key_and_column(box: Sandbox, tmp_path: Path, how: str, load: str) -> None:
    narrower, row, named = REFUSALS[how]
    with closing(Copying(laid(box, tmp_path, narrower, load=load))) as copying:
        table = copying.laid.table.table.full_name
        with pytest.raises(StopError, match=rf'ds_0\.t refuses {table} key \["7"\]: .*{named}') as stopped:
            copying.write((1, "1", 1), row, (2, "2", 2))
        assert f"migrate parked skip {table} '[\"7\"]' --reason" in stopped.value.hint
        assert "long" not in stopped.value.message.replace("too long", "")
        assert (copying.keys(), copying.parked()) == ([], {})


@pytest.mark.parametrize("how", REFUSALS)
def test_a_refused_row_is_parked_and_the_others_are_copied(box: Sandbox, tmp_path: Path, how: str) -> None:
    narrower, row, named = REFUSALS[how]
    with closing(Copying(laid(box, tmp_path, narrower, refused="park"))) as copying:
        rows = [(number, "1", 1) for number in range(1, 7)]
        assert copying.write(*rows[:4], row, *rows[4:]) == Written(CopyCounts(rows_inserted=6, parked=1))
        assert copying.keys() == [1, 2, 3, 4, 5, 6]
        ((key, (refusal, reason)),) = copying.parked().items()
        assert (key, reason) == (("7",), "copy.refused: park")
        assert named in refusal
        with pytest.raises(OwnershipLost):  # the chunk is closed
            copying.write((8, "1", 1))


def test_a_row_that_a_person_set_aside_is_parked_and_no_other(box: Sandbox, tmp_path: Path) -> None:
    with closing(Copying(laid(box, tmp_path, "MODIFY v VARCHAR(3)"))) as copying:
        with pytest.raises(StopError, match=r'key \["3"\]'):
            copying.write((1, "a", 1), (2, "long", 1), (3, "long", 1), aside={("2",): "ticket 12"})
        done = copying.write((1, "a", 1), (2, "long", 1), (3, "b", 1), aside={("2",): "ticket 12"})
        assert done == Written(CopyCounts(rows_inserted=2, parked=1))
        assert copying.parked() == {("2",): ("Data too long for column 'v' at row 1 (error 1406)", "ticket 12")}


def test_a_column_that_the_target_lacks_stops_the_copy_whatever_is_configured(box: Sandbox, tmp_path: Path) -> None:
    with closing(Copying(laid(box, tmp_path, "DROP COLUMN v", refused="park"))) as copying:
        with pytest.raises(Exception, match="Unknown column 'v'"):
            copying.write((1, "a", 1))
        assert copying.parked() == {}


def test_every_row_of_a_chunk_may_be_refused(copying: Copying) -> None:
    assert copying.write(*((number, "long", 1) for number in range(40))) == Written(CopyCounts(parked=40))
    assert len(copying.parked()) == 40


def test_what_is_there_or_deleted_by_now_is_not_parked(copying: Copying) -> None:
    copying.partition()
    copying.stream(copying.target, ("1",), {"id": "1", "v": "new", "n": "2"})
    copying.stream(copying.target, ("2",), None)
    why = SetAside("refused", "a test")
    changed = Intent(("3",), {"id": "3", "v": "longer", "n": "1"}, AT)
    parked.put(copying.target, copying.name, copying.laid.table.table, "t", changed, why)
    done = copying.write((1, "long", 1), (2, "long", 1), (3, "long", 1), (4, "long", 1))
    assert done == Written(CopyCounts(rows_present=2, taken_out=1, parked=1))
    assert copying.parked() == {("3",): ("refused", "a test"), ("4",): copying.parked()["4",]}


@pytest.mark.parametrize("row", [{"id": "7", "v": "new", "n": "1"}, None], ids=["write", "delete"])
def test_a_later_change_of_a_parked_row_ends_it(copying: Copying, row: Row | None) -> None:
    copying.partition()
    copying.write((1, "a", 1), (7, "long", 1))
    copying.stream(copying.target, ("7",), row)
    assert copying.parked() == {}
    assert copying.keys() == ([1] if row is None else [1, 7])


@pytest.mark.parametrize("row", [{"id": "7", "v": "new", "n": "1"}, None], ids=["write", "delete"])
def test_a_change_in_flight_is_waited_for_before_a_row_is_parked(
    copying: Copying, row: Row | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has looked for parked rows already, and not locked the key: it would not end what is parked now."""
    copying.partition()
    halfway, go_on = threading.Event(), threading.Event()
    read = write_context.read

    def held(connection: Connection, migration: str) -> write_context.Standing:
        found = read(connection, migration)
        halfway.set()
        assert go_on.wait(60)
        return found

    def change() -> None:
        with closing(copying.laid.connect(0)) as session:
            copying.stream(session, ("7",), row)

    monkeypatch.setattr(write_context, "read", held)
    done: list[Written] = []
    stream = threading.Thread(target=change)
    copy = threading.Thread(target=lambda: done.append(copying.write((1, "a", 1), (7, "long", 1))))
    stream.start()
    try:
        assert halfway.wait(60)
        copy.start()
        locks = "SELECT 1 FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'"
        wait(lambda: copying.target.query(locks) or not copy.is_alive(), "the copy to wait for the stream")
    finally:
        go_on.set()
    stream.join(60)
    copy.join(60)
    assert copying.parked() == {}
    assert done == [
        Written(CopyCounts(rows_inserted=1, taken_out=1))
        if row is None
        else Written(CopyCounts(rows_inserted=1, rows_present=1))
    ]


def test_a_row_that_is_taken_by_now_ends_what_an_earlier_attempt_parked(copying: Copying) -> None:
    copying.write((1, "a", 1), (7, "long", 1), (8, "long", 1))
    copying.target.execute("ALTER TABLE t MODIFY v VARCHAR(20)")
    chunk_fence.open_attempt(copying.target, copying.name, copying.laid.table.table, Chunk(0, None, None), 2)
    assert copying.write((1, "a", 1), (7, "long", 1), attempt=2) == Written(CopyCounts(rows_inserted=1, rows_present=1))
    assert [*copying.parked()] == [("8",)]
    assert copying.keys() == [1, 7]


def test_the_key_of_a_refused_row_is_one_however_it_is_spelt(box: Sandbox, tmp_path: Path) -> None:
    create = "CREATE TABLE {t} (id VARCHAR(9) COLLATE utf8mb4_general_ci PRIMARY KEY, v VARCHAR(20))"
    with closing(Copying(laid(box, tmp_path, "MODIFY v VARCHAR(3)", create, refused="park"))) as copying:
        copying.partition()
        table = copying.laid.table.table
        (key_hash,) = ledger.key_hashes(copying.target, table, [("GONE",)])
        ledger.put(copying.target, copying.name, table, "t", [(("GONE",), key_hash, AT, True)])
        done = copying.write(("Anna", "long"), ("gone", "long"), ("bert", "a"))
        assert done == Written(CopyCounts(rows_inserted=1, taken_out=1, parked=1))
        copying.stream(copying.target, ("ANNA",), {"id": "ANNA", "v": "new"})
        assert copying.parked() == {}
