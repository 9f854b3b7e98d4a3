"""A source that anything may happen to, and a publisher that may die: what then stands in the topic's partitions.

Three tables over few keys, so that changes meet: `exact` (INT key), `text` (a key that only the server can compare)
and `uniq` (an INT key and a unique value). Every place is chosen by `shard`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hypothesis import strategies as st

from migrate.model.message import Row
from migrate.model.table import Table
from migrate.publish.emit import Emitter, Image, Transaction
from migrate.target.routing import Plan
from tests.helpers import SHARDING, int_column, make_settings, text_column

PARTITIONS = 3
COLUMNS = (int_column("id"), int_column("shard"), text_column("v"))
TABLES = {
    "exact": Table("s", "shop", "exact", COLUMNS, ("id",)),
    "text": Table("s", "shop", "text", (text_column("id"), *COLUMNS[1:]), ("id",)),
    "uniq": Table("s", "shop", "uniq", COLUMNS, ("id",), (("v",),)),
}
KEYS = {"exact": ["1", "2", "3"], "text": ["a", "A", "a ", "b"], "uniq": ["1", "2", "3"]}
SHARDS = ["0", "1", "2", "3"]
Raw = tuple[int, bytes]  # partition, message


def sharding(table: str) -> dict[str, object]:
    """The rule of `SHARDING` with tables of this name."""
    rule = {name: dict(part) if isinstance(part, dict) else part for name, part in SHARDING.items()}
    expression = {"algorithm-expression": f"{table}_${{shard.intdiv(2) % 2}}"}
    return {**rule, "nodes": f"ds_${{0..1}}.{table}_${{0..1}}", "table": {**rule["table"], "props": expression}}


def plan(**changes: object) -> Plan:
    """The three tables, each over two databases with two tables."""
    tables = [{"name": f"shop.{name}", "sharding": sharding(name)} for name in TABLES]
    settings = make_settings(tables=tables, **changes)
    return Plan(settings, {("s", "shop", name): table for name, table in TABLES.items()})


def same(table: str, key: str) -> str:
    """What the server's equality makes of a key: 'a', 'A' and 'a ' are one under a _ci collation."""
    return key.rstrip(" ").lower() if table == "text" else key


@dataclass
class Source:
    """What the rows are now, by table and key as the server compares it, and what was logged so far."""

    rows: dict[str, dict[str, Row]] = field(default_factory=lambda: {name: {} for name in TABLES})
    history: list[dict[str, list[Row]]] = field(default_factory=list)  # the rows before and after each transaction
    log: list[list[tuple[str, list[tuple[Row | None, Row | None]]]]] = field(default_factory=list)  # transactions

    def change(self, table: str, before: Row | None, after: Row | None) -> bool:
        """Do it if the server would; whether it did."""
        there = self.rows[table]
        if after is not None:
            key, old = same(table, str(after["id"])), None if before is None else same(table, str(before["id"]))
            if key in there and key != old:
                return False
            if table == "uniq" and any(row["v"] == after["v"] for name, row in there.items() if name != old):
                return False
        if before is not None:
            del there[same(table, str(before["id"]))]
        if after is not None:
            there[same(table, str(after["id"]))] = after
        return True

    def remember(self) -> None:
        self.history.append({table: list(rows.values()) for table, rows in self.rows.items()})


def _some_row(draw: st.DrawFn, table: str) -> Row:
    values = st.sampled_from(["x", "y", "z"]) if table == "uniq" else st.integers(0, 99).map(str)
    return {"id": draw(st.sampled_from(KEYS[table])), "shard": draw(st.sampled_from(SHARDS)), "v": draw(values)}


@st.composite
def sources(draw: st.DrawFn, least: int = 1, most: int = 8) -> Source:
    """A source with some rows, after some transactions of a few row events each."""
    source = Source()
    for table in draw(st.lists(st.sampled_from(sorted(TABLES)), max_size=6)):
        source.change(table, None, _some_row(draw, table))
    source.remember()
    for _ in range(draw(st.integers(least, most))):
        events: list[tuple[str, list[tuple[Row | None, Row | None]]]] = []
        for _ in range(draw(st.integers(1, 3))):
            table = draw(st.sampled_from(sorted(TABLES)))
            rows: list[tuple[Row | None, Row | None]] = []
            for _ in range(draw(st.integers(1, 3))):
                pair = _one_change(draw, source, table)
                if pair is not None and source.change(table, *pair):
                    rows.append(pair)
            if rows:
                events.append((table, rows))
        source.log.append(events)
        source.remember()
    return source


def _one_change(draw: st.DrawFn, source: Source, table: str) -> tuple[Row | None, Row | None] | None:
    there = source.rows[table]
    what = draw(st.sampled_from(["insert", "value", "shard", "key", "spelling", "all", "delete"]))
    row = _some_row(draw, table)
    if what == "insert" or not there:
        return None, row
    before = there[draw(st.sampled_from(sorted(there)))]
    if what == "delete":
        return before, None
    if what == "spelling":
        row["id"] = draw(
            st.sampled_from([key for key in KEYS[table] if same(table, key) == same(table, str(before["id"]))])
        )
    name = {"value": "v", "shard": "shard", "key": "id", "spelling": "id"}.get(what)
    after = row if name is None else {**before, name: row[name]}
    return (before, after) if after != before else None


@st.composite
def topics(draw: st.DrawFn, source: Source, limit: int = 1700) -> list[list[bytes]]:
    """The messages of each partition after publishers that died anywhere and began again where they may.

    Each run leaves a prefix of what it sent in each partition (invariant position-after-delivery); the next begins at
    a transaction that all of the earlier ones are delivered before.
    """
    partitions: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    start = 0
    for _ in range(draw(st.integers(0, 2))):
        end = draw(st.integers(start, len(source.log)))
        sent = _messages(source, start, end, limit)
        cut = [
            draw(st.integers(0, sum(number == partition for _, (number, _) in sent))) for partition in range(PARTITIONS)
        ]
        counts = [0] * PARTITIONS
        missing = end
        for transaction, (partition, raw) in sent:
            counts[partition] += 1
            if counts[partition] <= cut[partition]:
                partitions[partition].append(raw)
            else:
                missing = min(missing, transaction)
        start = draw(st.integers(start, missing))
    for _, (partition, raw) in _messages(source, start, len(source.log), limit):
        partitions[partition].append(raw)
    return partitions


def _messages(source: Source, start: int, end: int, limit: int) -> list[tuple[int, Raw]]:
    emitters = {name: Emitter(table, PARTITIONS, limit) for name, table in TABLES.items()}
    found: list[tuple[int, Raw]] = []
    for number in range(start, end):
        where = Transaction("s", 1, 1 + number // 3, 4 + 100 * number, "", 1_700_000_000_000)
        for event, (table, rows) in enumerate(source.log[number]):
            images: list[tuple[Image | None, Image | None]] = [
                (_image(before), _image(after)) for before, after in rows
            ]
            found += [(number, raw) for raw in emitters[table].messages(where, event, images)]
    return found


def _image(row: Row | None) -> Image | None:
    return None if row is None else [row["id"], row["shard"], row["v"]]


def expected(plan: Plan, source: Source) -> dict[tuple[str, str], list[Row]]:
    """The rows of each place, by (database, table)."""
    return {place: in_order(rows) for place, rows in routed(plan, source.history[-1]).items()}


def routed(plan: Plan, rows: Mapping[str, list[Row]]) -> dict[tuple[str, str], list[Row]]:
    """The rows, by table, where they belong; empty places too."""
    found: dict[tuple[str, str], list[Row]] = {}
    for table, these in rows.items():
        planned = plan.tables[("s", "shop", table)]
        for place in planned.places:
            found[(place.database.name, place.table)] = []
        for row in these:
            place = planned.route(row)
            found[(place.database.name, place.table)].append(row)
    return found


def in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: [str(value) for value in row.values()])


def differences(
    wanted: Mapping[tuple[str, str], list[Row]], there: Mapping[tuple[str, str], list[Row]]
) -> dict[tuple[str, str], tuple[list[Row], list[Row]]]:
    """Place: (rows that shall be there, rows that are), where they are not the same."""
    return {
        place: (rows, in_order(there.get(place, [])))
        for place, rows in wanted.items()
        if rows != in_order(there.get(place, []))
    }
