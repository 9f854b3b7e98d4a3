"""What foreign keys change in no log ends as at the source, however messages are split into batches and whenever a
marker comes that waited.

Real: the publisher's markers, the messages' bytes, the folding, the pieces of a batch and what markers mean. In memory:
the source, its foreign keys, the topic, and the target, which is a dict.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from migrate.merge.cascades import Cascades
from migrate.merge.marker_effect import Images
from migrate.merge.owned import OwnedPartition
from migrate.merge.shares import Folded, Share
from migrate.model.change import Key
from migrate.model.message import Message, Received, Row, encode
from migrate.model.message_reader import decode
from migrate.model.table import TableId
from migrate.state.record import Partition
from migrate.target.cascades import Values
from migrate.target.reached import Claim
from migrate.target.routing import PlannedTable
from tests.merge.history import KeysAlone
from tests.merge.steps import Steps
from tests.property.family import MIGRATION, PARTITIONS, TABLES, Family, Publisher, Rows, a_family, plan

PLAN = plan()


class World:
    """The topic, the target's rows, and markers that wait. It is what a consumer asks too."""

    def __init__(self, family: Family) -> None:
        self.family = family
        self.publisher = Publisher(family, PLAN)
        self.published = 0
        self.topic: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        self.next = [0] * PARTITIONS
        self.rows: Rows = {name: dict(rows) for name, rows in family.history[0].items()}
        self.waiting: list[Message] = []
        self.steps = Steps(PLAN, KeysAlone({TABLES[name].id: keys for name, keys in family.keys.items() if keys}))
        self.cascades = Cascades(PLAN, self.steps.layouts, self, None, MIGRATION, self)  # type: ignore[arg-type]
        self.cascades._rows = self  # type: ignore[assignment]
        self.owned = [
            OwnedPartition(
                Claim(Partition("m", "topic", number), 1, "h"), {}, {"s": dict.fromkeys(PLAN.used_databases)}
            )
            for number in range(PARTITIONS)
        ]

    # -- the target

    def with_values(
        self, planned: PlannedTable, values: Values, wanted: Callable[[Key], bool] = lambda _key: True
    ) -> tuple[list[Key], bool]:
        some = [one for found in values.values() for one in found]
        rows = self.rows[planned.table.name].values()
        there = [(str(row["id"]),) for row in rows if any(one.items() <= row.items() for one in some)]
        return [key for key in there if wanted(key)], False

    def images(self, planned: PlannedTable, keys: Sequence[Key], wanted: Collection[str]) -> Images:
        rows = self.rows[planned.table.name]
        return [(key, {name: rows[key[0]][name] for name in wanted}) for key in keys if key[0] in rows]

    # -- the source, and the state

    def logs_cascades(self, _source: str) -> bool:
        return False

    def put(self, _partition: Partition, markers: Sequence[tuple[TableId, Message]], *, copied: bool) -> None:
        assert not copied
        self.waiting += [marker for _, marker in markers]

    # -- what happens

    def publish(self, changes: int) -> None:
        for at, change in [*enumerate(self.family.log)][self.published : self.published + changes]:
            for partition, message in self.publisher.messages(at + 1, *change):
                self.topic[partition].append(message)
            self.published = at + 1

    def send_waiting(self, most: int) -> None:
        ready = [one for one in self.waiting if one.coordinate.transaction <= self.published][:most]
        for one in ready:
            self.waiting.remove(one)
            for messages in self.topic:
                messages.append(encode(one))

    def merge(self, counts: Sequence[int], seen: int) -> None:
        """seen: of the source's changes, at the least, what the source shows where it is asked."""
        batch = []
        for number, count in enumerate(counts):
            partition, start = Partition("m", "topic", number), self.next[number]
            some = self.topic[number][start : start + count]
            batch += [Received(partition, start + at, 0, decode(one, "t", start + at)) for at, one in enumerate(some)]
            self.next[number] += len(some)
        for piece in self.cascades.rounds(batch):
            shares = []
            for number, owned in enumerate(self.owned):
                if items := [item for item in piece if item.partition.number == number]:
                    folded = self.steps.fold(owned, items)
                    self.cascades.note_unlogged(folded)
                    shares.append(folded)
            for folded in shares:
                self._write(folded)
            for folded in shares:
                self._follow(folded, seen)

    def _write(self, folded: Folded) -> None:
        for _, planned, intents in folded.fold.places():
            for intent in intents:
                self._put(planned.table.name, intent.key[0], intent.row)
        folded.owned.watermark.update(folded.consumed.highest)

    def _follow(self, folded: Folded, seen: int) -> None:
        at = max(self.published, seen)
        source = self.family.history[at]
        for planned, asked, meant in self.cascades.found(Share(folded, {})):
            there = source[planned.table.name]
            rows = {key: [there[key[0]]] if key[0] in there else [] for key in asked}
            self.cascades.lead_on(folded.owned.partition, planned, [*asked], meant, rows)
            for key, found in rows.items():
                self._put(planned.table.name, key[0], found[0] if found else None)

    def _put(self, table: str, id_: str, row: Row | None) -> None:
        if row is None:
            self.rows[table].pop(id_, None)
        else:
            self.rows[table][id_] = row


@settings(max_examples=400, deadline=None)
@given(st.randoms(use_true_random=True))
def test_the_target_ends_as_the_source_however_the_messages_are_split(chance: random.Random) -> None:
    """Lost: rows below one that a statement had taken, changed or inserted again while the marker of its own change was
    on its way, or in the same batch."""
    family = a_family(chance)
    world, changes = World(family), len(family.log)
    for _ in range(chance.randint(0, 6)):
        world.publish(chance.randint(0, changes))
        world.send_waiting(chance.randint(0, 3))
        world.merge([chance.randint(0, 20), chance.randint(0, 20)], chance.randint(0, changes))
    world.publish(changes)
    while world.waiting or world.next != [len(messages) for messages in world.topic]:
        world.merge([len(messages) for messages in world.topic], changes)
        world.send_waiting(1_000)
    assert world.rows == family.history[-1], (family.shape, family.log)
