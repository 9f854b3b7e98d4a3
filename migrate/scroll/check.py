"""What a verification task does with one chunk. Plain Python: Spark is the caller's."""

from __future__ import annotations

from dataclasses import dataclass, field

from migrate.scroll import digest, screen
from migrate.scroll.digest import Suspects
from migrate.scroll.keyrange import KeyRange
from migrate.scroll.outcome import Problem, Stopped, judged
from migrate.scroll.sessions import Sessions, forget, kept
from migrate.settings import Settings
from migrate.target.plan import PlannedTable

MAX_BYTES = 256 * 1024 * 1024
"""Of a chunk's rows: a server digests it in one statement, and is not to be silent for minutes."""
MAX_SUSPECTS = 2000
"""Keys named by one chunk at a look; a chunk with more is looked at again as a whole."""


@dataclass(frozen=True)
class CheckJob:
    """What tasks need to check chunks of one table; travels in their closure."""

    settings: Settings
    tables: tuple[PlannedTable, ...]  # all that share their places: one, or those of a group
    json_types: bool = False  # JSON documents by the types of their scalars too, whatever the setting is


@dataclass(frozen=True, slots=True)
class Checked:
    """One look at one chunk."""

    chunk: int
    rows: int = 0  # at the source
    target_rows: int = 0
    suspects: Suspects = field(default_factory=Suspects)
    problem: Problem | None = None


def compare_chunk(job: CheckJob, key_range: KeyRange) -> Checked:
    """As `check_chunk`. Raises what it met."""
    checked = check_chunk(job, key_range)
    if checked.problem is not None:
        raise checked.problem.error()
    return checked


def check_chunk(job: CheckJob, key_range: KeyRange) -> Checked:
    """Compare one chunk of the sources with its share of every place."""
    planned = job.tables[0]
    try:
        with judged(f"verification of {planned.table.full_name}, chunk {key_range.number}"):
            return _compared(job, kept(job.settings), key_range)
    except Stopped as stopped:
        forget()
        return Checked(key_range.number, problem=stopped.problem)


def _compared(job: CheckJob, sessions: Sessions, key_range: KeyRange) -> Checked:
    """By a sum of each side, and by the keys where those differ, a row is at another place, or two tables have one."""
    planned, targets = job.tables[0], sessions.targets
    flavours = sessions.flavours(job.tables)
    twice = screen.keys_twice(sessions.source, job.tables, key_range)
    json_types = job.json_types or job.settings.verify.json_types
    for form in screen.forms(planned.table, flavours, json_types=json_types):
        expected = screen.source_total(sessions.source, job.tables, key_range, form)
        found, placed = screen.target_total(targets, planned, key_range, form)
        if twice:
            break
        if expected == found:
            if screen.all_in_place(targets, planned, key_range) if placed is None else placed:
                return Checked(key_range.number, expected.rows, found.rows)
            break
        if expected.rows != found.rows:
            break
    named = digest.suspects(sessions.source, targets, job.tables, key_range, MAX_SUSPECTS, len(flavours) > 1)
    for key in twice:
        named.add(key, MAX_SUSPECTS)
    return Checked(key_range.number, expected.rows, found.rows, named)
