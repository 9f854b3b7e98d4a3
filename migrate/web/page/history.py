"""The status once a minute, as the state keeps it: written by one web server, read by every one."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from migrate.settings import Settings
from migrate.state import finished, status_history
from migrate.state import migration as migrations
from migrate.state.status_history import KEPT_MINUTES, PastStatus, StatusSample
from migrate.status.look import Look
from migrate.status.verdict import verdict

SAMPLE_SECONDS = 60.0
_LONGEST = 255  # of a command


@dataclass(frozen=True, slots=True)
class KnownMigration:
    """A migration of the state database. last: its newest samples, oldest first; none where no web server of it ran
    lately."""

    name: str
    is_reverse: bool
    is_finished: bool
    last: Sequence[PastStatus] = ()


def sample(look: Look) -> StatusSample:
    """What is kept of a look."""
    now = look.now
    return StatusSample(
        stage=look.stage.value if look.stage else "",
        lag_seconds=now.lag_seconds,
        changes=now.rows_applied,
        waiting=now.waiting_messages,
        blockers=len(look.held),
        verdict=verdict(look.held).name.lower(),
        next_command=str(look.next or "")[:_LONGEST],
    )


class History:
    """Of one migration; what was read once is not asked for again."""

    def __init__(self, settings: Settings, state: sa.Engine) -> None:
        self._name = settings.name
        self._state = state
        self._known: list[PastStatus] = []
        self._one_reads = threading.Lock()

    def note(self, look: Look) -> None:
        """Keep a look as that of this minute; of a finished migration nothing is kept."""
        with self._state.begin() as connection:
            if finished.find(connection, self._name) is None:
                status_history.note(connection, self._name, sample(look))

    def read(self) -> Sequence[PastStatus]:
        """Of the last days, oldest first."""
        with self._one_reads:
            last = self._known[-1].minute if self._known else 0
            with self._state.connect() as connection:
                found = [*self._known, *status_history.every(connection, self._name, last)]
            oldest = found[-1].minute - KEPT_MINUTES if found else 0
            self._known = [one for one in found if one.minute > oldest]
            return tuple(self._known)


def every_migration(state: sa.Engine) -> list[KnownMigration]:
    """By name; a reverse stream behind its migration."""
    with state.connect() as connection:
        latest = status_history.latest(connection)
        columns = migrations.table.c
        rows = connection.execute(sa.select(columns.name, columns.reverse_of, columns.finished).order_by(columns.name))
        return [KnownMigration(row[0], bool(row[1]), row[2] is not None, latest.get(row[0], ())) for row in rows]


def of_migration(state: sa.Engine, name: str) -> Sequence[PastStatus]:
    """The history of any migration, oldest first."""
    with state.connect() as connection:
        return tuple(status_history.every(connection, name))
