"""Looks that are made up: a migration of which all is well, and what differs from that."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from migrate.model import process_names
from migrate.settings import Settings
from migrate.state.lease import LastHolder
from migrate.status.look import Look
from migrate.status.measures import Measures
from migrate.status.snapshot import PartitionStatus, Snapshot, SourceStatus
from migrate.status.stage import Stage
from tests.helpers import make_settings

AT = datetime(2026, 1, 31, 12)  # noqa: DTZ001 - as the state has it
RECEIVER = {"name": "one", "webhook": "http://127.0.0.1:1/"}


def settings_of(name: str = "m", **when: Any) -> Settings:
    """Without a wait before an alarm, unless `when` has one."""
    at_once = dict.fromkeys(("missing_seconds", "unreachable_seconds"), 0)
    return make_settings(name=name, alarms={"to": [RECEIVER], "when": {**at_once, **when}, "event_seconds": 900})


def well(name: str = "m", **changes: Any) -> Look:
    """changes: of the snapshot."""
    leading = dict.fromkeys((*process_names.SINGLE, process_names.publisher("s")), "here:1")
    now = Snapshot(
        name,
        ["t"],
        sources=[SourceStatus("s", "log.000001:400", "log.000001:400", True, "", "db:3306")],
        partitions=[PartitionStatus("t", 0, 5, 5, 5, 9, "here:2")],
        leading=leading,
    )
    leases = {name: LastHolder(holder, 1) for name, holder in leading.items()}
    return Look(replace(now, **changes), Stage.READY, [], Measures(leases=leases, failovers={"s": 0}))


def with_measures(look: Look, **changes: Any) -> Look:
    return replace(look, measures=replace(look.measures, **changes))
