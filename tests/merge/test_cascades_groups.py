"""Foreign keys of tables that share their places: changes of one key come from several sources, in no order between
them. The target and the sources are in memory. Costs 1 s."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest

from migrate.merge.cascades import Cascades
from migrate.merge.group_conflicts import Doubt
from migrate.merge.marker_effect import Images
from migrate.merge.owned import OwnedPartition
from migrate.merge.resolver import Resolver
from migrate.merge.shares import Resolved
from migrate.model.change import Key
from migrate.model.coordinate import Coordinate
from migrate.model.message import Message, Received
from migrate.model.table import Column, Kind, Table, TableId
from migrate.mysql.foreign_keys import ForeignKey
from migrate.state.migration import Migration, Topic
from migrate.state.record import Partition
from migrate.target.owners import Missing, RowsNotAsked
from migrate.target.reached import Claim
from migrate.target.routing import Plan, PlannedTable
from tests.helpers import int_column, make_settings, raw_settings, text_column
from tests.merge.history import KeysAlone
from tests.merge.steps import Steps
from tests.property.stream import sharding

COLUMNS = (int_column("id"), int_column("shard"), Column("up", "int(11)", Kind.INT), text_column("code"))
PARTITION = Partition("m", "topic", 0)
ENDS = {"s": Coordinate(1, 10, 400, 0), "r": Coordinate(3, 900, 8, 0)}
"""Where the log of each source ends."""


def family(letters: str = "id") -> tuple[Plan, KeysAlone]:
    """Orders refer to accounts, items to orders, each ON DELETE CASCADE; each table is at both sources, for the same
    places. letters: of the order's key, where an item's definition has it."""
    server = raw_settings()["sources"][0]
    tables = {
        (source, "shop", name): Table(source, "shop", name, COLUMNS, ("id",))
        for source in ENDS
        for name in ("accounts", "orders", "items")
    }
    raw = [
        {
            "name": f"shop.{name}",
            "source": source,
            "group": name,
            "sharding": sharding(name),
        }
        for source, _, name in tables
    ]
    settings = make_settings(sources=[{**server, "name": name} for name in ENDS], tables=raw)
    by = {"accounts": "orders", "orders": "items"}
    keys = {
        (source, "shop", child): [ForeignKey("k", ("up",), ("shop", parent), (letters,), on_delete="CASCADE")]
        for source in ENDS
        for parent, child in by.items()
    }
    return Plan(settings, tables), KeysAlone(keys)


class World:
    """What the target has of a key, and the markers that wait."""

    def __init__(self, rows: dict[str, dict[str, str | None]], letters: str = "id") -> None:
        self.plan, history = family(letters)
        self.rows = rows
        self.waiting: list[tuple[TableId, Message]] = []
        self.steps = Steps(self.plan, history)
        migration = Migration("m", (Topic("topic", "topic", 1),))
        self.cascades = Cascades(self.plan, self.steps.layouts, self, None, migration, self)  # type: ignore[arg-type]
        self.cascades._rows = self  # type: ignore[assignment]

    def images(self, _planned: PlannedTable, keys: Sequence[Key], wanted: Collection[str]) -> Images:
        return [(key, {name: self.rows[key[0]][name] for name in wanted}) for key in keys if key[0] in self.rows]

    def logs_cascades(self, _source: str) -> bool:
        return False

    def log_end(self, source: str, _incarnation: int) -> Coordinate:
        return ENDS[source]

    def put(self, _partition: Partition, markers: Sequence[tuple[TableId, Message]], *, copied: bool) -> None:
        assert not copied
        self.waiting += markers

    def written(self, *messages: Message) -> None:
        """What is noted before a batch is written."""
        owned = OwnedPartition(Claim(PARTITION, 1, "h"), {}, {"s": dict.fromkeys(self.plan.used_databases)})
        items = [Received(PARTITION, at, 0, one) for at, one in enumerate(messages)]
        self.cascades.note_unlogged(self.steps.fold(owned, items))


INSERT = Message(
    "shop", "orders", "INSERT", ({"id": "5", "shard": "1", "up": "3", "code": "a"},), "s", 1, 10, 300, (0,)
)
OF_THE_OTHER: dict[str, dict[str, str | None]] = {"5": {"id": "5", "shard": "1", "up": "9", "code": "a"}}


def test_a_key_that_another_source_takes_over_leaves_a_marker_for_the_children_of_the_row_it_replaces() -> None:
    """Lost: items of the other source stayed at the target, as the marker of their account found the order no more."""
    world = World(OF_THE_OTHER)
    world.written(INSERT)
    assert {id_: one.data for id_, one in world.waiting} == {
        (source, "shop", "items"): ({"up": "5"},) for source in ENDS
    }


def test_a_marker_waits_for_the_log_of_its_own_source() -> None:
    """Lost: a drain that ended, where a marker waited for a file that its source does not have."""
    world = World(OF_THE_OTHER)
    world.written(INSERT)
    assert {one.source: one.coordinate[:3] for _, one in world.waiting} == {"s": (1, 10, 300), "r": ENDS["r"][:3]}


@pytest.mark.parametrize("letters", ["id", "ID"])
def test_a_definition_may_print_the_columns_that_it_refers_to_in_other_letters(letters: str) -> None:
    """Lost: items of an order that went with its account, where MySQL 8.0 prints the key's name in small letters."""
    world = World(OF_THE_OTHER, letters)
    world.written(INSERT)
    assert [one.data for _, one in world.waiting] == [({"up": "5"},)] * len(ENDS)


def test_keys_that_are_asked_for_further_wait_where_the_others_of_their_table_do() -> None:
    """Lost: a consumer that came to an end of its batch: keys that no answer named were asked for again and again."""
    world = World({})
    table = world.plan.tables["s", "shop", "orders"]
    owned = OwnedPartition(Claim(PARTITION, 1, "h"), {}, {"s": dict.fromkeys(world.plan.used_databases)})
    folded = world.steps.fold(owned, [Received(PARTITION, 0, 0, INSERT)])
    id_ = table.noted_as.id
    before = Resolved(folded, [], {id_: (table, {("7",): Doubt(everywhere=True)})})
    resolver = Resolver(world.plan, world.steps.layouts, None, None)  # type: ignore[arg-type]
    found = RowsNotAsked("orders", {("5",): Missing()})
    after = resolver.ask_more(before, found, world.cascades.leads_on)
    assert {key: doubt.everywhere for key, doubt in after.late[id_][1].items()} == {("5",): True}
    assert after.answers == []
