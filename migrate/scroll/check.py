"""What a verification task does with one chunk. Plain Python: Spark is the caller's."""

from __future__ import annotations

from dataclasses import dataclass, field

from migrate.model.change import Key
from migrate.scroll import digest, screen
from migrate.scroll.digest import Suspects
from migrate.scroll.keyrange import KeyRange
from migrate.scroll.outcome import Problem, Stopped, judged
from migrate.scroll.sessions import Sessions, forget, kept
from migrate.settings import Settings
from migrate.target.plan import PlannedTable

MAX_SUSPECTS = 2000
"""Keys named by one chunk at a look; a chunk with more is looked at again as a whole."""


@dataclass(frozen=True)
class CheckJob:
    """What tasks need to check chunks of one table; travels in their closure."""

    settings: Settings
    tables: tuple[PlannedTable, ...]  # all that share their places: one, or those of a group


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
            return (_one_by_sum if len(job.tables) == 1 else _by_places)(job, kept(job.settings), key_range)
    except Stopped as stopped:
        forget()
        return Checked(key_range.number, problem=stopped.problem)


def _one_by_sum(job: CheckJob, sessions: Sessions, key_range: KeyRange) -> Checked:
    """One table: by a sum of each side, and by the keys where those differ or a row is at another place."""
    (planned,) = job.tables
    source, targets = sessions.source(planned.table.source), sessions.targets
    flavours = sessions.flavours(job.tables)
    for form in screen.forms(planned.table, flavours, json_types=job.settings.verify.json_types):
        expected = screen.source_total(source, planned, key_range, form)
        found, placed = screen.target_total(targets, planned, key_range, form)
        if expected == found:
            if screen.all_in_place(targets, planned, key_range) if placed is None else placed:
                return Checked(key_range.number, expected.rows, found.rows)
            break
        if expected.rows != found.rows:
            break
    everywhere, mixed = range(len(planned.places)), len(flavours) > 1
    named = digest.suspects(sessions.source, targets, job.tables, key_range, everywhere, MAX_SUSPECTS, mixed)
    return Checked(key_range.number, expected.rows, found.rows, named)


def _by_places(job: CheckJob, sessions: Sessions, key_range: KeyRange) -> Checked:
    """Tables of a group: by a sum of each place, and the keys that two of the tables have."""
    planned, twice = job.tables[0], set[Key]()
    mixed = sessions.mixed(job.tables)
    expected = digest.source_sums(sessions.source, job.tables, key_range, twice, mixed)
    found = digest.target_sums(sessions.targets, planned, key_range, mixed)
    rows, target_rows = sum(share.rows for share in expected), sum(share.rows for share in found)
    places = [place for place, share in enumerate(expected) if share != found[place]]
    if not places and not twice:
        return Checked(key_range.number, rows, target_rows)
    named = digest.suspects(sessions.source, sessions.targets, job.tables, key_range, places, MAX_SUSPECTS, mixed)
    for key in twice:
        named.add(key, MAX_SUSPECTS)
    return Checked(key_range.number, rows, target_rows, named)
