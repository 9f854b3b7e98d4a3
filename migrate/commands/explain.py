"""`migrate explain`: everything that is known about one row, without its values."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from typing import Any

import sqlalchemy as sa

from migrate.chunks.sessions import Sessions
from migrate.commands import refresh
from migrate.commands.typed_keys import typed_keys
from migrate.kafka.reader import PartitionReader, RawMessage
from migrate.model.change import NoChange, key_json, stored
from migrate.model.errors import StopError
from migrate.model.message import CANAL
from migrate.model.message_reader import decode
from migrate.model.partition import Partition
from migrate.model.table import TableId
from migrate.model.times import in_utc
from migrate.mysql.errors import explained
from migrate.settings import Settings
from migrate.state import migration as migrations
from migrate.state import position, record, skipped_key, stop_reason, verification
from migrate.target import decided, ledger, outdated, parked, refresh_request
from migrate.target.groups import name_of
from migrate.target.routing import PlannedTable
from migrate.target.stored_plan import stored_plan
from migrate.verify.generated import WithGenerated
from migrate.verify.lookup import differing_columns, look_up


@dataclass
class Explained:
    table: str
    key: str
    source: str
    topic: str
    partition: int
    consumed_to: int  # the offset at which reading goes on
    topic_end: int
    halted: str = ""  # why the partition is stopped
    at_source: str = "absent"  # or the place that the sharding rule gives the row
    places: list[dict[str, str]] = field(default_factory=list)  # where the target has it, and how it compares
    nodes: list[dict[str, str]] = field(default_factory=list)  # the other nodes of a broadcast table that is read
    messages: list[dict[str, Any]] = field(default_factory=list)  # in the topic and in the delay topics, oldest first
    read_from: dict[str, int] = field(default_factory=dict)  # the first offset that was looked at, by topic
    decisions: list[dict[str, Any]] = field(default_factory=list)  # what merges made of it, by database
    ledger: list[dict[str, Any]] = field(default_factory=list)
    outdated: list[dict[str, Any]] = field(default_factory=list)  # changes that the update-time filter skipped
    parked: list[dict[str, Any]] = field(default_factory=list)
    set_aside: str = ""  # why what is refused of it shall be parked
    differences: list[dict[str, str]] = field(default_factory=list)  # that verifications named

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def explain(settings: Settings, state: sa.Engine, name: str, text: str, source: str | None, messages: int) -> Explained:
    """Look everywhere.

    Args: name: the table, as database.table. text: the key. messages: how far back each partition is read.
    Raises: ConfigError for a table or key that is none, StopError for a row that no place takes, ServerError.
    """
    settings = position.where_read(state, settings)
    plan = stored_plan(settings, state)
    planned = refresh.find(plan, name, source)
    members = plan.members(planned)
    ids = [one.table.id for one in members]
    (key,) = typed_keys(settings, state, plan, planned, [text])
    table = planned.table
    with state.connect() as connection:
        topic = migrations.get(connection, settings.name).topic(planned.topic or settings.topic)
        partition = refresh_request.partition_for(settings, planned, topic, key)
        number = partition.number
        consumed = record.next_offset(connection, partition) or 0
        found = Explained(name, key_json(key), table.source, topic.name, number, consumed, 0)
        stops = {process: reason for process, reason, *_ in stop_reason.every(connection, settings.name)}
        found.halted = stops.get(stop_reason.of_partition(topic.name, number), "")
        asides = {its: why for id_ in ids for its, why in skipped_key.reasons(connection, settings.name, id_).items()}
        found.differences = [one for id_ in ids for one in verification.named(connection, settings.name, id_, key)]
    sessions = Sessions(settings)
    try:
        with explained("source and targets"):
            spellings = ledger.Spellings(lambda: sessions.targets.get(planned.databases[0]), table, key)
            found.set_aside = next((asides[its] for its in spellings.same(asides)), "")
            _look_at_servers(settings, sessions, planned, members, spellings, found)
            _read_topics(settings, state, partition, planned, ids, spellings, found, messages)
    finally:
        sessions.close()
    return found


def _look_at_servers(
    settings: Settings,
    sessions: Sessions,
    planned: PlannedTable,
    members: Sequence[PlannedTable],
    spellings: ledger.Spellings,
    found: Explained,
) -> None:
    table, key = planned.table, spellings.key
    seen = look_up(sessions, WithGenerated().of(sessions, members), [key])[key]
    if seen.source is not None:
        found.at_source = str(planned.places[seen.source[0]])
        if seen.nodes:
            found.at_source = f"every node: {', '.join(map(str, planned.places))}"
        if planned.group:
            belongs = f", belongs in {seen.belongs}" if seen.belongs else ""
            found.at_source += f" ({' and '.join(name_of(one) for one in seen.holders)}{belongs})"
    for place, digest in sorted(seen.targets.items()):
        compared = "the source has no such row"
        if seen.source is not None:
            holder = seen.holders[-1]
            names = differing_columns(sessions, holder, key, place) if digest != seen.source[1] else []
            compared = f"differs in {', '.join(names)}" if names else "same as at the source"
            compared += "" if place == seen.source[0] or seen.nodes else ", misplaced"
        found.places.append({"place": str(planned.places[place]), "row": compared})
    if seen.source is not None:
        absent = [node for node in range(seen.nodes) if node not in seen.targets]
        found.places += [{"place": str(planned.places[node]), "row": "is not there"} for node in absent]
    for name, at_node in seen.mirrors.items():
        first = seen.source and seen.source[1]
        found.nodes.append({"node": name, "row": f"{'same as' if at_node == first else 'not as'} at the first node"})
    for database in planned.databases:
        connection = sessions.targets.get(database)
        here = {one.table for one in planned.places if one.database == database}
        found.decisions += [
            {
                "place": f"{database.target}/{database.database}.{one.place}",
                "what": one.what,
                "coordinate": () if one.origin is NoChange.REFRESH else tuple(stored(one.origin)),
                "made": in_utc(one.made),
            }
            for one in decided.find(connection, settings.name, here, spellings)
        ]
        (key_hash,) = ledger.key_hashes(connection, table, [key])
        sources = {one.table.source for one in members}
        aside = [row for row in parked.every(connection, settings.name) if row.place in here and row.source in sources]
        same = spellings.same(row.key for row in aside)
        for name in sorted(here):
            with connection.transaction():
                entries = ledger.find(connection, settings.name, planned.noted_as, name, [key_hash])
            where = f"{database.target}/{database.database}.{name}"
            found.ledger += [
                {"place": where, "coordinate": tuple(entry.coordinate), "row_was_there": not entry.was_empty}
                for entry in entries.values()
            ]
            if kept := outdated.find(connection, settings.name, table.source, name, key_hash):
                told = {"coordinate": tuple(kept.coordinate), "skipped": in_utc(kept.skipped)}
                found.outdated.append({"place": where, **told})
            for row in aside:
                if row.place == name and row.key in same:
                    told = {"refusal": row.refusal, "reason": row.reason}
                    coordinate = () if row.copied else tuple(stored(row.origin))
                    found.parked.append({"place": where, "coordinate": coordinate, **told})


def _read_topics(
    settings: Settings,
    state: sa.Engine,
    partition: Partition,
    planned: PlannedTable,
    ids: Collection[TableId],
    spellings: ledger.Spellings,
    found: Explained,
    depth: int,
) -> None:
    with closing(PartitionReader(settings.kafka, f"{settings.group}.explain")) as reader:
        for topic in (found.topic, *settings.delay_topics(found.topic)):
            low, high = reader.bounds(topic, partition.number)
            first = max(low, high - depth)
            found.read_from[topic] = first
            if topic == found.topic:
                found.topic_end = high
            for raw in reader.between(topic, partition.number, first, high):
                found.messages += _rows_of(raw, planned, ids, spellings)
    offsets = [one["offset"] for one in found.messages if one["topic"] == found.topic]
    with state.connect() as connection:
        states = record.states(connection, partition, offsets)
    for one in found.messages:
        if one["topic"] == found.topic:
            known = states.get(one["offset"])
            done = "consumed" if one["offset"] < found.consumed_to else "not read yet"
            one["record"] = known.name.lower() if known is not None else done


def _rows_of(
    raw: RawMessage, planned: PlannedTable, ids: Collection[TableId], spellings: ledger.Spellings
) -> Iterator[dict[str, Any]]:
    """What a message says of the key; ids: of the tables that share its places."""
    table = planned.table
    where = {"topic": raw.topic, "offset": raw.offset}
    try:
        message = decode(raw.value, raw.where, raw.offset)
    except StopError:
        yield {**where, "type": "cannot be read", "coordinate": (), "gtid": ""}
        return
    of = (message.source, message.database, message.table)
    if of not in ids and of != (CANAL, table.database, table.name):
        return
    if planned.group:
        where["table"] = f"{message.source}/{message.database}.{message.table}"
    kind = "DELAYED DELETE" if message.delay is not None else message.type
    keys = [tuple(str(row.get(name)) for name in table.key) for row in message.data]
    same = spellings.same(keys)
    for its, coordinate in zip(keys, message.coordinates(), strict=True):
        if its in same:
            at = () if message.refresh else tuple(coordinate)
            yield {**where, "type": kind, "coordinate": at, "gtid": message.gtid}
