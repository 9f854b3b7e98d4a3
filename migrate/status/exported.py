"""A look as metrics, by Prometheus's names and units; docs/metrics.md has the meaning of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from migrate.model import process_names
from migrate.state import stop_reason
from migrate.state.chunks import ChunkState
from migrate.status.blocker import Kind
from migrate.status.look import Look
from migrate.status.snapshot import SourceStatus
from migrate.status.stage import Stage
from migrate.status.table_state import TableState
from migrate.status.verdict import Verdict, verdict

_Samples = Iterable[tuple[tuple[str, ...], float | None]]
_SOURCE, _PARTITION = ("source",), ("topic", "partition")


def up(migration: str, answered: bool) -> Metric:
    """Whether a look could be had."""
    help_ = "Whether the status could be read: 0 where the state database does not answer"
    return _gauge(migration, "snapshot_up", help_, (), [((), float(answered))])


def families(look: Look) -> Iterator[Metric]:
    """Every one, also those that have no value now."""
    now = look.now
    gauge = partial(_gauge, now.migration)
    yield up(now.migration, True)
    yield gauge("snapshot_seconds", "Time that it took to read the status", (), [((), look.seconds)])
    stages = [((stage.value,), float(stage is look.stage)) for stage in Stage] if look.stage else []
    yield gauge("stage", "1 at the stage of the migration, 0 at the others", ("stage",), stages)
    counts = [((kind.value,), float(sum(one.kind is kind for one in look.held))) for kind in Kind]
    yield gauge("blockers", "What holds the migration back, by kind", ("kind",), counts)
    judged = verdict(look.held)
    yield gauge("needs_person", "Whether anything waits for a person", (), [((), float(judged is Verdict.PERSON))])
    yield gauge("unanswered_servers", "Kafka and targets that do not answer", (), [((), float(len(now.unanswered)))])
    yield from _sources(look)
    yield from _partitions(look)
    yield from _aside(look)
    yield from _processes(look)
    yield from _copies(look)
    yield from _checks(look)


def _sources(look: Look) -> Iterator[Metric]:
    gauge, sources = partial(_gauge, look.now.migration), look.now.sources
    lag = [((), look.now.lag_seconds)]
    yield gauge("lag_seconds", "Age of the oldest change that is not at the target yet", (), lag)
    behind = [((one.name,), one.lag_seconds) for one in sources]
    yield gauge("source_lag_seconds", "Age of the oldest change that is not published yet", _SOURCE, behind)
    asked = [((one.name,), float(not one.problem)) for one in sources]
    yield gauge("source_up", "Whether the source answers", _SOURCE, asked)
    known = [((one.name,), _behind(one)) for one in sources]
    help_ = "Bytes of the binlog that are not published yet, where both places are in one file"
    yield gauge("source_behind_bytes", help_, _SOURCE, known)
    rows = [((one.name,), float(one.outstanding.get("rows", 0))) for one in sources]
    yield gauge("source_unconfirmed_rows", "Rows that Kafka had not confirmed at the last flush", _SOURCE, rows)
    failovers = [((name,), float(count)) for name, count in look.measures.failovers.items()]
    yield _counter(look.now.migration, "source_failovers", "Failovers to another server", _SOURCE, failovers)


def _behind(source: SourceStatus) -> float | None:
    """None where files lie between, whose sizes are not asked for."""
    (file, _, at), (end_file, _, end) = source.published.rpartition(":"), source.log_end.rpartition(":")
    if source.caught_up:
        return 0.0
    return max(0.0, float(end) - float(at)) if at and end and file == end_file else None


def _partitions(look: Look) -> Iterator[Metric]:
    name, parts = look.now.migration, look.now.partitions
    gauge, counter = partial(_gauge, name), partial(_counter, name)
    halted = {one["process"] for one in look.now.halted}
    labels = [(part.topic, str(part.partition)) for part in parts]
    stopped = [float(stop_reason.of_partition(part.topic, part.partition) in halted) for part in parts]
    waiting = zip(labels, [float(part.waiting) for part in parts], strict=True)
    yield gauge("partition_waiting_messages", "Messages that are not consumed yet", _PARTITION, waiting)
    owned = zip(labels, [float(bool(part.owner)) for part in parts], strict=True)
    yield gauge("partition_owned", "Whether a consumer works on the partition", _PARTITION, owned)
    yield gauge("partition_stopped", "Whether it is stopped", _PARTITION, zip(labels, stopped, strict=True))
    messages = zip(labels, [float(part.messages) for part in parts], strict=True)
    yield counter("partition_messages", "Messages that were consumed", _PARTITION, messages)
    changes = zip(labels, [float(part.rows) for part in parts], strict=True)
    yield counter("partition_changes", "Row changes that were consumed", _PARTITION, changes)


def _aside(look: Look) -> Iterator[Metric]:
    """What is not at its place, by why."""
    now = look.now
    for name, help_, count in (
        ("deferred_deletes", "Deletes that found no row and wait to be tried again", now.empty_deletes),
        ("waiting_markers", "Markers of foreign keys that wait until a table's copy is closed", now.waiting_markers),
        ("outdated_keys", "Keys that the update-time filter skipped, not refreshed yet", now.outdated),
        ("parked_changes", "Changes that a target refuses and that were set aside", now.parked),
        ("skipped_keys", "Keys of which what is refused is set aside", now.skips),
        ("foreign_rows", "Rows written by no stream at a standby side, not found equal yet", now.foreign),
        (
            "different_rows",
            "Rows found different, by the scheduled check or a verification, not verified since",
            now.differing,
        ),
        ("left_out_messages", "Messages left out and not verified since", now.left_out_since),
        ("oversized_rows", "Rows too large for Kafka, not verified since", now.oversized_since),
        ("losses", "Databases and topics that came back with less, not verified since", len(now.lost)),
    ):
        yield _gauge(now.migration, name, help_, (), [((), float(count))])


def _processes(look: Look) -> Iterator[Metric]:
    now = look.now
    gauge = partial(_gauge, now.migration)
    names = [*(process_names.publisher(one.name) for one in now.sources), *process_names.SINGLE]
    running = [((name,), float(name in now.leading)) for name in names]
    yield gauge("process_running", "Whether a process holds the lease of its kind", ("process",), running)
    halted = [((one["process"],), 1.0) for one in now.halted if not stop_reason.is_partition(one["process"])]
    yield gauge("process_stopped", "1 for each process that stopped for good", ("process",), halted)
    taken = [((name,), float(held.taken)) for name, held in look.measures.leases.items()]
    yield _counter(now.migration, "leases_taken", "Takes of a lease", ("lease",), taken)
    freezes = [((direction,), seconds) for direction, seconds in look.measures.freeze_seconds.items()]
    yield gauge("freeze_seconds", "Time that nobody could write, at the last switch", ("direction",), freezes)


def _copies(look: Look) -> Iterator[Metric]:
    now = look.now
    gauge, table = partial(_gauge, now.migration), ("table",)
    states = [((one.value,), float(sum(state is one for state in now.tables.values()))) for one in TableState]
    yield gauge("tables", "Tables by what becomes of them", ("state",), states)
    chunks = [((one.value,), float(look.measures.chunks.get(one.value, 0))) for one in ChunkState]
    yield gauge("copy_chunks", "Chunks of the copy", ("state",), chunks)
    copies = now.copies.items()
    rows = [((name,), float(one["rows_read"])) for name, one in copies]
    yield gauge("copy_rows", "Rows that the copy of a table has read", table, rows)
    about = [((name,), float(one["rows_estimate"])) for name, one in copies]
    yield gauge("copy_estimated_rows", "Rows of a table, by its source's statistics", table, about)
    size = [((name,), float(one["bytes_read"])) for name, one in copies]
    yield gauge("copy_bytes", "Bytes that the copy of a table has read", table, size)
    running = [((name,), float(one["running"])) for name, one in copies]
    yield gauge("copy_running", "Whether the copy of a table runs", table, running)


def _checks(look: Look) -> Iterator[Metric]:
    gauge, known = partial(_gauge, look.now.migration), look.measures
    verified, checked, certified = known.verified, known.check, known.certificate_age
    rows, differences = (float(verified.rows), float(verified.differences)) if verified else (None, None)
    for name, help_, value in (
        ("verification_age_seconds", "Age of the last verification, of its end", known.verified_age),
        ("verification_rows", "Rows compared by the last verification", rows),
        ("verification_differences", "Rows it found different", differences),
        (
            "certificate_age_seconds",
            "Age of the last clean verification of all tables, of its start",
            certified,
        ),
        ("check_age_seconds", "Age of the last run of the scheduled check, of its end", known.check_age),
        ("check_seconds", "Time that the last run of the scheduled check took", checked.seconds if checked else None),
    ):
        yield gauge(name, help_, (), [((), value)])


def _gauge(migration: str, name: str, help_: str, labels: tuple[str, ...], samples: _Samples) -> Metric:
    return _filled(GaugeMetricFamily(f"migrate_{name}", help_, labels=("migration", *labels)), migration, samples)


def _counter(migration: str, name: str, help_: str, labels: tuple[str, ...], samples: _Samples) -> Metric:
    return _filled(CounterMetricFamily(f"migrate_{name}", help_, labels=("migration", *labels)), migration, samples)


def _filled(
    family: GaugeMetricFamily | CounterMetricFamily, migration: str, samples: _Samples
) -> GaugeMetricFamily | CounterMetricFamily:
    for labels, value in samples:
        if value is not None:
            family.add_metric((migration, *labels), value)
    return family
