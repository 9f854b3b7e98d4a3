"""`migrate throttle`: what a copy may use, and what running copies do; also how far they are, for `migrate status`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa

from migrate.copy.governor import limits_of, most_chunks
from migrate.copy.throttle import Limits
from migrate.model.errors import ConfigError
from migrate.model.table import TableId
from migrate.model.times import in_utc
from migrate.settings import Settings
from migrate.state import copy_progress, database, throttle
from migrate.state import part as parts
from migrate.state.copy_progress import COPIED, Progress, skew_of
from migrate.state.throttle import AskedLimits
from migrate.target.routing import Plan

_SILENT = 10.0
"""A copy that has noted nothing for so many seconds does not run; it does so every second."""
_CHUNKS = ("chunks", "min_chunks")


@dataclass(frozen=True, slots=True)
class RunningCopy:
    """How far the copy of one table is."""

    progress: Progress
    updated: str
    running: bool
    places: Mapping[str, int]
    group: str
    part: str = ""  # the condition of the rows that are being copied again, which alone are counted; "" for the table

    def as_dict(self) -> dict[str, Any]:
        progress = self.progress
        measured = [dict(zip(("server", "signal", "value", "note"), one, strict=True)) for one in self.measured]
        figures = {
            "seconds_left": progress.seconds_left if self.running else None,
            "skew": skew_of(self.places, self.group),
        }
        seen = {"running": self.running, "updated": self.updated, "part": self.part}
        return {**asdict(progress), **figures, **seen, "measured": measured, "places": dict(self.places)}

    @property
    def measured(self) -> list[list[Any]]:
        found: list[list[Any]] = json.loads(self.progress.measured)
        return found


@dataclass(frozen=True, slots=True)
class Throttle:
    """limits: that count now; asked: those of them that were asked for; copies: of running copies, by table."""

    limits: Limits
    asked: AskedLimits
    copies: Mapping[str, RunningCopy]

    def as_dict(self) -> dict[str, Any]:
        asked = {name: value for name, value in asdict(self.asked).items() if value is not None and name != "paused"}
        copies = {name: one.as_dict() for name, one in self.copies.items()}
        return {"limits": asdict(self.limits), "asked": asked, "copies": copies}


def change(settings: Settings, state: sa.Engine, changes: Mapping[str, Any], *, reset: bool = False) -> None:
    """Store what running copies and later ones shall keep to, by the names of `AskedLimits`.

    reset: first, all that was asked for before is forgotten. Raises ConfigError for a value that cannot be.
    """
    for name, value in changes.items():
        chunks = name in _CHUNKS
        least, most = int(chunks), most_chunks(settings) if chunks else 10**15
        if not least <= value <= most:
            hint = "connections.per_server in the config allows twice as many sessions" if chunks else ""
            raise ConfigError(f"{_option(name)}: {value:,} is not between {least} and {most:,}", hint=hint)
    with state.begin() as connection:
        before = AskedLimits() if reset else throttle.get(connection, settings.name, lock=True)
        after = limits_of(settings, AskedLimits(**{**asdict(before), **changes}))
        if after.min_chunks > after.chunks:
            raise ConfigError(
                f"at least {after.min_chunks} chunks at a time is above {after.chunks}, the most",
                hint="set both: `migrate throttle --chunks 8 --min-chunks 2`",
            )
        if reset:
            throttle.forget(connection, settings.name)
        if changes:
            throttle.put(connection, settings.name, changes)


def read(settings: Settings, state: sa.Engine, plan: Plan) -> Throttle:
    """What counts now."""
    with state.connect() as connection:
        asked = throttle.get(connection, settings.name)
        running = {
            plan.tables[id_].table.full_name: one for id_, one in copies(connection, plan).items() if one.running
        }
    return Throttle(limits_of(settings, asked), asked, running)


def copies(connection: sa.Connection, plan: Plan) -> dict[TableId, RunningCopy]:
    """How far the copy of each table is that has begun."""
    now = connection.execute(sa.select(database.now)).scalar_one()
    found: dict[TableId, RunningCopy] = {}
    again = parts.every(connection, plan.settings.name)
    for id_, (progress, updated) in copy_progress.every(connection, plan.settings.name).items():
        if id_ not in plan.tables:
            continue
        places = {str(place): 0 for place in plan.tables[id_].places}
        places |= copy_progress.places(connection, plan.settings.name, id_)
        running = progress.pace != COPIED and (now - updated).total_seconds() < _SILENT
        part = again[id_].condition if id_ in again else ""
        found[id_] = RunningCopy(progress, in_utc(updated, "seconds"), running, places, plan.tables[id_].group, part)
    return found


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")
