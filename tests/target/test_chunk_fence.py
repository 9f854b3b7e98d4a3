"""The chunk fence: one attempt writes, and what is closed stays closed (invariant copy-never-overwrites)."""

from __future__ import annotations

from dataclasses import replace

import pymysql
import pytest

from migrate.model.chunk import Chunk
from migrate.model.errors import OwnershipLost
from migrate.model.table import Table
from migrate.mysql.connection import Connection
from migrate.target import chunk_fence, write_context
from migrate.target.chunk_fence import WHOLE_TABLE, Unopened
from migrate.target.fence import CHUNK_FENCE
from tests.helpers import plain_table
from tests.target.conftest import TargetSide, standby

FIRST = Chunk(0, None, ("100",))
WHOLE = Chunk(WHOLE_TABLE, None, None)


@pytest.fixture
def table() -> Table:
    return plain_table()


def is_closed(connection: Connection, migration: str, table: Table) -> bool:
    return table.id in write_context.read(connection, migration).closed


def check(connection: Connection, migration: str, table: Table, attempt: int, chunk: int = 0) -> None:
    with connection.transaction():
        chunk_fence.check(connection, migration, table, chunk, attempt)


def test_the_attempt_that_was_opened_may_write(side: TargetSide, migration: str, table: Table) -> None:
    with pytest.raises(Unopened, match=r"lost committed transactions: copy of shop\.t, chunk 0, attempt 1"):
        check(side.one, migration, table, 1)
    chunk_fence.open_attempt(side.one, migration, table, FIRST, 1)
    check(side.one, migration, table, 1)
    check(side.one, migration, table, 1)


def test_a_later_attempt_shuts_out_the_earlier_one(side: TargetSide, migration: str, table: Table) -> None:
    chunk_fence.open_attempt(side.one, migration, table, FIRST, 1)
    chunk_fence.open_attempt(side.two, migration, table, FIRST, 2)
    with pytest.raises(OwnershipLost):
        check(side.one, migration, table, 1)
    with pytest.raises(OwnershipLost):
        chunk_fence.open_attempt(side.one, migration, table, FIRST, 1)
    with pytest.raises(OwnershipLost):
        chunk_fence.close(side.one, migration, table, [0], 1)
    check(side.two, migration, table, 2)


def test_what_counts_no_more_is_closed_whatever_attempt_the_target_has(
    side: TargetSide, migration: str, table: Table
) -> None:
    chunk_fence.open_attempt(side.one, migration, table, FIRST, 1)
    for _ in range(3):  # the rows are chosen anew
        chunk_fence.supersede(side.one, migration, table)
    chunk_fence.open_attempt(side.one, migration, table, Chunk(1, None, None), 2)
    for _ in range(2):
        chunk_fence.retire(side.one, migration, table, [(0, 1), (1, 2), (2, 1)])
    for chunk, attempt in ((0, 1), (0, 4), (1, 2), (2, 1)):
        with pytest.raises(OwnershipLost):
            check(side.one, migration, table, attempt, chunk)


def test_a_closed_chunk_takes_no_more_rows_until_a_new_attempt_opens_it(
    side: TargetSide, migration: str, table: Table
) -> None:
    chunk_fence.open_attempt(side.one, migration, table, FIRST, 1)
    chunk_fence.close(side.one, migration, table, [0], 1)
    with pytest.raises(OwnershipLost):
        check(side.one, migration, table, 1)
    chunk_fence.close(side.one, migration, table, [0], 1)  # again, as after an answer that got lost
    chunk_fence.open_attempt(side.one, migration, table, FIRST, 2)
    check(side.one, migration, table, 2)


def test_with_the_whole_table_go_chunks_that_nobody_else_knows(side: TargetSide, migration: str, table: Table) -> None:
    """Revived: a row, by a copy that had hung since before the state was put back to a backup: the next copy ended
    without that chunk, of which the state had nothing, and the table was closed with it open."""
    other = replace(table, name="other")
    for one in (table, other):
        chunk_fence.open_attempt(side.one, migration, one, WHOLE, 1)
        chunk_fence.open_attempt(side.one, migration, one, FIRST, 1)
    chunk_fence.close(side.one, migration, table, [WHOLE_TABLE], 1)
    with pytest.raises(OwnershipLost):
        check(side.one, migration, table, 1)
    check(side.one, migration, other, 1)


def test_a_chunk_that_was_never_opened_cannot_be_closed(side: TargetSide, migration: str, table: Table) -> None:
    with pytest.raises(Unopened):
        chunk_fence.close(side.one, migration, table, [7])


def test_a_table_is_open_until_it_is_closed_as_a_whole(side: TargetSide, migration: str, table: Table) -> None:
    assert not is_closed(side.one, migration, table)
    chunk_fence.open_attempt(side.one, migration, table, WHOLE, 1)
    chunk_fence.open_attempt(side.one, migration, table, FIRST, 1)
    chunk_fence.close(side.one, migration, table, [0])
    assert not is_closed(side.one, migration, table)
    assert write_context.read(side.one, migration).closed == set()
    chunk_fence.close(side.one, migration, table, [WHOLE_TABLE])
    assert is_closed(side.one, migration, table)
    assert write_context.read(side.one, migration).closed == {("s", "shop", "t")}
    chunk_fence.open_attempt(side.one, migration, table, WHOLE, 2)
    assert not is_closed(side.one, migration, table)


def test_tables_sources_and_migrations_do_not_mix(side: TargetSide, migration: str, table: Table) -> None:
    others = [replace(table, name="u"), replace(table, database="x"), replace(table, source="z")]
    for each in (table, *others):
        chunk_fence.open_attempt(side.one, migration, each, WHOLE, 1)
    chunk_fence.close(side.one, migration, table, [WHOLE_TABLE])
    assert [is_closed(side.one, migration, each) for each in others] == [False] * 3
    assert not is_closed(side.one, standby(side.one), table)
    assert write_context.read(side.one, standby(side.one)).closed == set()


def test_a_copy_transaction_holds_up_a_new_attempt_and_the_closing(
    side: TargetSide, migration: str, table: Table
) -> None:
    chunk_fence.open_attempt(side.one, migration, table, FIRST, 1)
    with side.one.transaction():
        chunk_fence.check(side.one, migration, table, 0, 1)
        with pytest.raises(pymysql.OperationalError, match="1205"):
            chunk_fence.open_attempt(side.two, migration, table, FIRST, 2)
        with pytest.raises(pymysql.OperationalError, match="1205"):
            chunk_fence.close(side.two, migration, table, [0])
    chunk_fence.open_attempt(side.two, migration, table, FIRST, 2)


def test_the_range_is_kept_with_its_texts(side: TargetSide, migration: str, table: Table) -> None:
    chunk_fence.open_attempt(side.one, migration, table, Chunk(3, ("é", 'a"b'), None), 1)
    row = side.one.one(f"SELECT low, high, attempt, closed FROM {CHUNK_FENCE} WHERE migration = %s", [migration])
    assert row == ('["é", "a\\"b"]', None, 1, 0)
