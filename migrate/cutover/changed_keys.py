"""The keys that changed since everything was known to be equal, compared without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

import sqlalchemy as sa

from migrate.chunks.sessions import Sessions
from migrate.kafka.reader import PartitionReader
from migrate.model.change import Key, key_json, key_of
from migrate.model.errors import DifferenceFound, PreflightError
from migrate.model.message import CANAL, Message
from migrate.model.message_reader import decode
from migrate.model.partition import Partition
from migrate.model.table import TableId
from migrate.model.words import counted
from migrate.mysql.errors import explained
from migrate.mysql.quoting import table as full_name
from migrate.mysql.rowfilter import and_rows
from migrate.settings import Settings
from migrate.state import migration as migrations
from migrate.target.cascades import conditions, fields_of, key_in, select, values_of
from migrate.target.routing import Plan, PlannedTable
from migrate.verify.compare_range import Comparison
from migrate.verify.difference import Verdict, judge
from migrate.verify.generated import WithGenerated
from migrate.verify.lookup import Seen, look_up
from migrate.verify.recheck import describe
from migrate.verify.repair import way_out

Tables = tuple[PlannedTable, ...]
_NAMED = 5
_VALUES = 200
"""Values that rows are looked for by in one statement."""


@dataclass(slots=True)
class KeysByTable:
    """Keys to compare, by the tables that share their places."""

    _found: dict[TableId, tuple[Tables, dict[Key, None]]] = field(default_factory=dict)  # by the first of the tables

    def __len__(self) -> int:
        return sum(len(keys) for _, keys in self._found.values())

    def __iter__(self) -> Iterator[tuple[Tables, list[Key]]]:
        for tables, keys in self._found.values():
            yield tables, list(keys)

    def add(self, tables: Tables, keys: Iterable[Key]) -> None:
        _, known = self._found.setdefault(tables[0].table.id, (tables, {}))
        known.update(dict.fromkeys(keys))

    def merge(self, others: KeysByTable) -> None:
        """Add others."""
        for tables, keys in others:
            self.add(tables, keys)


class ChangedKeys:
    """Reads which keys the messages between two places speak of, and compares them. For one thread; close it."""

    def __init__(self, settings: Settings, state: sa.Engine, plan: Plan, most: int) -> None:
        """most: keys at once."""
        self._settings = settings
        self._state = state
        self._plan = plan
        self._most = most
        self._reader = PartitionReader(settings.kafka, f"{settings.group}.cutover")
        self._sessions = Sessions(settings)
        self._generated = WithGenerated()
        with state.connect() as connection:
            self._names = migrations.get(connection, settings.name).topic_names

    def close(self) -> None:
        self._reader.close()
        self._sessions.close()

    def read(self, starts: Mapping[Partition, int], ends: Mapping[Partition, int]) -> KeysByTable:
        """Keys of the messages from `starts` to `ends`. Raises PreflightError when they are too many, or gone."""
        keys = KeysByTable()
        spans: dict[tuple[str, int], tuple[int, int]] = {}
        for partition, end in ends.items():
            start = starts.get(partition, 0)
            topic = self._names[partition.topic_id]
            if start >= end:
                continue
            low, _ = self._reader.bounds(topic, partition.number)
            if start < low:
                raise _unknown(topic, partition.number, start, low)
            spans[topic, partition.number] = start, end
        markers: dict[TableId, tuple[PlannedTable, dict[tuple[str, str, str], Message]]] = {}
        read = {place: start for place, (start, _) in spans.items()}
        gaps: dict[tuple[str, int], tuple[int, int]] = {}
        marked: set[tuple[str, int]] = set()  # where Canal writes, whose transactions leave marks
        for raw in self._reader.spans(spans):
            message = decode(raw.value, raw.where, raw.offset)
            where = raw.topic, raw.partition
            if raw.skipped:
                gaps.setdefault(where, (raw.offset - raw.skipped, raw.offset))
            if message.source == CANAL:
                marked.add(where)
            read[where] = raw.offset + 1
            if not message.data:
                continue
            planned = self._plan.find(message.source, message.database, message.table)
            tables = tuple(self._plan.members(planned))
            if message.cascade:
                _, some = markers.setdefault(planned.table.id, (planned, {}))
                some[message.sql, str(message.old), str(message.data)] = message
                continue
            keys.add(tables, (key_of(row, planned.table.key, planned.table.full_name) for row in message.data))
            self._refuse_many(keys)
        for (topic, number), gap in gaps.items():
            if (topic, number) not in marked:
                raise _unknown(topic, number, *gap)
        for (topic, number), (_, end) in spans.items():
            if (last := read[topic, number]) < end:
                raise _unknown(topic, number, last, end)
        for planned, some in markers.values():
            keys.add(tuple(self._plan.members(planned)), self._meant(planned, list(some.values())))
            self._refuse_many(keys)
        return keys

    def _refuse_many(self, keys: KeysByTable) -> None:
        if len(keys) > self._most:
            raise PreflightError(
                f"more than {self._most:,} keys changed since they were compared last (cutover.max_keys)",
                hint="run `migrate verify` over all tables, then try again; or raise cutover.max_keys",
            )

    def _meant(self, planned: PlannedTable, some: Sequence[Message]) -> Iterator[Key]:
        """Rows of which markers' values are left at a target, or have come to a source: of all that they mean, those
        that may differ."""
        old, new = values_of(planned, some)
        with explained("source and targets"):
            for condition in conditions(planned.table, old, _VALUES):
                for database in planned.databases:
                    connection = self._sessions.targets.get(database)
                    for raw in select(connection, planned.table.key, planned, database, condition):
                        yield key_in(planned.table, raw)
            members = self._plan.members(planned)
            read = [(one.table, one.rows, new) for one in members]
            for one in members[0].mirror_tables:  # of what markers mean another node may have kept what the first lost
                read += [(one, None, old), (one, None, new)]
            for table, rows, values in read:
                fields = fields_of(table, table.key)
                for condition in conditions(table, values, _VALUES):
                    where, arguments = and_rows(*condition, rows)
                    statement = f"SELECT {fields} FROM {full_name(table.database, table.name)} WHERE {where}"
                    for raw in self._sessions.source(table.source).query(statement, arguments):
                        yield key_in(table, raw)

    def settle(self, keys: KeysByTable, say: Callable[[str], None]) -> KeysByTable:
        """Compare keys while the stream brings more; returns those that kept changing.

        Raises: DifferenceFound for the first that differ, PreflightError when the stream does not pass.
        """
        moving = KeysByTable()
        with closing(Comparison(self._settings, self._state)) as comparison:
            for tables, some in keys:
                comparison.suspect(tables, some)
            judged, settled = comparison.settle()
            for error in comparison.failed.values():
                raise error
            if not judged:
                raise PreflightError(
                    f"the stream did not bring everything within {self._settings.check.wait_seconds:.0f} s",
                    hint="`migrate status` says what holds it back",
                )
            for one in settled:
                if one.looked.moving:
                    moving.add(one.tables, one.looked.moving)
                if one.looked.verdicts:
                    named = [
                        comparison.describe(one.tables[0], key, verdict)
                        for key, verdict in list(one.looked.verdicts.items())[:_NAMED]
                    ]
                    told = "; ".join(
                        f"{item.table} key {key_json(item.key)} {item.kind}: {item.detail}" for item in named
                    )
                    raise DifferenceFound(
                        f"{counted(len(one.looked.verdicts), 'key')} changed since the last verification and"
                        f" {'differs' if len(one.looked.verdicts) == 1 else 'differ'}: {told}",
                        hint=_way(one.looked.verdicts, "run `migrate refresh TABLE KEY`"),
                    )
        if len(moving):
            say(f"{counted(len(moving), 'key')} kept changing; looked at again in the freeze")
        return moving

    def prepare(self) -> None:
        """Ask the catalogs of all tables, so that it is not done in a freeze. Raises ServerError."""
        with explained("source and targets"):
            self._generated.of(self._sessions, list(self._plan.tables.values()))

    def look(self, keys: KeysByTable) -> list[tuple[Tables, Mapping[Key, Seen]]]:
        """What is at both sides now, tables with their stored generated columns."""
        every = [(self._generated.of(self._sessions, tables), some) for tables, some in keys]
        return [(tables, look_up(self._sessions, tables, some)) for tables, some in every]

    def compare(self, keys: KeysByTable) -> None:
        """Compare keys at rest, once. Raises DifferenceFound."""
        for tables, found in self.look(keys):
            differing = {key: verdict for key, seen in found.items() if (verdict := judge(seen)) is not None}
            if differing:
                first = [
                    describe(self._sessions, tables[0], key, verdict)
                    for key, verdict in list(differing.items())[:_NAMED]
                ]
                told = "; ".join(f"{item.table} key {key_json(item.key)} {item.kind}: {item.detail}" for item in first)
                raise DifferenceFound(
                    f"{counted(len(differing), 'key')} differ at the coordinate of the freeze: {told}",
                    hint="writes are given back; " + _way(differing, "run `migrate verify --repair`"),
                )


def _way(verdicts: Mapping[Key, Verdict], repair: str) -> str:
    """Out of differences: what a stream repairs, and what a person must do."""
    way = way_out((one.by_hand for one in verdicts.values()), repair)
    return f"see `migrate explain TABLE KEY`, {way}, then try again"


def _unknown(topic: str, number: int, start: int, end: int) -> PreflightError:
    return PreflightError(
        f"{topic} [{number}]: messages from {start} to {end} are no longer at the broker: which keys changed since the"
        " last verification is not known",
        hint="run `migrate verify` over all tables, then try again",
    )
