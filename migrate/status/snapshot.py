"""Where a stream stands, read from the state, the sources, Kafka and the targets at one time: the one snapshot that
everything else is told from."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import closing
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from migrate.copy import operator_limits
from migrate.kafka.reader import NoSuchTopic, PartitionReader
from migrate.model import process_names
from migrate.model.errors import MigrateError
from migrate.model.partition import Partition
from migrate.model.times import in_utc
from migrate.mysql.errors import explained
from migrate.publish.start_position import SourceEnd, source_end
from migrate.settings import Settings, Source
from migrate.state import (
    check,
    chunks,
    compared,
    database,
    exit_reason,
    failover,
    foreign,
    lease,
    left_out_messages,
    membership,
    outstanding,
    oversized,
    pending_markers,
    phase,
    position,
    record,
    replay,
    skipped_key,
    stop_reason,
    verification,
)
from migrate.state import migration as migrations
from migrate.state.reached import LostMessages
from migrate.status import lag, target_losses
from migrate.status.table_state import TableState
from migrate.target import ledger, parked
from migrate.target.groups import name_of
from migrate.target.pool import TargetPool
from migrate.target.routing import Plan
from migrate.target.stored_plan import stored_plan

_NAMED = 100  # differences that are listed; all are counted


@dataclass(slots=True)
class SourceStatus:
    name: str
    published: str  # file:position delivered
    log_end: str  # file:position the source is at; "" when it cannot be asked
    caught_up: bool
    event_time: str
    address: str  # where it is read
    outstanding: dict[str, Any] = field(default_factory=dict)  # what Kafka had not confirmed at the last flush
    lag_seconds: float = 0.0  # of the publisher
    replaying: str = ""  # after a rewind, or a failover without GTID: up to where everything is published again
    problem: str = ""  # why it cannot be asked; empty when it was
    doubt: str = ""  # why a verification is due since the server changed; empty when none is


@dataclass(slots=True)
class PartitionStatus:
    topic: str
    partition: int
    consumed: int  # next offset
    end: int  # the topic's end
    messages: int
    rows: int
    owner: str = ""  # host and process id of the consumer that works on it now; empty when none does

    @property
    def waiting(self) -> int:
        return self.end - self.consumed


@dataclass(slots=True)
class Snapshot:
    migration: str
    topics: list[str]
    sources: list[SourceStatus] = field(default_factory=list)
    partitions: list[PartitionStatus] = field(default_factory=list)
    records: dict[str, int] = field(default_factory=dict)
    empty_deletes: int = 0  # waiting for their delayed message
    waiting_markers: int = 0  # of rows that foreign keys changed: until the copy of their table is closed
    parked: int = 0  # changes that the target refuses and that were set aside
    skips: int = 0  # keys of which what is refused is set aside
    left_out: int = 0  # messages that could not be applied and that were left out
    lacking: int = 0  # partitions that a target database has less of than it had: what it lacks comes again
    lost: list[LostMessages] = field(default_factory=list)  # what targets came back without, not verified since
    foreign: int = 0  # keys written at this stream's source while that was standby, or had too late; not compared yet
    differing: int = 0  # keys that the scheduled check found different, since the last clean verification began
    left_out_since: int = 0  # of these, those since the last clean verification of all tables began
    tables: dict[str, TableState] = field(default_factory=dict)  # with its source where others have the name
    halted: list[dict[str, str]] = field(default_factory=list)
    endings: list[dict[str, Any]] = field(default_factory=list)  # the last one of processes that may run again by now
    leading: dict[str, str] = field(default_factory=dict)  # host and process id, by what there is one of at a time
    gone: set[str] = field(default_factory=set)  # topics that the broker does not have
    oversized: list[dict[str, Any]] = field(default_factory=list)  # rows left out of the stream; verified: found equal
    lag_seconds: float = 0.0
    lag_of_consumers: float = 0.0  # seconds, a part of it
    unanswered: list[str] = field(default_factory=list)  # Kafka and targets, of which nothing is told
    check: dict[str, Any] = field(default_factory=dict)  # what the scheduled check found
    copies: dict[str, dict[str, Any]] = field(default_factory=dict)  # how far the copy of each of `tables` is
    forgotten: dict[str, str] = field(default_factory=dict)  # since when and why nothing counts as compared, if so

    @property
    def waiting_messages(self) -> int:
        return sum(part.waiting for part in self.partitions)

    @property
    def rows_applied(self) -> int:
        return sum(part.rows for part in self.partitions)

    @property
    def returning(self) -> int:
        """Messages that come back into their partitions: deferred deletes, markers."""
        return self.empty_deletes + self.waiting_markers

    @property
    def ended(self) -> list[dict[str, Any]]:
        """Of `endings` those whose process does not work now."""
        working = {*self.leading, *(() if any(not part.owner for part in self.partitions) else ("consume",))}
        return [one for one in self.endings if one["process"] not in working]

    @property
    def drained(self) -> bool:
        """Everything the sources logged up to now is at the target, and no delete waits to come back."""
        caught_up = all(source.caught_up for source in self.sources)
        waiting = self.gone or self.waiting_messages or self.records.get("new", 0) or self.unanswered
        return caught_up and not waiting and not self.returning and not self.lacking

    def as_dict(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "gone": sorted(self.gone),
            "lost": [str(one) for one in self.lost],
            "waiting_messages": self.waiting_messages,
            "rows_applied": self.rows_applied,
            "drained": self.drained,
        }


def read(
    settings: Settings,
    state: sa.Engine,
    upto: dict[str, SourceEnd] | None = None,
    plan: Plan | None = None,
    *,
    whoever_answers: bool = False,
) -> Snapshot:
    """The status now; `upto` gives the source positions that count as its end (by default: where it is now), `plan`
    the tables where they are not the stored ones. whoever_answers: targets and Kafka that do not are noted.

    Raises: PreflightError before init, ServerError when a server does not answer.
    """
    settings = position.where_read(state, settings)
    with state.connect() as connection:
        doubts = failover.in_doubt(connection, settings.name)
        known = migrations.get(connection, settings.name)
        status = Snapshot(settings.name, [topic.name for topic in known.topics])
        stored = {source.name: position.load(connection, settings.name, source.name) for source in settings.sources}
        totals = record.totals(connection, settings.name)
        status.records = {name.name.lower(): count for name, count in record.counts(connection, settings.name).items()}
        status.halted = [
            {**one._asdict(), "at": in_utc(one.at), "since": in_utc(one.since)}
            for one in stop_reason.every(connection, settings.name)
        ]
        status.endings = [
            {**one._asdict(), "at": in_utc(one.at, "seconds")} for one in exit_reason.every(connection, settings.name)
        ]
        phases = phase.every(connection, settings.name)
        members = membership.every(connection, settings.name)
        status.skips = skipped_key.count(connection, settings.name)
        status.forgotten = why_nothing_counts(connection, settings.name)
        _without(connection, status)
        now = connection.execute(sa.select(database.now)).scalar_one()
        holders = lease.holders(connection, settings.name)
        single = {
            *process_names.SINGLE,
            *(process_names.publisher(source.name) for source in settings.sources),
        }  # one process each
        status.leading = {name: holder for name, holder in holders.items() if name in single}
        listed = {name: outstanding.get(connection, settings.name, name) for name in stored}
        replaying = {
            name: replay.replaying(connection, settings.name, where) for name, where in stored.items() if where
        }
        reaches = {name: position.reach(connection, settings.name, name) for name in stored}
        known_reaches = {name: reach for name, reach in reaches.items() if reach is not None}
        published = lag.Published(known_reaches, len(stored) == 1 and not any(replaying.values()))
    for name, where in stored.items():
        source = settings.source(name)
        end, problem = _source_end(source, where, upto[name] if upto else None)
        status.sources.append(_source_status(source, where, end, problem))
        status.sources[-1].replaying = replaying.get(name, "")
        batches, idle_at = listed[name]
        status.sources[-1].outstanding = asdict(batches)
        event_time = where.event_time if where else None
        status.sources[-1].lag_seconds = lag.of_source(now, status.sources[-1].caught_up, event_time, idle_at)
        if name in doubts:
            found, at = doubts[name]
            status.sources[-1].doubt = f"{found.doubt} (since {in_utc(at, 'seconds')}, {found.to_server})"
    behind = 0.0
    try:
        behind = _partitions(settings, known, totals, status, now, published)
    except MigrateError as error:
        if not whoever_answers:
            raise
        status.unanswered.append(error.message)
    for part, partition in zip(status.partitions, known.partitions, strict=False):  # fewer where Kafka is away
        part.owner = holders.get(partition.lease, "")
    status.lag_of_consumers = round(behind, 1)
    status.lag_seconds = round(max([behind, *(source.lag_seconds for source in status.sources)]), 1)
    plan = plan or stored_plan(settings, state)
    with state.connect() as connection:
        expected = target_losses.Expected.read(connection, plan)
        status.lost = verification.lost(connection, settings.name)
        status.check = standing_of_check(connection, plan)
        copies = operator_limits.copies(connection, plan)
    names = Counter(planned.table.full_name for planned in plan.tables.values())
    for key, planned in plan.tables.items():
        stage = phases.get(key, phase.Phase.CREATED)
        member = members.get(key)
        joining = member.stage if member is not None and not member.begun else None
        name = name_of(planned) if names[planned.table.full_name] > 1 else planned.table.full_name
        status.tables[name] = TableState.of(stage, joining, planned.table.source in doubts)
        if key in copies:
            status.copies[name] = copies[key].as_dict()
    away: set[str] = set()  # targets, each asked once
    with closing(TargetPool(settings)) as pool:
        for place in plan.used_databases:
            if place.target in away:
                continue
            try:
                with explained(f"target '{place.target}'"):
                    status.empty_deletes += ledger.waiting(pool.get(place), settings.name)
                    status.parked += parked.count(pool.get(place), settings.name)
                    told = {(one.database, one.what) for one in status.lost}
                    missing = expected.lost(pool.get(place), place)
                    status.lacking += sum(not (one.of_copy or one.of_switch) for one in missing)
                    status.lost += [one for one in missing if (one.database, one.what) not in told]
            except MigrateError as error:
                if not whoever_answers:
                    raise
                away.add(place.target)
                status.unanswered.append(error.message)
    return status


def why_nothing_counts(connection: sa.Connection, migration: str) -> dict[str, str]:
    """`since` (UTC) and `because` where nothing counts as compared and the state has why; else empty."""
    found = compared.why_nothing(connection, migration)
    if found is None or not found.because:
        return {}
    return {"since": in_utc(found.at, "seconds"), "because": found.because}


def _without(connection: sa.Connection, status: Snapshot) -> None:
    """What the stream went on without. A clean verification of all tables settles what it began after."""
    since = verification.equal_since(connection, status.migration)
    status.left_out = left_out_messages.count(connection, status.migration)
    status.foreign = foreign.count(connection, status.migration)
    status.waiting_markers = pending_markers.count(connection, status.migration)
    status.differing = check.count(connection, status.migration, verification=since)
    status.left_out_since = left_out_messages.count(connection, status.migration, since)
    open_ = set(oversized.every(connection, status.migration, since))
    status.oversized = [
        {**asdict(row), "verified": row not in open_} for row in oversized.every(connection, status.migration)
    ]


def standing_of_check(connection: sa.Connection, plan: Plan) -> dict[str, Any]:
    """The last run of the scheduled check, how many chunks it has been to, and what differs.

    Groups are compared page by page, so that their chunks do not count.
    """
    migration = plan.settings.name
    last = check.latest(connection, migration)
    grouped = [id_ for id_, planned in plan.tables.items() if planned.group]
    known, never, oldest = chunks.unchecked(connection, migration, grouped)
    return {
        "last": {"finished": in_utc(last.finished, "seconds"), "seconds": last.seconds, **asdict(last.counts)}
        if last
        else None,
        "chunks": known,
        "never_checked": never,
        "oldest": in_utc(oldest, "seconds") if oldest else None,
        "differences": check.count(connection, migration),
        "named": [
            {
                "table": f"{one.id[1]}.{one.id[2]}",
                "source": one.id[0],
                "key": json.loads(one.key),
                "kind": one.kind,
                "detail": one.detail,
                "first_seen": in_utc(one.first_seen, "seconds"),
                "last_seen": in_utc(one.last_seen, "seconds"),
            }
            for one in check.every(connection, migration, _NAMED)
        ],
    }


def source_ends(settings: Settings, state: sa.Engine) -> dict[str, SourceEnd]:
    """Where each source's log ends now. Raises ServerError."""
    ends = {}
    for source in position.where_read(state, settings).sources:
        ends[source.name] = source_end(source)
    return ends


def _source_end(
    source: Source, where: position.Position | None, upto: SourceEnd | None
) -> tuple[SourceEnd | None, str]:
    """What counts as the source's end: `upto` while the server is the one it is of, else where the log ends now.

    With why it cannot be told.
    """
    if upto is not None and where is not None and upto.server == (where.server_id, where.server_uuid):
        return upto, ""
    try:
        return source_end(source), ""
    except MigrateError as error:
        return None, error.message


def _source_status(
    source: Source, where: position.Position | None, end: SourceEnd | None, problem: str
) -> SourceStatus:
    published = f"{where.file}:{where.pos}" if where else ""
    caught_up = where is not None and end is not None and end.reached_by(where)
    event_time = in_utc(where.event_time) if where and where.event_time else ""
    ends = f"{end.at.file}:{end.at.pos}" if end else ""
    return SourceStatus(source.name, published, ends, caught_up, event_time, source.address, problem=problem)


def _partitions(
    settings: Settings,
    known: migrations.Migration,
    totals: dict[Partition, record.ConsumedTotal],
    status: Snapshot,
    now: datetime,
    published: lag.Published,
) -> float:
    """Take in every partition; returns the age in seconds of the oldest change that waits in one."""
    reader, oldest = PartitionReader(settings.kafka, f"{settings.group}.status"), 0.0
    try:
        for partition in known.partitions:
            topic, number = known.topic_names[partition.topic_id], partition.number
            total = totals.get(partition, record.ConsumedTotal())
            try:
                _, end = reader.bounds(topic, number)
            except NoSuchTopic:
                status.gone |= {topic}
                end = total.next_offset
            status.partitions.append(PartitionStatus(topic, number, total.next_offset, end, total.messages, total.rows))
            if total.next_offset < end:
                age = lag.of_partition(now, reader, topic, number, total.next_offset, total.event_ms, published)
                oldest = max(oldest, age)
    finally:
        reader.close()
    return oldest
