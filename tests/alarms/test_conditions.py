"""What is an alarm, of each kind, and what is none."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from migrate.alarms.conditions import Condition, Kind, conditions, remembered, untold
from migrate.model import process_names
from migrate.settings import Settings
from migrate.state import stop_reason
from migrate.state.lease import LastHolder
from migrate.state.reached import LostMessages
from migrate.status.blocker import Blocker
from migrate.status.blocker import Kind as Held
from migrate.status.look import Look
from migrate.status.margins import Margins
from migrate.status.snapshot import PartitionStatus
from tests.alarms.looks import AT, settings_of, well, with_measures
from tests.test_hints import missing

LEASE = process_names.publisher("s")


def found(settings: Settings, *looks: Look, seconds: float = 10.0) -> list[Condition]:
    """By the last of these looks, so many seconds apart."""
    memory: Any = {}
    at = AT
    for look in looks:
        at += timedelta(seconds=seconds)
        memory = remembered(memory, look, at)
    return list(conditions(settings, looks[-1], memory, at))


def halted(process: str) -> Look:
    one = {"process": process, "reason": 'key ["canary"] is refused', "code": "target", "since": "", "at": ""}
    return well(halted=[one])


def behind(**partition: Any) -> Look:
    return well(partitions=[replace(PartitionStatus("t", 0, 5, 9, 5, 9, "here:2"), **partition)])


def moved(holder: str) -> Look:
    look = well()
    return with_measures(look, leases={**look.measures.leases, LEASE: LastHolder(holder, 2)})


def margins(
    free: dict[str, int] | None = None, kept: dict[str, float] | None = None, source: float = 0, consumers: float = 0
) -> Look:
    """source, consumers: seconds that what waits there is old."""
    look = well(sources=[replace(well().now.sources[0], lag_seconds=source)], lag_of_consumers=consumers)
    return replace(look, margins=Margins(free or {}, kept or {}))


PARTITION = stop_reason.of_partition("t", 0)
LEADING = well().now.leading
CASES: list[tuple[str, list[Look], Kind, str]] = [
    ("a partition is stopped", [halted(PARTITION)], Kind.BLOCKED, PARTITION),
    ("a process stopped", [halted("check")], Kind.STOPPED, "check"),
    ("a topic is gone", [well(gone={"t"})], Kind.STOPPED, "t"),
    ("no publisher", [well(leading={k: v for k, v in LEADING.items() if k != LEASE})], Kind.MISSING, LEASE),
    ("no committer", [well(leading={k: v for k, v in LEADING.items() if k != "commit"})], Kind.MISSING, "commit"),
    ("no consumer", [well(partitions=[PartitionStatus("t", 0, 5, 5, 5, 9)])], Kind.MISSING, "consume"),
    ("no reverse stream", [replace(well(), held=[Blocker(Held.NOT_CARRYING)])], Kind.MISSING, "reverse"),
    ("a source is away", [well(sources=[replace(well().now.sources[0], problem="away")])], Kind.UNREACHABLE, "s"),
    ("a target is away", [well(unanswered=["target 't0': away"])], Kind.UNREACHABLE, ""),
    ("a full disk", [margins(free={"target 't0'": 2**31 - 1})], Kind.DISK, "target 't0'"),
    ("the binlog is purged soon", [margins(kept={"s": 599.0}, source=300.0)], Kind.RETENTION, "s"),
    ("Kafka's messages are purged soon", [margins(kept={"kafka": 599.0}, consumers=300.0)], Kind.RETENTION, "kafka"),
    ("it is behind", [well(lag_seconds=301.0)], Kind.LAG, ""),
    ("nothing comes on", [behind()] * 70, Kind.NO_PROGRESS, ""),
    ("the check found a difference", [well(differing=1)], Kind.DIFFERENT, ""),
    ("the check repaired one", [well(check={"last": {"repaired": 1}})], Kind.DIFFERENT, "check"),
    ("a change is parked", [well(parked=1)], Kind.PARKED, ""),
    ("a message is left out", [well(left_out=1, left_out_since=1)], Kind.LEFT_OUT, ""),
    ("a row is left out", [well(oversized=[{"verified": False}])], Kind.LEFT_OUT, ""),
    ("a foreign write", [well(foreign=3)], Kind.FOREIGN, ""),
    ("a server came back with less", [well(lost=[LostMessages(("t0", "d0"), "t [0]", 1, 2, 2)])], Kind.LOST, ""),
    ("another machine has a lease", [well(), moved("there:1")], Kind.TAKEOVER, LEASE),
    ("a failover", [well(), with_measures(well(), failovers={"s": 1})], Kind.FAILOVER, "s"),
    ("a certificate is old", [with_measures(well(), certificate_age=90_000.0)], Kind.CERTIFICATE, ""),
]


@pytest.mark.parametrize(("looks", "kind", "subject"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_each_kind_is_told_alone(looks: list[Look], kind: Kind, subject: str) -> None:
    told = found(settings_of(certificate_hours=24), *looks)
    assert [(one.kind, one.subject) for one in told] == [(kind, subject)]
    assert told[0].remedy.startswith("migrate ")
    assert missing(told[0].remedy) == [], "a command that is there"
    assert "canary" not in told[0].message, "a row's key is for nobody elsewhere"


def test_every_kind_has_a_case() -> None:
    assert {kind for _, _, kind, _ in CASES} | {Kind.TEST} == set(Kind)


@pytest.mark.parametrize(
    "looks",
    [
        [well()],
        [well(lag_seconds=299.0)],
        [well()] * 100,  # idle, and nothing waits
        [*[well()] * 100, behind()],  # what waits has just come
        [behind(consumed=number, end=number + 4) for number in range(100)],
        [well(left_out=2)],  # verified since
        [well(oversized=[{"verified": True}])],
        [with_measures(well(), failovers={"s": 1})],  # from before the first look
        [moved("there:1")],
        [well(), moved("here:7")],  # a restart
        [well(), moved("there:1"), *[moved("there:1")] * 95],  # long over
        [with_measures(well(), certificate_age=80_000.0)],
        [margins(free={"target 't0'": 2**31})],
        [margins(kept={"s": 601.0, "kafka": 601.0}, source=300.0, consumers=300.0)],
        [margins(source=1e6, consumers=1e6)],  # kept until somebody purges it
    ],
)
def test_what_is_well_is_not_told(looks: list[Look]) -> None:
    assert found(settings_of(certificate_hours=24), *looks) == []


def test_each_kind_can_be_turned_off() -> None:
    off: dict[str, Any] = dict.fromkeys(
        ("stopped_seconds", "missing_seconds", "unreachable_seconds", "lag_seconds", "no_progress_seconds")
    )
    off |= dict.fromkeys(("differences", "parked", "left_out", "foreign", "losses", "certificate_hours"))
    off |= dict.fromkeys(("free_bytes", "retention_share"))
    off |= {"takeovers": False, "failovers": False}
    for _, looks, kind, _ in CASES:
        assert found(settings_of(**off), *looks) == [], kind


def test_what_a_server_that_is_away_would_have_told_is_unknown() -> None:
    assert untold(well()) == frozenset()
    assert {Kind.PARKED, Kind.LOST, Kind.MISSING, Kind.STOPPED} <= untold(well(unanswered=["target 't0': away"]))
    away = replace(well(), margins=Margins(unknown=frozenset({"target 't0'"})))
    assert untold(away) == {Kind.DISK, Kind.RETENTION}
