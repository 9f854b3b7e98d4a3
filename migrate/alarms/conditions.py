"""What is to be told, by one look. Asks nobody."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import partial

from migrate.model import process_names
from migrate.model.words import counted, duration
from migrate.settings import Settings
from migrate.state import stop_reason
from migrate.status import blockers
from migrate.status.blocker import Blocker
from migrate.status.blocker import Kind as Held
from migrate.status.look import Look
from migrate.status.margins import KAFKA
from migrate.status.told import told

_STATUS = "migrate status"
_GIB = 1024**3
_SHARED = "partition:"
"""Leases that go to and fro between consumers as these come and go."""


class Kind(StrEnum):
    """The values are what receivers get."""

    BLOCKED = "blocked"  # a partition
    STOPPED = "stopped"  # a process
    MISSING = "missing"
    UNREACHABLE = "unreachable"
    LAG = "lag"
    NO_PROGRESS = "no progress"
    DIFFERENT = "different"
    PARKED = "parked"
    LEFT_OUT = "left out"
    FOREIGN = "foreign"
    LOST = "lost"
    TAKEOVER = "takeover"
    FAILOVER = "failover"
    DISK = "disk"
    RETENTION = "retention"
    CERTIFICATE = "certificate"
    TEST = "test"


@dataclass(frozen=True, slots=True)
class Condition:
    """seconds: that it has to hold before it is an alarm. remedy: a command."""

    kind: Kind
    subject: str
    message: str
    seconds: float = 0.0
    remedy: str = _STATUS


@dataclass(frozen=True, slots=True)
class Seen:
    """What the next look is compared with. changed: when it became that, by the state's clock; None: unknown."""

    value: str
    changed: datetime | None


Memory = Mapping[tuple[str, str], Seen]


def untold(look: Look) -> frozenset[Kind]:
    """What a look says nothing of, as a server did not answer: such alarms stay as they are."""
    found: frozenset[Kind] = frozenset({Kind.DISK, Kind.RETENTION}) if look.margins.unknown else frozenset()
    if look.now.unanswered:  # Kafka, perhaps: nothing is known of topics and partitions
        found |= {Kind.MISSING, Kind.STOPPED}
    if look.now.unanswered or any(one.problem for one in look.now.sources):
        found |= {Kind.PARKED, Kind.LOST, Kind.LAG, Kind.NO_PROGRESS, Kind.RETENTION}
    return found


def observed(look: Look) -> dict[tuple[str, str], str]:
    """What is to be remembered of a look."""
    leases = {name: held.holder for name, held in look.measures.leases.items() if not name.startswith(_SHARED)}
    found = {(Kind.TAKEOVER.value, name): holder for name, holder in leases.items()}
    found |= {(Kind.FAILOVER.value, name): str(count) for name, count in look.measures.failovers.items()}
    if Kind.NO_PROGRESS not in untold(look):
        found[Kind.NO_PROGRESS.value, ""] = _progress(look)
    return found


def _progress(look: Look) -> str:
    """ "" where nothing waits."""
    now = look.now
    if not now.waiting_messages and all(one.caught_up for one in now.sources):
        return ""
    places = ",".join(one.published for one in now.sources)
    return f"{sum(part.consumed for part in now.partitions)} {places}"[:255]


def remembered(before: Memory, look: Look, at: datetime) -> dict[tuple[str, str], Seen]:
    """at: now, by the state's clock."""
    found = {}
    for key, value in observed(look).items():
        old = before.get(key)
        if old is None:
            found[key] = Seen(value, at if key[0] == Kind.NO_PROGRESS else None)
        elif key[0] == Kind.TAKEOVER and not _moved(old.value, value):
            found[key] = Seen(value, old.changed)
        else:
            found[key] = old if old.value == value else Seen(value, at)
    return found


def _moved(before: str, now: str) -> bool:
    """Whether a lease is another machine's; a restart on the same one is no takeover. Holders are HOST:PID."""
    return bool(before and now) and before.rpartition(":")[0] != now.rpartition(":")[0]


def conditions(settings: Settings, look: Look, memory: Memory, at: datetime) -> Iterator[Condition]:
    """memory: as `remembered` gives it for this look."""
    yield from _of_blockers(settings, look)
    yield from _counts(settings, look)
    yield from _remembered(settings, memory, at)
    yield from _margins(settings, look)
    when, now = settings.alarms.when, look.now
    if when.missing_seconds is not None:
        for name in (process_names.COMMIT, process_names.REQUEUE):
            if name not in now.leading:
                yield Condition(Kind.MISSING, name, f"no {name} runs", when.missing_seconds, "migrate run")
    if when.lag_seconds is not None and now.lag_seconds > when.lag_seconds:
        yield Condition(Kind.LAG, "", f"{now.lag_seconds:.0f} s behind, above {when.lag_seconds:g} s")
    age = look.measures.certificate_age
    if when.certificate_hours is not None and age is not None and age > when.certificate_hours * 3600:
        told_ = f"the last clean verification of all tables began {age / 3600:.1f} h ago"
        yield Condition(Kind.CERTIFICATE, "", told_, remedy="migrate verify")


def _of_blockers(settings: Settings, look: Look) -> Iterator[Condition]:
    when = settings.alarms.when
    for one in blockers.of_stream(settings, look.now):
        made = partial(_of_blocker, one)
        if one.kind is Held.STOPPED and when.stopped_seconds is not None:
            kind = Kind.BLOCKED if stop_reason.is_partition(one.subject) else Kind.STOPPED
            yield made(kind, when.stopped_seconds)
        elif one.kind is Held.TOPIC_GONE and when.stopped_seconds is not None:
            yield made(Kind.STOPPED, when.stopped_seconds)
        elif one.kind in (Held.NO_PUBLISHER, Held.NO_CONSUMER) and when.missing_seconds is not None:
            name = process_names.publisher(one.subject) if one.subject else process_names.CONSUME
            yield Condition(Kind.MISSING, name, f"no {name} runs", when.missing_seconds, "migrate run")
        elif one.kind is Held.SOURCE_UNREACHABLE and when.unreachable_seconds is not None:
            yield made(Kind.UNREACHABLE, when.unreachable_seconds)
    for one in look.held:
        if one.kind is Held.NOT_CARRYING and when.missing_seconds is not None:
            yield Condition(Kind.MISSING, "reverse", told(one), when.missing_seconds, "migrate --reverse run")
    if when.unreachable_seconds is not None and look.now.unanswered:
        message = "; ".join(look.now.unanswered)
        yield Condition(Kind.UNREACHABLE, "", message, when.unreachable_seconds, "migrate preflight")


def _of_blocker(one: Blocker, kind: Kind, seconds: float) -> Condition:
    remedy = str(one.remedy) if one.remedy else _STATUS
    message = told(one)
    if one.kind is Held.STOPPED:  # its reason may name a row's key, which is not for a service elsewhere
        message = f"{one.subject} is stopped ({one.facts['code'] or 'unknown'}): `migrate status` says why"
    return Condition(kind, one.subject[:255], message, seconds, remedy)


def _counts(settings: Settings, look: Look) -> Iterator[Condition]:
    when, now = settings.alarms.when, look.now
    for kind, count, most, what, remedy in (
        (Kind.DIFFERENT, now.differing, when.differences, "row that differs", "migrate verify --repair"),
        (Kind.PARKED, now.parked, when.parked, "parked change", "migrate parked list"),
        (Kind.LEFT_OUT, now.left_out_since + now.oversized_since, when.left_out, "message or row left out", _STATUS),
        (Kind.FOREIGN, now.foreign, when.foreign, "row written by no stream", "migrate foreign list"),
        (Kind.LOST, len(now.lost), when.losses, "server or table that came back with less", _STATUS),
    ):
        if most is not None and count >= most:
            yield Condition(kind, "", f"{count} × {what}", remedy=remedy)
    repaired = ((now.check or {}).get("last") or {}).get("repaired", 0)
    if when.differences is not None and repaired >= when.differences:
        yield Condition(Kind.DIFFERENT, "check", f"the last check repaired {counted(repaired, 'row')} that differed")


def _margins(settings: Settings, look: Look) -> Iterator[Condition]:
    """What runs out soon."""
    when, now, margins = settings.alarms.when, look.now, look.margins
    for where, free in margins.free.items():
        if when.free_bytes is not None and free < when.free_bytes:
            limit = f"below {when.free_bytes / _GIB:,.1f} GiB"
            message = f"{where}: {free / _GIB:,.1f} GiB free on the disk of its data, {limit}"
            yield Condition(Kind.DISK, where, message, remedy="migrate doctor")
    if when.retention_share is None:
        return
    waits = {one.name: (f"source '{one.name}'", one.lag_seconds) for one in now.sources}
    waits[KAFKA] = ("Kafka", now.lag_of_consumers)
    for name, (where, seconds) in waits.items():
        kept = margins.kept.get(name)
        if kept is not None and seconds > kept * when.retention_share:
            message = f"{where} keeps its log for {duration(kept)}, and what waits there is {duration(seconds)} old"
            yield Condition(Kind.RETENTION, name, message)


def _remembered(settings: Settings, memory: Memory, at: datetime) -> Iterator[Condition]:
    """What happened at one time, and what has not happened for long."""
    when, held = settings.alarms.when, settings.alarms.event_seconds
    for (kind, subject), seen in memory.items():
        if seen.changed is None:
            continue
        seconds = (at - seen.changed).total_seconds()
        if kind == Kind.NO_PROGRESS:
            most = when.no_progress_seconds
            if most is not None and seen.value and seconds >= most:
                yield Condition(
                    Kind.NO_PROGRESS, "", f"changes wait, and none came on for {counted(int(seconds), 'second')}"
                )
        elif kind == Kind.TAKEOVER and when.takeovers and seconds < held:
            yield Condition(Kind.TAKEOVER, subject, f"the lease {subject} went to another machine, {seen.value}")
        elif kind == Kind.FAILOVER and when.failovers and seconds < held:
            yield Condition(Kind.FAILOVER, subject, f"source '{subject}' is another server now")
