"""What is exported is what docs/metrics.md lists, in a form that Prometheus's own tool takes."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from migrate.state import check, stop_reason
from migrate.state.lease import LastHolder
from migrate.state.verification import FinishedVerification
from migrate.status import exported
from migrate.status.blocker import Blocker, Kind
from migrate.status.look import Look
from migrate.status.measures import Measures
from migrate.status.snapshot import PartitionStatus, Snapshot, SourceStatus
from migrate.status.stage import Stage
from migrate.status.table_state import TableState
from migrate.status.verdict import Verdict, verdict
from sandbox.binaries import promtool

PAGE = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"
_ROW = re.compile(r"^\| `(migrate_\w+)` \| (\w+) \| (.*?)\| \S", re.M)
_AT = datetime(2026, 1, 31, 12)  # noqa: DTZ001 - as the state has it


def full() -> Look:
    """With something of everything."""
    now = Snapshot(
        "shop",
        ["t"],
        sources=[SourceStatus("main", "log.000003:1000", "log.000003:4711", False, "", "db:3306", lag_seconds=2.5)],
        partitions=[PartitionStatus("t", 0, 5, 12, 5, 9, "host:1"), PartitionStatus("t", 1, 0, 0, 0, 0)],
        tables={"shop.a": TableState.COPYING},
        halted=[{"process": "check"}, {"process": stop_reason.of_partition("t", 1)}],
        parked=3,
        outdated=6,
        lag_seconds=4.0,
        leading={"publish:main": "host:2"},
        copies={"shop.a": {"rows_read": 7, "rows_estimate": 90, "bytes_read": 800, "running": True}},
    )
    measures = Measures(
        {"done": 2},
        {"commit": LastHolder("host:3", 4)},
        {"main": 1},
        FinishedVerification(1, _AT, _AT, 1, 50, 2, 0),
        60.0,
        90.0,
        check.FinishedCheck(_AT, 1.5, check.CheckCounts(1, 1, 0, 0)),
        30.0,
        {"there": 0.4},
    )
    return Look(now, Stage.COPYING, [Blocker(Kind.PARKED), Blocker(Kind.BEHIND), Blocker(Kind.BEHIND)], measures)


class Once:
    """These families, as a collector."""

    def __init__(self, found: Iterable[Metric]) -> None:
        self._found = list(found)

    def collect(self) -> Iterable[Metric]:
        return self._found


def text_of(found: Iterable[Metric]) -> str:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Once(found))
    return generate_latest(registry).decode()


def values(text: str) -> dict[tuple[str, ...], float]:
    """Of each sample, by name and the values of its labels in their order by name, without the migration's."""
    return {
        (sample.name, *(value for name, value in sample.labels.items() if name != "migration")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def listed(page: str) -> set[tuple[str, str, tuple[str, ...]]]:
    """(name, type, labels) of each metric of a page."""
    return {(name, kind, tuple(re.findall(r"`(\w+)`", labels))) for name, kind, labels in _ROW.findall(page)}


def described(found: Iterable[Metric]) -> set[tuple[str, str, tuple[str, ...]]]:
    names: set[tuple[str, str, tuple[str, ...]]] = set()
    for one in found:
        labels: Any = getattr(one, "_labelnames")  # noqa: B009 - of families alone
        total = "_total" if one.type == "counter" else ""
        names.add((f"{one.name}{total}", one.type, tuple(name for name in labels if name != "migration")))
    return names


def test_the_page_lists_what_a_migration_exports_with_type_and_labels() -> None:
    section = PAGE.read_text("utf-8").partition("## Of a process")[0]
    assert listed(section) == described(exported.families(full()))


def test_each_value_is_that_of_the_snapshot() -> None:
    found = values(text_of(exported.families(full())))
    wanted = {
        ("migrate_snapshot_up",): 1,
        ("migrate_stage", "copying"): 1,
        ("migrate_stage", "created"): 0,
        ("migrate_blockers", "behind"): 2,
        ("migrate_blockers", "parked"): 1,
        ("migrate_blockers", "stopped"): 0,
        ("migrate_needs_person",): 1,
        ("migrate_lag_seconds",): 4,
        ("migrate_source_lag_seconds", "main"): 2.5,
        ("migrate_source_behind_bytes", "main"): 3711,
        ("migrate_source_failovers_total", "main"): 1,
        ("migrate_partition_waiting_messages", "0", "t"): 7,
        ("migrate_partition_owned", "0", "t"): 1,
        ("migrate_partition_owned", "1", "t"): 0,
        ("migrate_partition_stopped", "0", "t"): 0,
        ("migrate_partition_stopped", "1", "t"): 1,
        ("migrate_partition_changes_total", "0", "t"): 9,
        ("migrate_parked_changes",): 3,
        ("migrate_outdated_keys",): 6,
        ("migrate_process_running", "publish:main"): 1,
        ("migrate_process_running", "commit"): 0,
        ("migrate_process_stopped", "check"): 1,
        ("migrate_leases_taken_total", "commit"): 4,
        ("migrate_freeze_seconds", "there"): 0.4,
        ("migrate_tables", "copying"): 1,
        ("migrate_copy_chunks", "done"): 2,
        ("migrate_copy_rows", "shop.a"): 7,
        ("migrate_copy_estimated_rows", "shop.a"): 90,
        ("migrate_verification_age_seconds",): 60,
        ("migrate_verification_differences",): 2,
        ("migrate_certificate_age_seconds",): 90,
        ("migrate_check_age_seconds",): 30,
    }
    assert {key: found.get(key) for key in wanted} == wanted
    assert ("migrate_process_stopped", stop_reason.of_partition("t", 1)) not in found


def test_what_is_not_known_has_no_sample() -> None:
    """Not 0, which would be a fact."""
    source = SourceStatus("main", "binlog.000001:1000", "binlog.000003:400", False, "", "db:3306")
    found = values(text_of(exported.families(Look(Snapshot("shop", [], [source]), None, [], Measures()))))
    names = {name for name, *_ in found}
    assert "migrate_lag_seconds" in names
    unknown = {"source_behind_bytes", "certificate_age_seconds", "verification_differences", "check_seconds", "stage"}
    assert not names & {f"migrate_{one}" for one in unknown}


PROMTOOL = promtool()


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (Debian: prometheus)")
def test_promtool_finds_nothing_wrong_with_the_names() -> None:
    text = text_of(exported.families(full()))
    told = subprocess.run([str(PROMTOOL), "check", "metrics"], input=text, capture_output=True, text=True, timeout=60)
    assert (told.returncode, told.stdout + told.stderr) == (0, "")


@pytest.mark.parametrize(
    ("kinds", "wanted"),
    [
        ([], Verdict.FINE),
        ([Kind.COPY_RUNS, Kind.BEHIND, Kind.UNVERIFIED], Verdict.FINE),
        ([Kind.STOPPED], Verdict.PERSON),
        ([Kind.NOT_RUNNING], Verdict.FINE),
        ([Kind.NOT_CARRYING], Verdict.PERSON),
        ([Kind.BEHIND, Kind.PARKED], Verdict.PERSON),
        ([Kind.NO_ANSWER], Verdict.UNKNOWN),
        ([Kind.SOURCE_UNREACHABLE, Kind.BEHIND], Verdict.UNKNOWN),
        ([Kind.NO_ANSWER, Kind.FOREIGN], Verdict.PERSON),  # what is known counts
    ],
)
def test_whether_a_person_is_needed(kinds: list[Kind], wanted: Verdict) -> None:
    assert verdict([Blocker(kind) for kind in kinds]) is wanted
