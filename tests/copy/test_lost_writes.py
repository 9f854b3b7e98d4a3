"""Lost: rows that a copy had committed at a target which came back without them, and the table was closed (invariant
fence-compares)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from migrate.chunks.sessions import Sessions
from migrate.copy import tasks
from migrate.copy.table_copy import TableCopy
from migrate.copy.tables_copy import TablesCopy
from migrate.copy.tasks import CopyJob
from migrate.mysql.connection import Connection
from migrate.settings import Settings, parse
from migrate.state import phase
from migrate.state.phase import Phase, TablePhase
from migrate.target import chunk_fence
from migrate.target.chunk_fence import WHOLE_TABLE
from migrate.target.fence import CHUNK_FENCE
from migrate.target.pool import TargetPool
from migrate.target.routing import Plan, PlannedTable
from sandbox.stack import Sandbox
from tests.copy.setup import Laid, lay, spread, write_chunk
from tests.copy.test_table_copy import CREATE, ROWS, copied, copying, details, keys_at_target, phase_of
from tests.helpers import TABLE_WAITERS
from tests.waiting import until as wait

ALL = list(range(1, 96))


@pytest.fixture
def laid(box: Sandbox, tmp_path: Path) -> Laid:
    few = {"copy": {"chunk_rows": 10, "master": "local[2]"}}
    return lay(box, tmp_path, CREATE, spread("id", "t"), fill=[ROWS], extra=few)


@contextmanager
def target(laid: Laid) -> Iterator[Connection]:
    """A session in the first target database."""
    with closing(TargetPool(laid.settings)) as pool:
        yield pool.get(laid.table.databases[0])


def lose(laid: Laid, *chunks: int) -> None:
    """What the first database has of these chunks, to their rows: as they were before they were opened there."""
    with target(laid) as session:
        for chunk in chunks:
            low, high = 10 * chunk, 10 * (chunk + 1)
            session.execute(f"DELETE FROM {CHUNK_FENCE} WHERE chunk = %s", [chunk])
            for place in laid.table.places:
                if place.database == laid.table.databases[0]:
                    session.execute(f"DELETE FROM {place.table} WHERE id > %s AND id <= %s", (low, high))


def copy_all(laid: Laid, copy: TableCopy) -> int:
    """How many chunks it took to the end."""
    chunks = 0
    while wave := copy.wave(3):
        copy.settle([copied(laid, attempt) for attempt in wave])
        chunks += len(wave)
    return chunks


def test_chunks_that_a_target_lost_are_copied_again_before_the_table_is_closed(laid: Laid) -> None:
    with copying(laid) as copy:
        copy.begin()
        assert copy_all(laid, copy) == 10
        lose(laid, 2, 5)
        assert keys_at_target(laid) != ALL
        assert not copy.finish()
        assert (phase_of(laid).phase, copy.chunks_done, copy.counts.rows_read) == (Phase.COPYING, 8, 75)
        assert copy_all(laid, copy) == 2
        assert copy.finish()
    assert (keys_at_target(laid), copy.chunks_done, copy.counts.rows_read) == (ALL, 10, 95)
    assert {one.chunk.number: one.attempt for one in details(laid) if one.attempt > 1} == {2: 2, 5: 2}


def test_what_was_done_before_an_interruption_is_looked_back_at_too(laid: Laid) -> None:
    with copying(laid) as first:
        first.begin()
        first.settle([copied(laid, attempt) for attempt in first.wave(4)])
    lose(laid, 0)
    with copying(laid) as copy:
        copy.begin()
        assert copy_all(laid, copy) == 6
        assert not copy.finish()
        assert copy_all(laid, copy) == 1
        assert copy.finish()
    assert keys_at_target(laid) == ALL


def test_a_target_that_forgot_the_copy_gets_all_of_it_again(laid: Laid) -> None:
    with copying(laid) as copy:
        copy.begin()
        copy_all(laid, copy)
        lose(laid, *range(10), WHOLE_TABLE)
        assert not copy.finish()
        assert copy_all(laid, copy) == 10
        assert copy.finish()
    assert keys_at_target(laid) == ALL


def test_small_tables_are_looked_back_at_too(laid: Laid) -> None:
    state, sessions = laid.state(), Sessions(laid.settings)
    with closing(sessions):
        copy = TableCopy(laid.settings, laid.table, state, sessions)
        together = TablesCopy(laid.settings, [copy], state, sessions)
        together.begin()

        def chunks(until: Callable[[], bool]) -> int:
            count = 0
            while not until() and (wave := together.wave(3)):
                together.settle([(one, copied(laid, attempt)) for one, attempt in wave])
                count += len(wave)
            return count

        assert chunks(lambda: copy.chunks_done == 3) == 3
        with target(laid) as session:
            session.execute(f"UPDATE {CHUNK_FENCE} SET closed = 0 WHERE chunk = 1")
        assert together.finish([copy], lambda *_: None) == []
        assert together.goes_on
        assert copy.chunks_done == 2
    state.dispose()


def test_each_of_small_tables_that_are_opened_again_is_waited_for(mysql_box: Sandbox, tmp_path: Path) -> None:
    """Lost: a delete of the second table that the log had and no SELECT saw; the first alone was waited for. MariaDB
    goes by a snapshot of all tables. Costs 2 s."""
    few = {"copy": {"chunk_rows": 10, "master": "local[2]"}}
    laid = lay(mysql_box, tmp_path, CREATE, spread("id", "t"), fill=[ROWS], extra=few)
    settings, plan = with_a_second(laid)
    state, sessions = laid.state(), Sessions(settings)
    with closing(sessions), closing(mysql_box.source.connect(laid.source)) as writer, ThreadPoolExecutor(1) as beside:
        together = TablesCopy(settings, [TableCopy(settings, one, state, sessions) for one in plan], state, sessions)
        together.begin()
        with target(laid) as session:
            session.execute(f"DELETE FROM {CHUNK_FENCE} WHERE chunk = %s", [WHOLE_TABLE])
        writer.begin()
        writer.cursor().execute("DELETE FROM u WHERE id = 7")
        over = Event()

        def commit_once_it_is_waited_for() -> bool:
            wait(
                lambda: over.is_set() or mysql_box.source.query(TABLE_WAITERS)[0][0],
                "the second table to be waited for",
            )
            writer.commit()
            return not over.is_set()

        waited = beside.submit(commit_once_it_is_waited_for)
        wave = together.wave(2)
        over.set()
        assert waited.result(60)
        assert sorted(copy.planned.table.name for copy, _ in wave) == ["t", "u"]
    state.dispose()


def with_a_second(laid: Laid) -> tuple[Settings, list[PlannedTable]]:
    """Both tables of a migration that has a table u as well, alike t."""
    laid.box.source.execute("CREATE TABLE u LIKE t", "INSERT INTO u SELECT * FROM t", database=laid.source)
    for index, place in enumerate(laid.table.places):
        with closing(laid.connect(index)) as connection:
            connection.execute(f"CREATE TABLE {place.table.replace('t_', 'u_')} LIKE {place.table}")
    tables = [{"name": f"{laid.source}.{name}", "sharding": spread("id", name)} for name in ("t", "u")]
    settings = parse({**laid.raw, "tables": tables}, {})
    both = {("main", laid.source, name): replace(laid.table.table, name=name) for name in ("t", "u")}
    return settings, [*Plan(settings, both).tables.values()]


def test_an_attempt_writes_no_more_where_a_database_lost_a_part_of_it(laid: Laid) -> None:
    """Its next transaction would close the chunk over the hole."""
    with copying(laid) as copy, target(laid) as session:
        copy.begin()
        (attempt,) = copy.wave(1)
        name, table, chunk = laid.settings.name, laid.table.table, attempt.chunk.number
        with session.transaction():
            chunk_fence.check(session, name, table, chunk, attempt.attempt)
        session.execute(f"UPDATE {CHUNK_FENCE} SET writes = 0 WHERE chunk = %s", [chunk])
        with pytest.raises(chunk_fence.Unopened), session.transaction():
            chunk_fence.check(session, name, table, chunk, attempt.attempt, done=1)


def test_a_part_of_a_chunk_that_a_target_lost_is_missed_by_the_next_part(
    laid: Laid, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lost: what a chunk above 64 MB had written there: each part looked only for what it had committed itself."""
    monkeypatch.setattr(tasks, "FLUSH_BYTES", 1)
    lost: list[int] = []
    with copying(laid) as copy, target(laid) as session:
        copy.begin()
        (attempt,) = copy.wave(1)

        def lose_the_first(place: int) -> None:
            if not lost and laid.table.places[place].database == laid.table.databases[0]:
                lost.append(session.execute(f"DELETE FROM {laid.table.places[place].table}"))
                session.execute(f"UPDATE {CHUNK_FENCE} SET writes = 0 WHERE chunk = %s", [attempt.chunk.number])

        found = write_chunk(CopyJob(laid.settings, laid.table), attempt, lose_the_first)
        assert lost == [1]
        copy.settle([found])
        copy_all(laid, copy)
        assert copy.finish()
    assert keys_at_target(laid) == ALL
    assert found.problem is not None
    assert "lost committed transactions" in found.problem.message


def test_an_attempt_that_the_state_gave_twice_is_not_begun_again(laid: Laid) -> None:
    """The state database was put back: somebody may still write under the number."""
    with copying(laid) as old:
        old.begin()
        (before,) = old.wave(1)
        with target(laid) as session, session.transaction():
            chunk_fence.check(session, laid.settings.name, laid.table.table, 0, before.attempt)
    with laid.state().begin() as state:
        state.exec_driver_sql("DELETE FROM copy_detail")
        phase.put(state, laid.settings.name, laid.table.table, TablePhase(Phase.CREATED, 0, ""))
    with target(laid) as session:
        session.execute(f"UPDATE {CHUNK_FENCE} SET attempt = 7 WHERE chunk = %s", [WHOLE_TABLE])
    with copying(laid) as copy:
        copy.begin()
        assert phase_of(laid).attempt == 8
        (again, *_) = copy.wave(3)
        assert (again.chunk.number, again.attempt) == (0, before.attempt + 1)
        copy.settle([copied(laid, again)])
        copy_all(laid, copy)
        assert copied(laid, before).problem is not None
        assert (details(laid)[0].attempt, copy.chunks_done) == (2, 8)


def test_a_table_that_a_target_has_closed_again_is_opened_before_a_chunk_is_read(laid: Laid) -> None:
    """Revived: a row that was read, deleted at the source and at the target, without a ledger row, and then written."""
    with copying(laid) as copy, target(laid) as session:
        copy.begin()
        copy.settle([copied(laid, attempt) for attempt in copy.wave(2)])
        session.execute(f"UPDATE {CHUNK_FENCE} SET closed = 1, attempt = attempt - 1 WHERE chunk = %s", [WHOLE_TABLE])
        copy.wave(1)
        assert not copy.opened_again
        with session.transaction():
            assert chunk_fence.is_open(session, laid.settings.name, laid.table.table, phase_of(laid).attempt)
