"""The copy's driver: phases, attempts, resuming, refusing. Spark is left out: a chunk is copied in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from migrate.chunks.outcome import AttemptEnd, Problem
from migrate.chunks.sessions import Sessions, forget
from migrate.copy import tasks
from migrate.copy.table_copy import Attempt, ChunkResult, TableCopy
from migrate.copy.tasks import CopyJob
from migrate.model.chunk import Chunk
from migrate.model.errors import ConfigError, OwnershipLost, PreflightError, ServerError, StopError
from migrate.model.rowfilter import Comparison, make_filter
from migrate.settings import Settings
from migrate.state import chunks, phase, position
from migrate.state.chunks import ChunkState
from migrate.state.phase import Phase
from migrate.target import chunk_fence, write_context
from migrate.target.pool import TargetPool
from migrate.target.routing import PlannedTable
from migrate.verify.lookup import look_up
from sandbox.settings import Flavour
from sandbox.stack import Sandbox
from tests.copy.setup import Laid, alike, lay, spread, write_chunk
from tests.helpers import globally

CREATE = "CREATE TABLE {t} (id INT PRIMARY KEY, v VARCHAR(20))"
NUMBERS = "WITH RECURSIVE seq (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM seq WHERE n < 95)"
ROWS = f"INSERT INTO {{t}} {NUMBERS} SELECT n, n FROM seq"


@pytest.fixture
def laid(box: Sandbox, tmp_path: Path) -> Laid:
    few = {"copy": {"chunk_rows": 10, "master": "local[2]"}}
    return lay(box, tmp_path, CREATE, spread("id", "t"), fill=[ROWS], extra=few)


@contextmanager
def copying(laid: Laid, settings: Settings | None = None, planned: PlannedTable | None = None) -> Iterator[TableCopy]:
    settings = settings or laid.settings
    state, sessions = laid.state(), Sessions(settings)
    try:
        yield TableCopy(settings, planned or laid.table, state, sessions, sleep=lambda _seconds: None)
    finally:
        sessions.close()
        state.dispose()
        forget()


def copied(laid: Laid, attempt: Attempt, planned: PlannedTable | None = None) -> ChunkResult:
    """Copy one chunk as a task does."""
    return write_chunk(CopyJob(laid.settings, planned or laid.table), attempt)


def copy_all(laid: Laid, copy: TableCopy) -> None:
    while wave := copy.wave(3):
        copy.settle([copied(laid, attempt) for attempt in wave])
    copy.finish()


def closed(laid: Laid) -> set[bool]:
    """Whether the whole table is closed, over all target databases."""
    sessions = Sessions(laid.settings)
    found = {
        laid.table.table.id in write_context.read(sessions.targets.get(database), laid.settings.name).closed
        for database in laid.table.databases
    }
    sessions.close()
    return found


def keys_at_target(laid: Laid) -> list[int]:
    return sorted(row[0] for rows in laid.target_rows("id").values() for row in rows)


def phase_of(laid: Laid) -> phase.TablePhase:
    with laid.state().connect() as connection:
        return phase.get(connection, laid.settings.name, laid.table.table)


def details(laid: Laid) -> list[chunks.ChunkCopy]:
    with laid.state().connect() as connection:
        return chunks.load(connection, laid.settings.name, laid.table.table)


def test_a_copy_opens_the_table_books_its_chunks_and_closes_it(laid: Laid) -> None:
    with copying(laid) as copy:
        assert copy.begin()
        assert (phase_of(laid).phase, closed(laid)) == (Phase.COPYING, {False})
        copy_all(laid, copy)
        assert (copy.counts.rows_inserted, copy.chunks_done) == (95, 10)
    assert keys_at_target(laid) == list(range(1, 96))
    assert (phase_of(laid).phase, phase_of(laid).attempt, closed(laid)) == (Phase.COPIED, 1, {True})
    assert {chunk.state for chunk in details(laid)} == {ChunkState.DONE}
    assert [one.chunk for one in details(laid)][:2] == [Chunk(0, None, ("10",)), Chunk(1, ("10",), ("20",))]
    assert sum(chunk.counts.rows_read for chunk in details(laid)) == 95


def test_chunks_of_large_rows_are_smaller(box: Sandbox, tmp_path: Path) -> None:
    small = {"copy": {"chunk_rows": 1000, "chunk_bytes": 200_000, "master": "local[2]"}}
    fill = f"INSERT INTO {{t}} {NUMBERS} SELECT n, REPEAT(CHAR(65 + n % 26), IF(n <= 40, 10, 20000)) FROM seq"
    create = "CREATE TABLE {t} (id INT PRIMARY KEY, v MEDIUMTEXT)"
    laid = lay(box, tmp_path, create, spread("id", "t"), fill=[fill, "ANALYZE TABLE {t}"], extra=small)
    with copying(laid) as copy:
        copy.begin()
        while wave := copy.wave(1):
            copy.settle([copied(laid, attempt) for attempt in wave])
        copy.finish()
    assert keys_at_target(laid) == list(range(1, 96))
    sizes = [chunk.counts.bytes_read for chunk in details(laid)]
    assert max(sizes) <= 500_000, sizes
    assert sum(sizes) > 1_000_000


def test_a_row_whose_line_the_server_cannot_make_is_read_column_by_column(box: Sandbox, tmp_path: Path) -> None:
    """CONCAT gives NULL beyond max_allowed_packet, as with two columns of half that size. MariaDB is asked for
    no line of a value above 16 KB: its REPLACE would take 40 s for the one of 600 KB."""
    create = "CREATE TABLE {t} (id INT PRIMARY KEY, a MEDIUMTEXT, b MEDIUMTEXT, c VARBINARY(20000))"
    every = "".join(f"{byte:02x}" for byte in range(256))
    half = 600 * 1024
    fill = (
        f"INSERT INTO {{t}} VALUES (1, 'x', NULL, ''), (2, REPEAT('a', {half}), REPEAT('b', {half}), NULL),"
        f" (3, NULL, 'y', REPEAT(X'{every}', 78)), (4, REPEAT(CHAR(92), {half}), 'escaped it is twice as long', '')"
    )
    laid = lay(box, tmp_path, create, spread("id", "t"), fill=[fill])
    with globally(box.source, "max_allowed_packet", 1024 * 1024), copying(laid) as copy:
        copy.begin()
        copy_all(laid, copy)
    fields = "id, SHA2(a, 256), SHA2(b, 256), SHA2(c, 256), LENGTH(c)"
    found = sorted(row for rows in laid.target_rows(fields).values() for row in rows)
    assert found == sorted(box.source.query(f"SELECT {fields} FROM t", database=laid.source))
    assert [row[4] for row in found] == [0, None, 19968, 0]


def test_a_json_document_that_the_server_cannot_print_stops_the_copy(box: Sandbox, tmp_path: Path) -> None:
    """Its text is twice as large as the document."""
    create = "CREATE TABLE {t} (id INT PRIMARY KEY, doc JSON)"
    numbers = ",".join(["-1.2345678901234567e-300"] * 60_000)
    laid = lay(box, tmp_path, create, spread("id", "t"), fill=[f"INSERT INTO {{t}} VALUES (1, '[{numbers}]')"])
    with globally(box.source, "max_allowed_packet", 1024 * 1024), copying(laid) as copy:
        copy.begin()
        if box.flavour is Flavour.MYSQL:
            with pytest.raises(StopError, match="error 3140"):
                copy_all(laid, copy)
        else:  # JSON is text there
            copy_all(laid, copy)
    assert keys_at_target(laid) == ([] if box.flavour is Flavour.MYSQL else [1])


def test_what_a_write_in_the_middle_of_a_chunk_meets_is_the_chunks_result(
    box: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chunk is still being read then, in the same process."""
    fill = f"INSERT INTO {{t}} {NUMBERS} SELECT n, REPEAT('x', 50000) FROM seq"
    create = "CREATE TABLE {t} (id INT PRIMARY KEY, v MEDIUMTEXT)"
    laid = lay(box, tmp_path, create, spread("id", "t"), fill=[fill])
    monkeypatch.setattr(tasks, "FLUSH_BYTES", 1)
    monkeypatch.setattr(tasks, "BATCH_ROWS", 2)
    with copying(laid) as copy:
        copy.begin()
        (attempt,) = copy.wave(1)
        for database in laid.table.databases:
            session = TargetPool(laid.settings).get(database)
            name, table = laid.settings.name, laid.table.table
            chunk_fence.open_attempt(session, name, table, attempt.chunk, attempt.attempt + 1)
        found = copied(laid, attempt)
    assert found.problem is not None
    assert found.problem.end is AttemptEnd.LOST


def test_a_copied_table_is_left_alone(laid: Laid) -> None:
    with copying(laid) as copy:
        copy.begin()
        copy_all(laid, copy)
    with copying(laid) as copy:
        assert not copy.begin()


def test_an_empty_table_is_copied_at_once(box: Sandbox, tmp_path: Path) -> None:
    laid = lay(box, tmp_path, CREATE, spread("id", "t"))
    with copying(laid) as copy:
        copy.begin()
        assert copy.wave(8) == []
        copy.finish()
    assert (phase_of(laid).phase, closed(laid)) == (Phase.COPIED, {True})


def test_an_interrupted_copy_goes_on_with_new_attempts_for_what_was_not_done(laid: Laid) -> None:
    with copying(laid) as copy:
        copy.begin()
        first = copy.wave(3)
        copy.settle([copied(laid, first[0])])
        lost = copied(laid, first[1])  # written, and killed before it was booked
        assert lost.problem is None
    laid.box.source.execute("INSERT INTO t VALUES (1000, 'new')", database=laid.source)
    with copying(laid) as copy:
        copy.begin()
        again = copy.wave(2)
        assert [(item.chunk.number, item.attempt) for item in again] == [(1, 2), (2, 2)]
        results = [copied(laid, item) for item in again]
        assert (results[0].counts.rows_present, results[0].counts.rows_inserted) == (10, 0)
        copy.settle(results)
        copy_all(laid, copy)
        assert copy.counts.rows_read == 96
    assert keys_at_target(laid) == [*range(1, 96), 1000]
    assert phase_of(laid).attempt == 2


def test_an_attempt_of_the_run_before_can_write_no_more(laid: Laid) -> None:
    with copying(laid) as copy:
        copy.begin()
        (old,) = copy.wave(1)
    with copying(laid) as copy:
        copy.begin()
        (new,) = copy.wave(1)
        late = copied(laid, old)
        assert late.problem is not None
        assert late.problem.end is AttemptEnd.LOST
        assert copied(laid, new).counts.rows_inserted == 10


def test_of_two_copies_at_once_the_earlier_stops(laid: Laid) -> None:
    with copying(laid) as earlier, copying(laid) as later:
        earlier.begin()
        earlier.wave(1)
        later.begin()
        with pytest.raises(OwnershipLost, match="run 1 was superseded by run 2"):
            earlier.wave(1)
        later.wave(1)


def test_a_chunk_to_be_tried_again_gets_a_new_attempt_and_a_new_read(laid: Laid) -> None:
    busy = Problem(AttemptEnd.AGAIN, "deadlock")
    with copying(laid) as copy:
        copy.begin()
        (first,) = copy.wave(1)
        copy.settle([ChunkResult(first.chunk.number, first.attempt, chunks.CopyCounts(), busy)])
        (second,) = copy.wave(1)
        assert (second.chunk, second.attempt) == (first.chunk, 2)


def test_a_copy_gives_up_when_nothing_succeeds_for_many_rounds(laid: Laid) -> None:
    away = Problem(AttemptEnd.AGAIN, "the server does not answer")

    def fail(copy: TableCopy) -> None:
        for _ in range(20):
            (attempt,) = copy.wave(1)
            copy.settle([ChunkResult(attempt.chunk.number, attempt.attempt, chunks.CopyCounts(), away)])

    with copying(laid) as copy:
        copy.begin()
        with pytest.raises(ServerError, match="gives up: the server does not answer"):
            fail(copy)


def test_a_problem_that_no_retry_mends_stops_the_copy(laid: Laid) -> None:
    with copying(laid) as copy:
        copy.begin()
        (attempt,) = copy.wave(1)
        bad = Problem(AttemptEnd.FAILED, "copy of a.t, chunk 0: Data too long", "mend it")
        with pytest.raises(StopError, match="Data too long"):
            copy.settle([ChunkResult(attempt.chunk.number, attempt.attempt, chunks.CopyCounts(), bad)])


def test_a_copy_is_not_resumed_under_another_rule(laid: Laid) -> None:
    with copying(laid) as copy:
        copy.begin()
    other = replace(laid.table, places=tuple(reversed(laid.table.places)))
    with (
        copying(laid, planned=other) as copy,
        pytest.raises(ConfigError, match=r"copy of .*\.t: .*sharding rule.*changed"),
    ):
        copy.begin()


def test_a_copy_does_not_begin_before_the_incremental(laid: Laid) -> None:
    with laid.state().begin() as connection:
        connection.execute(position.table.delete())
    with copying(laid) as copy, pytest.raises(PreflightError, match="the publisher of source 'main' has not begun"):
        copy.begin()
    assert phase_of(laid).phase is Phase.CREATED


def test_a_target_that_went_away_between_waves_is_met_again(laid: Laid) -> None:
    """The driver's sessions are dead after the restart; the wave is handed out all the same."""
    with copying(laid) as copy:
        copy.begin()
        copy.settle([copied(laid, attempt) for attempt in copy.wave(1)])
        forget()
        laid.box.targets[1].kill()
        laid.box.targets[1].start()
        copy_all(laid, copy)
    assert keys_at_target(laid) == list(range(1, 96))


def test_a_row_that_the_target_refuses_names_table_chunk_and_column(box: Sandbox, tmp_path: Path) -> None:
    laid = lay(box, tmp_path, CREATE, spread("id", "t"), fill=["INSERT INTO {t} VALUES (5, 'far too long')"])
    for index, place in enumerate(laid.table.places):
        laid.connect(index).execute(f"ALTER TABLE {place.table} MODIFY v VARCHAR(3)")
    with copying(laid) as copy:
        copy.begin()
        (attempt,) = copy.wave(1)
        result = copied(laid, attempt)
        assert result.problem is not None
        assert result.problem.end is AttemptEnd.FAILED
        with pytest.raises(
            StopError, match=r"copy of src_\w+\.t, chunk 0: .* key \[\"5\"\]: Data too long for column 'v'"
        ):
            copy.settle([result])


def test_only_the_rows_that_meet_the_conditions_are_copied_and_compared(laid: Laid) -> None:
    wanted: list[tuple[str, Comparison, list[object]]] = [
        ("id", Comparison.ABOVE, [10]),
        ("v", Comparison.IN, ["11", "12", "90"]),
    ]
    part = replace(laid.table, rows=make_filter(laid.table.table, wanted))
    with copying(laid, planned=part) as copy:
        copy.begin()
        while wave := copy.wave(3):
            copy.settle([copied(laid, attempt, part) for attempt in wave])
        copy.finish()
        assert copy.counts.rows_read == 3
    assert keys_at_target(laid) == [11, 12, 90]
    with closing(Sessions(laid.settings)) as sessions:
        assert alike(sessions, part)
        assert not alike(sessions, laid.table)
        assert look_up(sessions, [part], [("9",), ("11",)])[("9",)].source is None
