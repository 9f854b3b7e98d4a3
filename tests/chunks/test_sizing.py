"""How large the next chunk is, by what the ones before had."""

from __future__ import annotations

from migrate.chunks.sizing import ChunkSize
from migrate.settings import Copy

COPY = Copy(chunk_rows=1000, chunk_bytes=100_000, chunk_seconds=10)


def test_small_rows_that_go_quickly_fill_a_chunk_by_their_number() -> None:
    size = ChunkSize(COPY, row_bytes=10)
    size.note(1000, 10_000, 0.1)
    assert size.rows == 1000


def test_before_anything_was_read_the_statistics_say_how_large_a_row_is() -> None:
    assert ChunkSize(COPY, row_bytes=1000).rows == 100


def test_a_table_without_statistics_begins_with_the_most_rows() -> None:
    assert ChunkSize(COPY, row_bytes=0).rows == 1000


def test_the_larger_of_what_rows_had_and_what_the_statistics_say_counts() -> None:
    size = ChunkSize(COPY, row_bytes=1000)
    size.note(100, 500_000, 0.1)
    assert size.rows == 20
    size = ChunkSize(COPY, row_bytes=1000)
    size.note(100, 100, 0.1)
    assert size.rows == 100


def test_chunks_of_a_large_table_grow_step_by_step() -> None:
    size = ChunkSize(Copy(chunk_rows=50_000), row_bytes=10)
    sizes = []
    for _ in range(6):
        sizes.append(size.rows)
        size.note(size.rows, 10 * size.rows, 0.1)
    assert sizes == [5_000, 10_000, 20_000, 40_000, 50_000, 50_000]


def test_a_chunk_that_took_too_long_makes_the_next_ones_smaller_and_quick_ones_larger_again() -> None:
    size = ChunkSize(COPY, row_bytes=10)
    size.note(1000, 10_000, 100)
    assert size.rows == 100
    for _ in range(20):
        size.note(100, 1000, 0.1)
    assert size.rows == 1000


def test_a_row_larger_than_a_chunk_is_a_chunk() -> None:
    assert ChunkSize(COPY, row_bytes=10**9).rows == 1


def test_a_chunk_without_rows_says_nothing() -> None:
    size = ChunkSize(COPY, row_bytes=1000)
    size.note(0, 0, 50)
    assert size.rows == 100
