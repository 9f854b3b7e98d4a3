"""All that a page of a migration is made of, as values: rendering asks nobody."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from migrate.model.command import Command, as_typed
from migrate.state.status_history import PastStatus
from migrate.state.switch import Side
from migrate.status import told
from migrate.status.blocker import Blocker
from migrate.status.look import Look
from migrate.status.next_step import typed, typed_remedy
from migrate.status.snapshot import PartitionStatus, Snapshot
from migrate.status.stage import Stage
from migrate.status.table_state import TableState
from migrate.status.verdict import Verdict, verdict
from migrate.web.page.details import Details
from migrate.web.page.past_events import Event, events
from migrate.web.page.plots import Span

_LINE = tuple(stage for stage in Stage if stage is not Stage.REVERSED)
PLACES = 12
"""Of a table, that are shown with their rows."""
_RATE_SECONDS = (10.0, 600.0)
"""Between the two counts that a rate is made of, at least and at most."""
_JUDGED = {
    Verdict.FINE: "no person is needed",
    Verdict.PERSON: "a person is needed",
    Verdict.UNKNOWN: "a server does not answer",
}


@dataclass(frozen=True, slots=True)
class ShownBlocker:
    """One blocker as it is shown: what is so, and the command that ends it as it is typed."""

    kind: str
    told: str
    remedy: str


@dataclass(frozen=True, slots=True)
class StageMark:
    """One stage of the line."""

    name: str
    is_past: bool
    is_current: bool


@dataclass(frozen=True, slots=True)
class TableRow:
    """copy: how far it is, as `migrate status --json` has it. compared: its part of the newest certificate that names
    it, with the verification's number and end."""

    name: str
    state: str
    copy: Mapping[str, Any] | None
    compared: Mapping[str, Any] | None

    @property
    def is_done(self) -> bool:
        """Whether it is copied, and no certificate says that it differs."""
        differs = self.compared is not None and (self.compared["differences"] or self.compared["in_motion"])
        return self.state == TableState.COPIED and not differs

    @property
    def places(self) -> list[tuple[str, int]]:
        """Rows that the copy inserted, by place: the fullest ones."""
        found: Mapping[str, int] = self.copy["places"] if self.copy else {}
        return sorted(found.items(), key=lambda one: -one[1])[:PLACES]


@dataclass(frozen=True, slots=True)
class View:
    """at: when the look ended, UTC. history: oldest first. interval: seconds between two looks while a page is open."""

    look: Look
    at: datetime
    details: Details
    history: Sequence[PastStatus]
    span: Span = Span.DAY
    interval: float = 5.0

    @property
    def now(self) -> Snapshot:
        return self.look.now

    @property
    def streams(self) -> list[Snapshot]:
        return [self.now, *([self.look.reverse] if self.look.reverse is not None else [])]

    @property
    def judged(self) -> tuple[str, str]:
        """Whether a person is needed: a word, and a sentence."""
        found = verdict(self.look.held)
        return found.name.lower(), _JUDGED[found]

    @property
    def stages(self) -> list[StageMark]:
        """The line of stages; none of a reverse stream alone."""
        current = self.look.stage
        if current is None:
            return []
        line = [Stage.REVERSED if stage is Stage.SWITCHED and current is Stage.REVERSED else stage for stage in _LINE]
        here = line.index(current)
        return [StageMark(stage.value, at < here, at == here) for at, stage in enumerate(line)]

    @property
    def held(self) -> list[ShownBlocker]:
        return [ShownBlocker(one.kind.value, told.told(one), self._remedy(one)) for one in self.look.held]

    @property
    def next(self) -> str:
        return str(self.look.next or "")

    @property
    def rate(self) -> float | None:
        """Changes applied a second since the last sample that is old enough; None where there is none."""
        at = self.at.replace(tzinfo=None)
        for past in reversed(self.history):
            seconds, applied = (at - past.at).total_seconds(), self.now.rows_applied - past.sample.changes
            if seconds > _RATE_SECONDS[1] or applied < 0:
                return None
            if seconds >= _RATE_SECONDS[0]:
                return applied / seconds
        return None

    @property
    def events(self) -> list[Event]:
        return events(self.look, self.details)

    def tables(self, now: Snapshot) -> list[TableRow]:
        """Those first that are not copied, or differ: of many tables only the first are shown."""
        rows = [
            TableRow(name, state.value, now.copies.get(name), self._compared(now.migration, name))
            for name, state in now.tables.items()
        ]
        return sorted(rows, key=lambda row: row.is_done)

    def partitions(self, now: Snapshot) -> list[PartitionStatus]:
        """Those first that nobody works on, or that have messages waiting."""
        return sorted(now.partitions, key=lambda one: (bool(one.owner), -one.waiting))

    def meant(self, now: Snapshot) -> Callable[[str], str]:
        """Gives the commands that a hint about a stream quotes the direction in which they are typed."""
        back = self.is_back(now)
        return lambda hint: as_typed(hint, lambda command: typed(command, back=back, back_leads=self._back_leads))

    def command(self, text: str, now: Snapshot) -> str:
        """One command about a stream, as it is typed."""
        return str(typed(Command.of(text), back=self.is_back(now), back_leads=self._back_leads))

    @property
    def _back_leads(self) -> bool:
        return self.details.switch.side is Side.TARGET

    def is_back(self, now: Snapshot) -> bool:
        return self.details.is_reverse or now is self.look.reverse

    def _remedy(self, one: Blocker) -> str:
        return typed_remedy(one, back=self.details.is_reverse, back_leads=self._back_leads)

    def _compared(self, migration: str, name: str) -> Mapping[str, Any] | None:
        for certificate in self.details.certificates:
            for table in certificate["tables"] if certificate["migration"] == migration else ():
                if name in _names(table):
                    return {**table, "finished": certificate["finished"], "verification": certificate["verification"]}
        return None


def _names(table: Mapping[str, Any]) -> set[str]:
    """What a snapshot calls the table, or the tables of a group, of a certificate's part."""
    names, sources = (str(table[part]).split(" + ") for part in ("table", "source"))
    return {*names, *(f"{source}/{name}" for source in sources for name in names)}
