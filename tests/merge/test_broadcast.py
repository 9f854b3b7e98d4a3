"""A table with a row at every node: what is written where, and which node's changes count where it is read.

Costs 3 s: a merge on each of both servers.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from migrate.cutover.reverse_settings import reversed_settings
from migrate.merge.merger import Merger
from migrate.merge.owned import OwnedPartition
from migrate.model.change import NoChange
from migrate.model.coordinate import Coordinate
from migrate.model.message import Message, Received
from migrate.model.message import Row as MessageRow
from migrate.model.table import TableId
from migrate.state.foreign import Kind
from migrate.state.record import Partition
from migrate.target.groups import misfits
from migrate.target.part import Part
from migrate.target.reached import Claim
from migrate.target.refresh import refresh_message
from migrate.target.reverse_obstacles import obstacles
from migrate.target.routing import Plan, TargetDatabase
from sandbox.stack import Sandbox
from tests.helpers import address, make_settings, plain_table, plan_of, service_tables, unique
from tests.merge.steps import Steps
from tests.merge.test_home import FENCE, PARTITION, Kept
from tests.waiting import until

SETTINGS = make_settings(tables=[{"name": "shop.t", "sharding": {"broadcast": "ds_${0..1}.t"}}])
PLAN = plan_of(plain_table(unique_keys=(("v",),)), settings=SETTINGS)
AT = Partition("m", "topic", 3)
Row = tuple[str, str, str]


def message(kind: str, row: Row, id_: TableId = ("s", "shop", "t"), **more: Any) -> Message:
    source, database, table = id_
    data: tuple[MessageRow, ...] = ({"id": row[0], "shard": row[1], "v": row[2]},)
    given: dict[str, Any] = {"incarnation": 1, "file": 1, "transaction": 10, "rows": (0,), **more}
    return Message(database=database, table=table, type=kind, data=data, source=source, **given)


def owned(*sources: str) -> OwnedPartition:
    return OwnedPartition(Claim(AT, 7, "h"), {}, {one: {} for one in sources})


def received(*messages: Message) -> list[Received]:
    return [Received(AT, 100 + at, 50, one, apply=True) for at, one in enumerate(messages)]


def wanted(parts: dict[TargetDatabase, Part], *, refreshed: bool = False) -> dict[str, list[tuple[str, str | None]]]:
    """By database: (key, value or None) of each intent."""
    return {
        database.name: [
            (one.key[0], None if one.row is None else one.row["v"])
            for work in part.work
            for one in (work.refreshed if refreshed else work.intents)
        ]
        for database, part in parts.items()
    }


@pytest.mark.parametrize("kind", ["INSERT", "UPDATE", "DELETE"])
def test_a_change_is_made_at_every_node(kind: str) -> None:
    change = message(kind, ("1", "0", "a"), old=({"v": "was"},) if kind == "UPDATE" else ())
    share = Steps(PLAN).share(owned("s"), received(change))
    row = ("1", None if kind == "DELETE" else "a")
    assert wanted(share.parts) == {"ds_0": [row], "ds_1": [row]}
    assert {part.highest["s"] for part in share.parts.values()} == {Coordinate(1, 1, 10, 0)}


def test_what_one_node_has_already_is_for_the_others_alone() -> None:
    first, second = PLAN.used_databases
    has = OwnedPartition(Claim(AT, 7, "h"), {}, {"s": {first: Coordinate(1, 1, 10, 0)}})
    assert wanted(Steps(PLAN).share(has, received(message("INSERT", ("1", "0", "a")))).parts) == {
        second.name: [("1", "a")]
    }


@pytest.mark.parametrize("there", [True, False])
def test_a_refresh_sets_every_node_right(*, there: bool) -> None:
    steps, (planned,) = Steps(PLAN), PLAN.tables.values()
    folded = steps.fold(owned("s"), received(refresh_message(planned.table, [("1",)])))
    row_there: MessageRow = {"id": "1", "shard": "0", "v": "a"}
    held = [(planned, row_there)] if there else []
    share = steps.answered(folded, {("1",): held})
    row = ("1", "a" if there else None)
    assert wanted(share.parts, refreshed=True) == {"ds_0": [row], "ds_1": [row]}
    assert {one.origin for part in share.parts.values() for work in part.work for one in work.refreshed} == {
        NoChange.REFRESH
    }


def backwards() -> Plan:
    settings = reversed_settings(SETTINGS, PLAN)
    tables = [
        replace(plain_table(), source=settings.source_of(one), database=one.database, name=one.table)
        for one in settings.tables
    ]
    return plan_of(*tables, settings=settings)


def test_the_reverse_stream_takes_the_changes_of_the_first_node_alone() -> None:
    plan = backwards()
    first, second = plan.tables.values()
    assert (first.mirrors, second.mirror_of, first.places) == ((second.table.id,), first.table.id, second.places)
    assert ([*plan.members(second)], plan.leader(second)) == ([first], first)
    of_both = [message("INSERT", ("1", "0", name), one.table.id) for name, one in (("a", first), ("b", second))]
    share = Steps(plan).share(owned(first.table.source, second.table.source), received(*of_both))
    assert [*wanted(share.parts).values()] == [[("1", "a")]]
    assert {*share.consumed.highest} == {first.table.source, second.table.source}, "both are consumed"
    assert share.consumed.end == 102


def test_what_somebody_writes_at_any_node_of_a_standby_side_is_listed() -> None:
    plan = backwards()
    ids = [*plan.tables]
    by_hand = [message("INSERT", ("1", "0", "a"), id_, standby=True) for id_ in ids]
    folded = Steps(plan).fold(owned(*{id_[0] for id_ in ids}), received(*by_hand))
    assert [(one.id, one.kind) for one in folded.foreign] == [(id_, Kind.FOREIGN) for id_ in ids]


def test_nodes_share_a_table_without_a_group_and_a_unique_key_holds_at_each() -> None:
    assert [*misfits(backwards().tables.values())] == []
    assert [*obstacles(PLAN)] == []


def test_a_rule_with_another_node_is_another_rule_in_both_directions() -> None:
    other = make_settings(tables=[{"name": "shop.t", "sharding": {"broadcast": "ds_0.t"}}])
    made = plan_of(plain_table(), settings=other)
    assert made.tables["s", "shop", "t"].rule_hash != PLAN.tables["s", "shop", "t"].rule_hash
    (alone,) = reversed_settings(other, made).tables
    first, *_ = backwards().tables.values()
    assert (alone.database, alone.table) == (first.table.database, first.table.name)


class Nodes:
    """Table t of one source at a node of each of two databases, with a merger of their own."""

    def __init__(self, box: Sandbox) -> None:
        made = "(id INT PRIMARY KEY, shard INT NOT NULL, v VARCHAR(20) NOT NULL UNIQUE)"
        self.source, self.servers = box.source, (box.targets[0], box.targets[-1])
        self.shop, name = unique("shop"), unique("bcast")
        self.names = [f"{name}_{number}" for number in range(2)]
        self.source.execute(f"CREATE DATABASE {self.shop}", f"CREATE TABLE {self.shop}.t {made}")
        for server, database in zip(self.servers, self.names, strict=True):
            server.execute(f"CREATE DATABASE {database} CHARACTER SET utf8mb4")
            server.execute(*service_tables("m"), f"CREATE TABLE t {made}", database=database)
        self.copy(closed=1)
        settings = make_settings(
            sources=[{"name": "s", **address(self.source)}],
            targets=[{"name": f"t{number}", **address(server)} for number, server in enumerate(self.servers)],
            databases={
                f"ds_{number}": {"target": f"t{number}", "database": database}
                for number, database in enumerate(self.names)
            },
            tables=[{"name": f"{self.shop}.t", "sharding": {"broadcast": "ds_${0..1}.t"}}],
            consume={"retry_seconds": 0.05, "retry_max_seconds": 0.1, "refused_attempts": 2},
        )
        self.table = replace(plain_table(unique_keys=(("v",),)), database=self.shop)
        self.kept = Kept()
        self.merger = Merger(plan_of(self.table, settings=settings), self.kept, threading.Event())  # type: ignore[arg-type]
        self.merger.take(Claim(PARTITION, 1, "h"), {}, {})
        self._at = self._transaction = 10

    def copy(self, *, closed: int) -> None:
        for number in range(2):
            self.at_node(number, f"REPLACE INTO {FENCE} VALUES ('m', 's', '{self.shop}', 't', -1, 1, {closed})")

    def at_node(self, number: int, *statements: str) -> None:
        self.servers[number].execute(*statements, database=self.names[number])

    def merge(self, *messages: Message) -> None:
        items = []
        for one in messages:
            self._at += 1
            items.append(Received(PARTITION, self._at, 10, one))
        assert self.merger.merge(items).failed == {}

    def change(self, kind: str, row: Row, **more: Any) -> Message:
        self._transaction += 1
        return message(kind, row, ("s", self.shop, "t"), transaction=self._transaction, pk_names=("id",), **more)

    def rows(self) -> list[list[tuple[object, ...]]]:
        pairs = zip(self.servers, self.names, strict=True)
        return [list(server.query(f"SELECT * FROM {name}.t ORDER BY id")) for server, name in pairs]

    def ledger(self) -> list[int]:
        pairs = zip(self.servers, self.names, strict=True)
        return [int(server.query(f"SELECT COUNT(*) FROM {name}._migrate_ledger")[0][0]) for server, name in pairs]

    def close(self) -> None:
        self.merger.close()
        self.source.execute(f"DROP DATABASE {self.shop}")
        for server, name in zip(self.servers, self.names, strict=True):
            server.execute(f"DROP DATABASE {name}")


@pytest.fixture
def nodes(box: Sandbox) -> Iterator[Nodes]:
    with closing(Nodes(box)) as made:
        yield made


@pytest.mark.timeout(120)
def test_each_node_has_what_the_stream_brings_and_what_a_refresh_reads(nodes: Nodes) -> None:
    nodes.merge(nodes.change("INSERT", ("1", "0", "a")), nodes.change("INSERT", ("2", "0", "b")))
    assert nodes.rows() == [[(1, 0, "a"), (2, 0, "b")]] * 2
    nodes.merge(nodes.change("UPDATE", ("1", "0", "c"), old=({"v": "a"},), rows=(1,)))
    nodes.merge(nodes.change("DELETE", ("2", "0", "b")))
    assert nodes.rows() == [[(1, 0, "c")]] * 2

    # A row that is there at one node alone has a value that is unique: it makes way there, and is refreshed everywhere.
    nodes.at_node(1, "INSERT INTO t VALUES (9, 0, 'taken')")
    nodes.source.execute("INSERT INTO t VALUES (1, 0, 'c'), (3, 0, 'taken')", database=nodes.shop)
    nodes.merge(nodes.change("INSERT", ("3", "0", "taken")))
    until(lambda: nodes.rows() == [[(1, 0, "c"), (3, 0, "taken")]] * 2, "the row that made way to be gone")

    nodes.at_node(0, "DELETE FROM t WHERE id = 1")
    nodes.at_node(1, "UPDATE t SET v = 'wrong' WHERE id = 1", "INSERT INTO t VALUES (5, 0, 'extra')")
    nodes.merge(refresh_message(nodes.table, [("1",), ("5",)]))
    assert nodes.rows() == [[(1, 0, "c"), (3, 0, "taken")]] * 2


@pytest.mark.timeout(120)
def test_while_a_copy_is_open_a_delete_is_in_the_ledger_of_every_node(nodes: Nodes) -> None:
    nodes.copy(closed=0)
    nodes.at_node(1, "INSERT INTO t VALUES (1, 0, 'copied')")  # the copy has come to one node only
    nodes.merge(nodes.change("DELETE", ("1", "0", "copied")))
    assert (nodes.rows(), nodes.ledger()) == ([[], []], [1, 1])
    assert len(nodes.kept.empties) == 1, "at the node that had none it is looked at again"
    nodes.merge(nodes.change("INSERT", ("1", "0", "again")))
    assert (nodes.rows(), nodes.ledger()) == ([[(1, 0, "again")]] * 2, [0, 0])
