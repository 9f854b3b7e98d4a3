"""Statements on tables of a group: which run brought one of them to the targets, each run once for each table."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from migrate.model.coordinate import Coordinate
from migrate.model.table import TableId
from migrate.state import ddl, ddl_member
from migrate.state.ddl import Goal, ShardRow
from migrate.state.ddl_member import GroupStatement
from tests.helpers import unique

A, B, C = (("main", "shop", name) for name in "abc")
OTHER = ("second", "shop", "a")
GROUP = frozenset({A, B, C, OTHER})


def statement(id_: TableId, at: int, brings: str = "{}") -> GroupStatement:
    return GroupStatement(id_, Coordinate(1, 2, at, 0), brings)


@pytest.fixture
def name() -> str:
    return unique("m")


def run(state: sa.Engine, name: str, of: GroupStatement | None, *, finished: bool = True) -> int:
    with state.begin() as connection:
        row = ShardRow(1, "target", "t1", "shop_0", "a_0", None, "", "", "", "", "")
        number = ddl.create(connection, name, "ALTER TABLE a ADD x INT", "", "", [row])
        if of is not None:
            ddl_member.note(connection, name, number, of)
        if finished:
            ddl.finish(connection, name, number)
    return number


def join(state: sa.Engine, name: str, of: GroupStatement, group: frozenset[TableId] = GROUP) -> int:
    with state.begin() as connection:
        return ddl_member.join(connection, name, of, group)


def test_each_table_has_each_run_once_the_oldest_first(state: sa.Engine, name: str) -> None:
    """A column that is dropped and added again is another one: its statement is run again."""
    assert join(state, name, statement(B, 5)) == 0
    one = run(state, name, statement(A, 3))
    assert join(state, name, statement(B, 5, '{"`x`": "int"}')) == 0
    assert join(state, name, statement(B, 5)) == one
    assert join(state, name, statement(A, 9)) == 0
    two = run(state, name, statement(A, 9))
    assert join(state, name, statement(B, 11)) == two
    assert join(state, name, statement(B, 13)) == 0
    assert [join(state, name, statement(OTHER, at)) for at in (5, 6, 7)] == [one, two, 0]
    with state.connect() as connection:
        assert ddl_member.of_run(connection, name, one) == [A, B, OTHER]
        places = {Coordinate(1, 2, at, 0) for at in (3, 5, 9, 11)}
        assert ddl_member.places(connection, name, "main") == places
        assert ddl_member.places(connection, name, "second") == {Coordinate(1, 2, at, 0) for at in (5, 6)}


def test_a_run_that_is_not_finished_was_taken_back_or_is_of_another_group_brought_nothing(
    state: sa.Engine, name: str
) -> None:
    run(state, name, None)
    one = run(state, name, statement(A, 3), finished=False)
    assert join(state, name, statement(B, 5)) == 0
    with state.begin() as connection:
        assert ddl_member.places(connection, name, "main") == frozenset()
        ddl.finish(connection, name, one)
    assert join(state, name, statement(B, 5), frozenset({B, C})) == 0
    assert join(state, unique("m"), statement(B, 5)) == 0
    assert join(state, name, statement(B, 5)) == one
    with state.begin() as connection:
        assert ddl_member.taken_back(connection, name, statement(B, 5)) == 0
        ddl.aim(connection, name, one, Goal.OLD)
        ddl.finish(connection, name, one)
        assert [ddl_member.taken_back(connection, name, statement(B, at)) for at in (4, 5)] == [0, one]
        assert ddl_member.places(connection, name, "main") == frozenset()
    assert join(state, name, statement(C, 7)) == 0
