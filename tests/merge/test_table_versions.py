"""Which columns a message was written with: decided by its place in the source's log, never guessed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import pytest

from migrate.merge.table_versions import Layouts
from migrate.model.coordinate import Coordinate
from migrate.model.errors import ServerError, StopError
from migrate.model.message import Message, Row
from migrate.model.table import Kind, Table, TableId
from migrate.mysql.foreign_keys import ForeignKey
from tests.helpers import int_column, plain_table, plan_of

BEFORE = plain_table()
ADDED = replace(BEFORE, columns=(*BEFORE.columns, int_column("n")))
PLAN = plan_of(BEFORE)
PLANNED = PLAN.find("s", "shop", "t")
ID = ("s", "shop", "t")


class Told:
    """A history that can grow."""

    def __init__(self, *versions: tuple[Coordinate, Table]) -> None:
        self.of = {ID: list(versions)}
        self.read = 0
        self.members: dict[TableId, Coordinate | None] = {}
        self.ready = {ID}
        self.noted: dict[TableId, str] = {}
        self.reaches = {"s": (2, 99)}

    def look(self) -> tuple[object, Mapping[TableId, Coordinate | None]]:
        return (sum(map(len, self.of.values())), dict(self.noted)), self.members

    def rules(self) -> Mapping[TableId, str]:
        return self.noted

    def begun(self, ids: Collection[TableId]) -> Collection[TableId]:
        return [id_ for id_ in ids if id_ in self.ready]

    def reach(self, source: str) -> tuple[int, int] | None:
        return self.reaches.get(source)

    def versions(self) -> Mapping[TableId, Sequence[tuple[Coordinate, Table]]]:
        self.read += 1
        return self.of

    def foreign_keys(self) -> Mapping[TableId, Sequence[ForeignKey]]:
        return {}


def at(file: int, transaction: int, incarnation: int = 1) -> Coordinate:
    return Coordinate(incarnation, file, transaction, 0)


def message(place: Coordinate, table: Table, named: str = "layout") -> Message:
    row: Row = dict.fromkeys((column.name for column in table.columns), "1")
    return Message(
        database="shop", table="t", type="INSERT", data=(row,), source="s", incarnation=place.incarnation,
        file=place.file, transaction=place.transaction, rows=(0,),
        mysql_type={column.name: column.type for column in table.columns} if named == "types" else {},
        layout=table.layout if named == "layout" else "",
    )  # fmt: skip


def layouts(*versions: tuple[Coordinate, Table]) -> Layouts:
    made = Layouts(Told(*versions), PLAN)
    made.refresh()
    return made


@pytest.mark.parametrize("named", ["layout", "types", ""])
def test_the_columns_are_those_of_the_messages_place(named: str) -> None:
    known = layouts((at(0, 0, 0), BEFORE), (at(3, 500), ADDED))
    for place, table in ((at(3, 499), BEFORE), (at(2, 900), BEFORE), (at(3, 501), ADDED), (at(4, 4), ADDED)):
        assert known.of(PLANNED, message(place, table, named)).table == table


def test_columns_of_equal_types_are_told_apart_by_the_place() -> None:
    """A changed character set shows in no type, and decides how the bytes are written."""
    columns = tuple(
        replace(column, kind=Kind.RAWTEXT, charset="latin1") if column.name == "v" else column
        for column in BEFORE.columns
    )
    other = replace(BEFORE, columns=columns)
    known = layouts((at(0, 0, 0), other), (at(3, 500), BEFORE))
    assert known.of(PLANNED, message(at(3, 400), other)).table == other
    assert known.of(PLANNED, message(at(3, 600), BEFORE)).table == BEFORE


def test_a_history_that_grew_is_read_again_and_only_then() -> None:
    told = Told((at(0, 0, 0), BEFORE))
    known = Layouts(told, PLAN)
    known.refresh()
    first = known.of(PLANNED, message(at(1, 4), BEFORE))
    known.refresh()
    assert told.read == 1
    told.of[ID].append((at(3, 500), ADDED))
    known.refresh()
    assert told.read == 2
    assert known.of(PLANNED, message(at(3, 600), ADDED)).table == ADDED
    assert known.of(PLANNED, message(at(1, 4), BEFORE)) is first


def test_columns_that_nothing_knows_stop_and_are_named() -> None:
    known = layouts((at(0, 0, 0), BEFORE))
    with pytest.raises(StopError, match=r"shop\.t at .*the columns id, shard, v, n, the schema history has id, shard"):
        known.of(PLANNED, message(at(3, 600), ADDED))


def test_after_a_rewind_old_rows_have_their_old_columns() -> None:
    known = layouts((at(0, 0, 0), BEFORE), (at(3, 500), ADDED))
    assert known.of(PLANNED, message(at(3, 400, incarnation=2), BEFORE)).table == BEFORE
    assert known.of(PLANNED, message(at(3, 600, incarnation=2), ADDED)).table == ADDED


def test_without_a_history_the_plan_holds() -> None:
    assert Layouts(None, PLAN).of(PLANNED, message(at(3, 600), BEFORE)) is PLANNED


def test_messages_of_a_removed_table_and_from_before_an_added_one_do_not_count() -> None:
    told = Told((at(0, 0, 0), BEFORE))
    made = Layouts(told, PLAN)
    made.refresh()
    before, there, later = (message(at(2, place), BEFORE) for place in (99, 100, 101))
    assert made.counts(before)
    told.members = {ID: at(2, 100)}
    made.refresh()
    assert [made.counts(one) for one in (before, there, later)] == [False, True, True]
    told.members = {ID: None}
    made.refresh()
    assert not made.counts(later)
    assert made.counts(replace(later, source="another"))


@pytest.mark.parametrize("noted", [{ID: "of another rule"}, {ID: PLANNED.rule_hash, ("r", "shop", "t"): "of one more"}])
def test_a_plan_that_init_changed_since_ends_the_process_before_anything_is_planned_by_it(
    noted: dict[TableId, str],
) -> None:
    told = Told((at(0, 0, 0), BEFORE))
    told.noted = {ID: PLANNED.rule_hash}
    made = Layouts(told, PLAN)
    made.refresh()
    told.noted = noted
    with pytest.raises(ServerError, match=r"shop\.t of source '.' was added or changed by `migrate init` since"):
        made.refresh()
    told.noted = {}  # of a table that has none noted it is not known
    made.refresh()
