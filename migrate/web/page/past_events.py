"""What happened when, as far as the state has it: newest first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from migrate.model.times import in_utc
from migrate.state.cutover import CutoverRun, SwitchDirection
from migrate.status.look import Look
from migrate.status.snapshot import Snapshot
from migrate.verify.certificate import verdict
from migrate.web.page.details import Details

MOST = 40


class Event(NamedTuple):
    """at: UTC as text, which sorts by time; what: a sentence."""

    at: str
    what: str


def events(look: Look, details: Details) -> list[Event]:
    """The newest MOST."""
    found = [*_of_switch(details), *_of_verifications(details), *_of_alarms(details), *_of_actions(details)]
    for now in (look.now, *([look.reverse] if look.reverse else [])):
        found += _of_processes(now)
    return sorted(found, reverse=True)[:MOST]


def run_name(run: CutoverRun) -> str:
    return f"{'cutover' if run.direction is SwitchDirection.TO_TARGETS else 'rollback'} {run.number}"


def _of_switch(details: Details) -> Iterator[Event]:
    run, switch = details.run, details.switch
    if run is not None:
        yield Event(in_utc(run.started, "seconds"), f"{run_name(run)} began")
        if run.finished is not None:
            froze = "" if run.freeze_seconds is None else f"; nobody could write for {run.freeze_seconds:.1f} s"
            yield Event(in_utc(run.finished, "seconds"), f"{run_name(run)} is {run.outcome.value}{froze}")
    if switch.changed is not None:
        told = f"the switch has version {switch.version}: {switch.side.value}, {switch.writes.value}"
        yield Event(in_utc(switch.changed, "seconds"), told)


def _of_verifications(details: Details) -> Iterator[Event]:
    for one in details.certificates:
        at = f"{str(one['finished']).partition('.')[0].partition('+')[0]}+00:00"
        yield Event(at, f"verification {one['verification']} of {one['migration']} ended: {verdict(one)}")


def _of_alarms(details: Details) -> Iterator[Event]:
    for one in details.alarms:
        if one.raised is not None:
            yield Event(in_utc(one.raised, "seconds"), f"alarm: {one.message}")
        if one.resolved is not None:
            yield Event(in_utc(one.resolved, "seconds"), f"alarm is over: {one.message}")


def _of_actions(details: Details) -> Iterator[Event]:
    for one in details.actions:
        yield Event(in_utc(one.began, "seconds"), f"{one.operator} began `{one.command}` from the page")
        if one.ended is not None:
            told = f"`{one.command}` of {one.operator} ended with exit code {one.exit_code}"
            yield Event(in_utc(one.ended, "seconds"), told)


def _of_processes(now: Snapshot) -> Iterator[Event]:
    for one in now.halted:
        yield Event(str(one["since"]), f"{one['process']} of {now.migration} stopped: {one['reason']}")
    for ended in now.endings:
        yield Event(str(ended["at"]), f"{ended['process']} of {now.migration} ended: {ended['reason']}")
