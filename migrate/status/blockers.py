"""What keeps a stream from being at its target, by what its snapshot shows. Decides only: nothing is asked here."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

from migrate.model import process_names
from migrate.model.command import Command
from migrate.settings import Settings
from migrate.state import stop_reason
from migrate.state.reached import LostMessages
from migrate.status.blocker import DRAIN, FOREIGN, PARKED, PREFLIGHT, REPAIR, VERIFY, WATCH, Blocker, Kind
from migrate.status.snapshot import Snapshot


def of_stream(
    settings: Settings, now: Snapshot, max_lag_seconds: float | None = None, without: Collection[str] = ()
) -> list[Blocker]:
    """max_lag_seconds: of a stream that hurries; None: of one that waits for its merges, as it does before a cutover.
    without: sources that are gone, and not asked about."""
    sources = [one for one in now.sources if one.name not in without]
    halting = {process_names.publisher(name) for name in without}
    found = [_stopped(one) for one in now.halted if one["process"] not in halting]
    found += [Blocker(Kind.SOURCE_UNREACHABLE, one.name, {"reason": one.problem}) for one in sources if one.problem]
    found += [Blocker(Kind.NOT_BEGUN, one.name) for one in sources if not one.published]
    found += [Blocker(Kind.TOPIC_GONE, name) for name in sorted(now.gone)]
    found += no_answer(now)
    found += [
        Blocker(Kind.NO_PUBLISHER, one.name, {"ended": _ended(now, process_names.publisher(one.name))})
        for one in sources
        if process_names.publisher(one.name) not in now.leading
    ]
    if idle := [part for part in now.partitions if not part.owner]:
        found.append(Blocker(Kind.NO_CONSUMER, facts={"partitions": len(idle), "ended": _ended(now, "consume")}))
    found += [Blocker(Kind.REPLAYING, one.name, {"upto": one.replaying}) for one in sources if one.replaying]
    found += _behind(settings, now, max_lag_seconds, without)
    longest = max(settings.delay.tiers_seconds)
    found += _counted(Kind.EMPTY_DELETES, now.empty_deletes, seconds=longest)
    found += _counted(Kind.MARKERS, now.waiting_markers)
    found += _counted(Kind.OUTDATED, now.outdated)
    found += _counted(Kind.PARKED, now.parked, PARKED)
    found += _counted(Kind.SKIPPED, now.skips, PARKED)
    return [_with_remedy(one) for one in [*found, *until_verified(now, without)]]


def until_verified(now: Snapshot, without: Collection[str] = ()) -> list[Blocker]:
    """What stands in the way until a clean verification of all tables that begins after it."""
    found = [
        Blocker(Kind.SERVER_IN_DOUBT, one.name, {"reason": one.doubt}, VERIFY)
        for one in now.sources
        if one.doubt and one.name not in without
    ]
    if not without:
        found += of_foreign(now)
    found += [Blocker(Kind.LOST, one.what, {"lost": str(one)}, of_lost(one)) for one in now.lost]
    found += _counted(Kind.DIFFERENT, now.differing, REPAIR)
    found += _counted(Kind.MESSAGES_LEFT_OUT, now.left_out_since, REPAIR)
    return [*found, *_counted(Kind.ROWS_LEFT_OUT, now.oversized_since, REPAIR)]


def of_foreign(now: Snapshot) -> list[Blocker]:
    return _counted(Kind.FOREIGN, now.foreign, FOREIGN)


def no_answer(now: Snapshot) -> list[Blocker]:
    return [Blocker(Kind.NO_ANSWER, facts={"reason": reason}, remedy=PREFLIGHT) for reason in now.unanswered]


def of_lost(one: LostMessages) -> Command:
    """What brings what a database lost."""
    return Command.of(f"copy --table {one.what} --restart") if one.of_copy else VERIFY


def lag(now: Snapshot, without: Collection[str]) -> float:
    """Seconds, of the sources that are there."""
    return max([now.lag_of_consumers, *(one.lag_seconds for one in now.sources if one.name not in without)])


def _stopped(one: dict[str, Any]) -> Blocker:
    process = str(one["process"])
    remedy = None
    if stop_reason.is_partition(process):
        remedy = PARKED
    elif process == process_names.CHECK:
        remedy = WATCH  # it tries again by itself
    return Blocker(Kind.STOPPED, process, {"reason": one["reason"], "code": one["code"]}, remedy)


def _behind(
    settings: Settings, now: Snapshot, max_lag_seconds: float | None, without: Collection[str]
) -> Iterable[Blocker]:
    seconds, allowed = lag(now, without), max_lag_seconds
    interval = None
    if allowed is None:
        allowed, interval = settings.cutover.max_lag_seconds, settings.consume.merge_interval_seconds
    if seconds > allowed + (interval or 0.0):
        facts = {"seconds": seconds, "allowed_seconds": allowed, "merge_interval_seconds": interval}
        yield Blocker(Kind.BEHIND, facts=facts)


def _counted(kind: Kind, count: int, remedy: Command | None = None, **facts: Any) -> list[Blocker]:
    return [Blocker(kind, facts={"count": count, **facts}, remedy=remedy)] if count else []


def _with_remedy(one: Blocker) -> Blocker:
    """What has no way out of its own passes once everything is at the target."""
    return one if one.remedy else replace(one, remedy=DRAIN)


def _ended(now: Snapshot, process: str) -> list[dict[str, Any]]:
    """How the last one of a process ended, where that is known."""
    return [{"at": one["at"], "reason": one["reason"]} for one in now.ended if one["process"] == process]
