"""A snapshot is read from the state, the sources, Kafka and the targets at one time."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import closing
from dataclasses import asdict
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from migrate.copy import operator_limits
from migrate.kafka.reader import NoSuchTopic, PartitionReader
from migrate.model import process_names
from migrate.model.errors import MigrateError
from migrate.model.partition import Partition
from migrate.model.table import TableId
from migrate.model.times import in_utc
from migrate.mysql.errors import explained
from migrate.publish.start_position import SourceEnd, source_end
from migrate.settings import Settings, Source
from migrate.settings.plain import plain_channels
from migrate.state import (
    check,
    chunks,
    compared,
    consumed_total,
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
    replay,
    skipped_key,
    stop_reason,
    verification,
)
from migrate.state import migration as migrations
from migrate.status import lag, target_losses
from migrate.status.snapshot import PartitionStatus, Snapshot, SourceStatus
from migrate.status.table_state import TableState
from migrate.target import ledger, outdated, parked
from migrate.target.groups import name_of
from migrate.target.pool import TargetPool
from migrate.target.routing import Plan
from migrate.target.stored_plan import stored_plan

_NAMED = 100  # differences that are listed; all are counted


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
    plain = [one.where for one in plain_channels(settings)]
    settings = position.where_read(state, settings)
    with state.connect() as connection:
        doubts = failover.in_doubt(connection, settings.name)
        known = migrations.get(connection, settings.name)
        status = Snapshot(settings.name, [topic.name for topic in known.topics], plain=plain)
        stored = {source.name: position.load(connection, settings.name, source.name) for source in settings.sources}
        totals = consumed_total.totals(connection, settings.name)
        status.records = {
            name.name.lower(): count for name, count in consumed_total.counts(connection, settings.name).items()
        }
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
        published = lag.PublishedReach(known_reaches, len(stored) == 1 and not any(replaying.values()))
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
    for key, name in _names(plan).items():
        planned, member = plan.tables[key], members.get(key)
        joining = member.stage if member is not None and not member.begun else None
        stage = phases.get(key, phase.Phase.CREATED)
        status.tables[name] = TableState.of(stage, joining, planned.table.source in doubts)
        if key in copies:
            status.copies[name] = copies[key].as_dict()
    _targets(settings, plan, expected, status, whoever_answers=whoever_answers)
    return status


def _names(plan: Plan) -> dict[TableId, str]:
    """Of the tables; with the source where others have the name."""
    names = Counter(planned.table.full_name for planned in plan.tables.values())
    return {
        key: name_of(planned) if names[planned.table.full_name] > 1 else planned.table.full_name
        for key, planned in plan.tables.items()
    }


def _targets(
    settings: Settings, plan: Plan, expected: target_losses.Expected, status: Snapshot, *, whoever_answers: bool
) -> None:
    """Take in what the target databases tell, each server asked once where it does not answer. Raises ServerError."""
    away: set[str] = set()  # targets, each asked once
    with closing(TargetPool(settings)) as pool:
        for place in plan.used_databases:
            if place.target in away:
                continue
            try:
                with explained(f"target '{place.target}'"):
                    status.empty_deletes += ledger.waiting(pool.get(place), settings.name)
                    status.outdated += outdated.count(pool.get(place), settings.name)
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
    status.differing = differing(connection, status.migration, since)
    status.left_out_since = left_out_messages.count(connection, status.migration, since)
    open_ = set(oversized.every(connection, status.migration, since))
    status.oversized = [
        {**asdict(row), "verified": row not in open_} for row in oversized.every(connection, status.migration)
    ]


def differing(connection: sa.Connection, migration: str, since: int | None) -> int:
    """Rows that the scheduled check or a verification found different after a clean one, the higher of the two figures,
    as both may have found the same rows."""
    return max(
        check.count(connection, migration, verification=since),
        verification.differing_since(connection, migration, since),
    )


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
    totals: dict[Partition, consumed_total.ConsumedTotal],
    status: Snapshot,
    now: datetime,
    published: lag.PublishedReach,
) -> float:
    """Take in every partition; returns the age in seconds of the oldest change that waits in one."""
    reader, oldest = PartitionReader(settings.kafka, f"{settings.group}.status"), 0.0
    try:
        for partition in known.partitions:
            topic, number = known.topic_names[partition.topic_id], partition.number
            total = totals.get(partition, consumed_total.ConsumedTotal())
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
