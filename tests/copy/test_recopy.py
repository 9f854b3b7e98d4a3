"""Copying a table or a part of it once more, the stream's part played by hand. Spark is left out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from migrate.chunks.mark import ChunkMark
from migrate.chunks.outcome import AttemptEnd
from migrate.chunks.sessions import Sessions, forget
from migrate.commands import row_filter_changes
from migrate.copy import recopy
from migrate.copy.recopy import Recopy, check_where
from migrate.copy.table_copy import Attempt, ChunkResult, TableCopy
from migrate.copy.tasks import CopyJob, WriteChunk, read_chunk
from migrate.model.chunk import Chunk
from migrate.model.coordinate import Coordinate
from migrate.model.errors import ConfigError, OwnershipLost, PreflightError
from migrate.mysql.connection import connect
from migrate.state import chunks, phase
from migrate.state.chunks import ChunkState
from migrate.state.phase import Phase
from migrate.state.record import Partition
from migrate.target import chunk_fence, ledger, write_context
from migrate.target.decide import Intent
from migrate.target.fence import CHUNK_FENCE
from migrate.target.part import Part, Work, apply
from migrate.target.pool import TargetPool
from migrate.target.reached import Claim, take
from migrate.target.rows import PlaceWriter
from sandbox.stack import Sandbox
from tests.copy.setup import Laid, lay, spread, write_chunk
from tests.helpers import server_of

CREATE = "CREATE TABLE {t} (id INT PRIMARY KEY, v VARCHAR(20))"
NUMBERS = "WITH RECURSIVE seq (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM seq WHERE n < 60)"
ROWS = f"INSERT INTO {{t}} {NUMBERS} SELECT n, IF(n % 10 = 0, '100%', n) FROM seq"
ALL = list(range(1, 61))
AT = Coordinate(1, 1, 4, 0)


@contextmanager
def copying(laid: Laid, again: Recopy | None = None) -> Iterator[TableCopy]:
    state, sessions = laid.state(), Sessions(laid.settings)
    try:
        yield TableCopy(laid.settings, laid.table, state, sessions, lambda _seconds: None, again)
    finally:
        sessions.close()
        state.dispose()
        forget()


def written(laid: Laid, copy: TableCopy, attempt: Attempt) -> ChunkResult:
    """Copy one chunk as a task does."""
    return write_chunk(CopyJob(laid.settings, laid.table, copy.aside, copy.part), attempt)


def copy_rest(laid: Laid, copy: TableCopy) -> None:
    while wave := copy.wave(3):
        copy.settle([written(laid, copy, attempt) for attempt in wave])
    copy.finish()


def copied(laid: Laid, again: Recopy | None = None) -> tuple[int, int]:
    """Copy to the end; how many rows were read and inserted."""
    with copying(laid, again) as copy:
        assert copy.begin()
        copy_rest(laid, copy)
        return copy.counts.rows_read, copy.counts.rows_inserted


@pytest.fixture
def laid(box: Sandbox, tmp_path: Path) -> Laid:
    """A table of 60 rows that was copied, in chunks of 10."""
    few = {"copy": {"chunk_rows": 10, "master": "local[2]"}}
    made = lay(box, tmp_path, CREATE, spread("id", "t"), fill=[ROWS], extra=few)
    assert copied(made) == (60, 60)
    return made


def keys(laid: Laid) -> list[int]:
    return sorted(row[0] for rows in laid.target_rows("id").values() for row in rows)


def lose(laid: Laid, where: str) -> None:
    """A person deletes rows at the target."""
    for index, place in enumerate(laid.table.places):
        with closing(laid.connect(index)) as target:
            target.execute(f"DELETE FROM {place.table} WHERE {where}")


def stream_deletes(laid: Laid, key: int) -> None:
    """The source's delete, and its way through the stream."""
    laid.box.source.execute(f"DELETE FROM t WHERE id = {key}", database=laid.source)
    place = laid.table.places[laid.table.rule.route_many([[str(key)]])[0]]
    partition = Partition(laid.settings.name, "topic", 0)
    with closing(TargetPool(laid.settings)) as pool:
        target = pool.get(place.database)
        take(target, Claim(partition, 1, "h"), ["main"])
        work = [Work(PlaceWriter(laid.table.table, place.table), [Intent((str(key),), None, AT)])]
        apply(target, [Part(Claim(partition, 1, "h"), {"main": AT}, work)], 0, lambda *_: None)


def is_open(laid: Laid) -> bool:
    with closing(TargetPool(laid.settings)) as pool:
        found = {
            laid.table.table.id not in write_context.read(pool.get(database), laid.settings.name).closed
            for database in laid.table.databases
        }
    assert len(found) == 1, "open in some databases only"
    return found.pop()


def put_back_to_closed(laid: Laid) -> None:
    """The target databases, as they were when the copy before had ended."""
    with closing(TargetPool(laid.settings)) as pool:
        for database in laid.table.databases:
            pool.get(database).execute(f"UPDATE {CHUNK_FENCE} SET attempt = 1, closed = 1 WHERE chunk = -1")
    assert not is_open(laid)


def stage(laid: Laid) -> Phase:
    with laid.state().connect() as connection:
        return phase.get(connection, laid.settings.name, laid.table.table).phase


def book(laid: Laid, part: int = chunks.WHOLE) -> list[tuple[int, ChunkState]]:
    with laid.state().connect() as connection:
        return [
            (one.chunk.number, one.state) for one in chunks.load(connection, laid.settings.name, laid.table.table, part)
        ]


DONE, VOID = ChunkState.DONE, ChunkState.VOID
RESTART = Recopy(restart=True)


def test_a_restart_brings_what_is_lost_and_leaves_what_is_there(laid: Laid) -> None:
    lose(laid, "id BETWEEN 15 AND 34")
    laid.connect(0).execute(f"UPDATE {laid.table.places[0].table} SET v = 'newer'")
    assert copied(laid, RESTART) == (60, 20)
    assert keys(laid) == ALL
    at_place = laid.target_rows()[str(laid.table.places[0])]
    assert {row[0]: row[1] for row in at_place} == {
        key: str(key) if 15 <= key <= 34 else "newer" for key in (8, 16, 24, 32, 40, 48, 56)
    }
    assert book(laid) == [*((number, VOID) for number in range(6)), *((number, DONE) for number in range(6, 12))]
    assert (stage(laid), is_open(laid)) == (Phase.COPIED, False)


def test_a_part_brings_only_its_rows_and_keeps_the_book_of_the_copy(laid: Laid) -> None:
    lose(laid, "id BETWEEN 15 AND 34")
    assert copied(laid, Recopy(where="id > 20 AND v <> '100%'  -- not those")) == (36, 13)
    assert keys(laid) == [key for key in ALL if key not in (15, 16, 17, 18, 19, 20, 30)]
    assert book(laid) == [(number, DONE) for number in range(6)]
    assert book(laid, 1) == [(number, DONE) for number in range(6, 10)]
    assert (stage(laid), is_open(laid)) == (Phase.COPIED, False)
    assert copied(laid, Recopy(where="v = '100%'")) == (6, 2)
    assert copied(laid, Recopy(where="id < 0")) == (0, 0)
    assert [number for number, _ in book(laid, 2)] == [10]
    with laid.state().connect() as connection:
        planned, done, counts = chunks.totals(connection, laid.settings.name, laid.table.table)
        assert (planned, done, counts.rows_read) == (6, 6, 60)
        assert len(chunks.due(connection, laid.settings.name, laid.table.table, 100)) == 6
        assert chunks.unchecked(connection, laid.settings.name)[0] == 6
    with copying(laid) as copy:
        assert not copy.begin()


@pytest.mark.parametrize(
    ("again", "lost"),
    [(RESTART, False), (RESTART, True), (Recopy(where="id > 0"), False)],
    ids=["restart", "restart, targets lost that it is open", "part"],
)
def test_a_key_deleted_since_the_table_is_open_again_does_not_come_back(laid: Laid, again: Recopy, lost: bool) -> None:
    """Revived, where a target had lost that the table was open again: the delete left no ledger row."""
    lose(laid, "id IN (5, 6)")
    stream_deletes(laid, 7)  # while it is closed: nothing is noted
    with copying(laid, again) as copy:
        assert copy.begin()
        assert is_open(laid)
        if lost:
            put_back_to_closed(laid)
        attempts = copy.wave(10)
        held = WriteChunk(CopyJob(laid.settings, laid.table, {}, copy.part), attempts[0])
        items = list(read_chunk(CopyJob(laid.settings, laid.table, {}, copy.part), attempts[0]))  # 5, 6 and 8 are in it
        for key in (6, 8):
            stream_deletes(laid, key)
        for item in items:
            if isinstance(item, ChunkMark):
                held.mark(item)
            else:
                ids = [str(value.decode()) for value in item.carried[0] if value is not None]
                for place, text in zip(laid.table.rule.route_many([ids]), item.lines, strict=True):
                    held.rows(place, (text, 1))
        first = held.result()
        assert (first.counts.rows_inserted, first.counts.taken_out) == (1, 2)
        copy.settle([first, *(written(laid, copy, attempt) for attempt in attempts[1:])])
        copy_rest(laid, copy)
    assert keys(laid) == [key for key in ALL if key not in (6, 7, 8)]


def test_a_row_that_left_by_the_old_conditions_and_meets_the_new_ones_is_copied(laid: Laid) -> None:
    """Lost: rows that new conditions let in, where they had left by the old ones while a copy was open: what the ledger
    had of that took them out of the copy that was to bring them."""
    with copying(laid, RESTART) as copy:
        copy.begin()
        stream_deletes(laid, 12)  # and it is interrupted
    laid.box.source.execute("INSERT INTO t VALUES (12, 'again')", database=laid.source)
    for number in range(len(laid.table.databases)):
        row_filter_changes._fit(laid.settings, laid.table, number)
    copied(laid)
    assert keys(laid) == ALL


@pytest.mark.parametrize("again", [RESTART, Recopy(where="id > 10")], ids=["restart", "part"])
def test_a_delete_from_before_the_table_was_closed_takes_no_row_of_today(laid: Laid, again: Recopy) -> None:
    """Lost: a row that an application had written again at the targets, after a cutover and before the rollback: a copy
    took it out, as what the ledger had of the delete before was not cleaned up yet."""
    with copying(laid, RESTART) as copy:
        copy.begin()
        stream_deletes(laid, 12)
        copy_rest(laid, copy)
    laid.box.source.execute("INSERT INTO t VALUES (12, 'again')", database=laid.source)
    place = laid.table.rule.route_many([["12"]])[0]
    with closing(laid.connect(place)) as target:
        target.execute(f"INSERT INTO {laid.table.places[place].table} VALUES (12, 'again')")
    copied(laid, again)
    assert keys(laid) == ALL


@pytest.mark.parametrize("other_is_open", [False, True])
def test_what_a_groups_ledger_has_goes_when_no_table_of_it_is_open(
    box: Sandbox, tmp_path: Path, other_is_open: bool
) -> None:
    """Lost: as above, where the table shares its places with another one."""
    laid = lay(box, tmp_path, CREATE, spread("id", "t"), fill=[ROWS], more={"group": "g"})
    name, planned = laid.settings.name, laid.table
    other = replace(planned.table, name="other")
    with copying(laid) as copy:
        copy.begin()
        copy_rest(laid, copy)
    for number in range(len(planned.places)):
        with closing(laid.connect(number)) as target:
            entry = (("12",), ledger.key_hashes(target, planned.table, [("12",)])[0], AT, False)
            ledger.put(target, name, planned.noted_as, planned.places[number].table, [entry])
            if other_is_open:
                chunk_fence.raise_attempt(target, name, other, Chunk(chunk_fence.WHOLE_TABLE, None, None), 1)
    both = replace(planned, members=planned.members | ({other.id} if other_is_open else set()))
    state, sessions = laid.state(), Sessions(laid.settings)
    with closing(sessions):
        again = TableCopy(laid.settings, both, state, sessions, lambda _seconds: None, RESTART)
        again.begin()
        copy_rest(laid, again)
    state.dispose()
    assert keys(laid) == [key for key in ALL if key != 12 or not other_is_open]


@pytest.mark.parametrize("again", [RESTART, Recopy(where="id > 10")], ids=["restart", "part"])
def test_one_that_was_interrupted_goes_on_where_it_was(laid: Laid, again: Recopy) -> None:
    lose(laid, "id > 0")
    with copying(laid, again) as copy:
        copy.begin()
        copy.settle([written(laid, copy, attempt) for attempt in copy.wave(2)])
        copy.wave(1)  # and is killed here
    assert stage(laid) is Phase.COPYING
    with copying(laid, None if again.restart else again) as copy:
        assert copy.begin()
        assert copy.counts.rows_inserted == 20
        copy_rest(laid, copy)
        assert copy.counts.rows_inserted == (60 if again.restart else 50)
    assert keys(laid) == [key for key in ALL if again.restart or key > 10]
    assert (stage(laid), is_open(laid)) == (Phase.COPIED, False)


def test_a_part_that_was_interrupted_comes_first(laid: Laid) -> None:
    lose(laid, "id > 0")
    with copying(laid, Recopy(where="id > 40")) as copy:
        copy.begin()
    with copying(laid, Recopy(where="id > 50")) as copy, pytest.raises(ConfigError, match="id > 40 are being copied"):
        copy.begin()
    assert copied(laid) == (20, 20)  # a plain copy goes on with it
    assert copied(laid, Recopy(where="id > 50")) == (10, 0)


def test_a_restart_ends_a_part(laid: Laid) -> None:
    with copying(laid, Recopy(where="id > 40")) as copy:
        copy.begin()
        copy.wave(1)
    assert copied(laid, RESTART) == (60, 0)
    with copying(laid) as copy:
        assert not copy.begin()


def test_no_part_of_a_table_that_is_not_copied(box: Sandbox, tmp_path: Path) -> None:
    laid = lay(box, tmp_path, CREATE, spread("id", "t"), fill=[ROWS])
    with copying(laid, Recopy(where="id > 40")) as copy, pytest.raises(PreflightError, match="is not copied yet"):
        copy.begin()
    assert copied(laid, RESTART) == (60, 60)


def test_a_copy_that_was_restarted_beside_it_ends_and_its_chunks_can_be_written_no_more(laid: Laid) -> None:
    lose(laid, "id > 0")
    with copying(laid, RESTART) as earlier:
        earlier.begin()
        first, second = earlier.wave(2)
        with copying(laid, RESTART) as later:
            later.begin()
            late = written(laid, earlier, first)
            assert late.problem is not None
            assert late.problem.end is AttemptEnd.LOST
            done = ChunkResult(second.chunk.number, second.attempt, chunks.CopyCounts(10))
            earlier.settle([done])
            assert (second.chunk.number, VOID) in book(laid), "what counts no more is not booked"
            with pytest.raises(OwnershipLost):
                earlier.wave(1)
            copy_rest(laid, later)
            assert later.counts.rows_inserted == 60
    assert keys(laid) == ALL


def test_the_ledger_of_a_table_that_is_open_again_is_not_cleaned_up(laid: Laid) -> None:
    with copying(laid, RESTART) as copy:
        copy.begin()
        stream_deletes(laid, 7)
        with closing(TargetPool(laid.settings)) as pool:
            place = laid.table.places[laid.table.rule.route_many([["7"]])[0]]
            target, name = pool.get(place.database), laid.settings.name
            with target.transaction():
                assert not chunk_fence.hold_closed(target, name, {laid.table.table.id})
            assert ledger.any_locked(target, name, laid.table.table, place.table)


WRONG = {
    "nosuch = 1": "Unknown column 'nosuch'",
    "id = ": "1064",
    "1 = 1) OR (1 = 1": "1064",
    "1 = 1 LIMIT 3": "1064",
    "1 = 1 GROUP BY id": "1064",
    "1 = 1; DROP TABLE t": "1064",
    "id IN (SELECT nosuch FROM nowhere.t)": "nowhere",
}


@pytest.mark.parametrize("where", WRONG)
def test_a_condition_that_the_source_does_not_take_is_refused_in_one_line(laid: Laid, where: str) -> None:
    with closing(connect(server_of(laid.box.source), "source 'main'")) as source:
        with pytest.raises(
            ConfigError, match=f"--where: source 'main' refuses the condition .*{WRONG[where]}"
        ) as refused:
            check_where(source, laid.table.table, where)
        assert "\n" not in refused.value.message
        for right in ("id > 3", "v LIKE '100%'", "id = 1 -- 2", "id = 1 # 2", "id = 1 OR id = 2"):
            check_where(source, laid.table.table, right)


def test_the_source_is_waited_for_before_the_first_read(laid: Laid, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the process was killed between."""
    waited: list[bool] = []

    def killed(*_: object) -> None:
        waited.append(is_open(laid))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, copying(laid, RESTART) as copy:
        patch.setattr(recopy, "readable_end", killed)
        with pytest.raises(KeyboardInterrupt):
            copy.begin()
    with copying(laid) as copy:
        monkeypatch.setattr(recopy, "readable_end", lambda *_: waited.append(is_open(laid)))
        copy.begin()
        assert waited == [True, True]
    with copying(laid) as copy:
        copy.begin()
        assert waited == [True, True]


def test_a_run_that_another_one_overtook_does_not_end_the_copy(laid: Laid) -> None:
    with copying(laid, RESTART) as first, copying(laid, RESTART) as second:
        assert first.begin()
        while wave := first.wave(3):
            first.settle([written(laid, first, attempt) for attempt in wave])
        assert second.begin()
        with pytest.raises(OwnershipLost, match="another run of it began"):
            first.finish()
        assert (stage(laid), is_open(laid)) == (Phase.COPYING, True)
        copy_rest(laid, second)
    assert (stage(laid), is_open(laid)) == (Phase.COPIED, False)


def test_a_copy_that_was_killed_while_it_closed_waits_for_the_source_again(
    laid: Laid, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[str] = []
    with copying(laid, RESTART) as copy:
        assert copy.begin()
        while wave := copy.wave(3):
            copy.settle([written(laid, copy, attempt) for attempt in wave])
        with monkeypatch.context() as broken:
            broken.setattr(phase, "put_copied", interrupt)
            with pytest.raises(KeyboardInterrupt):
                copy.finish()
    assert (stage(laid), is_open(laid)) == (Phase.COPYING, False)
    monkeypatch.setattr(recopy, "wait_until_readable", lambda _state, _settings, table: waited.append(table.name))
    assert copied(laid) == (60, 0)
    assert waited == ["t"]
    assert stage(laid) is Phase.COPIED


def test_a_state_that_lost_the_end_of_a_copy_has_the_source_waited_for(
    laid: Laid, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Revived: a row whose delete came while the table was closed, and could not be read yet."""
    with laid.state().begin() as state:
        before = phase.get(state, laid.settings.name, laid.table.table)
        phase.put(state, laid.settings.name, laid.table.table, replace(before, phase=Phase.COPYING))
    waited: list[str] = []
    monkeypatch.setattr(recopy, "wait_until_readable", lambda _state, _settings, table: waited.append(table.name))
    with copying(laid) as copy:
        copy.begin()
    assert waited == ["t"]


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt
