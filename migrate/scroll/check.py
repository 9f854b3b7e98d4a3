"""What a verification task does with one chunk. Plain Python: Spark is the caller's."""

from __future__ import annotations

from dataclasses import dataclass, field

from migrate.scroll import digest
from migrate.scroll.digest import Suspects
from migrate.scroll.keyrange import KeyRange
from migrate.scroll.outcome import Problem, Stopped, judged
from migrate.scroll.sessions import forget, kept
from migrate.settings import Settings
from migrate.target.plan import PlannedTable

MAX_SUSPECTS = 2000
"""Keys named by one chunk at a look; a chunk with more is looked at again as a whole."""


@dataclass(frozen=True)
class CheckJob:
    """What tasks need to check chunks of one table; travels in their closure."""

    settings: Settings
    planned: PlannedTable


@dataclass(frozen=True, slots=True)
class Checked:
    """One look at one chunk."""

    chunk: int
    rows: int = 0  # at the source
    target_rows: int = 0
    suspects: Suspects = field(default_factory=Suspects)
    problem: Problem | None = None


def check_chunk(job: CheckJob, key_range: KeyRange) -> Checked:
    """Compare one chunk of the source with its share of every place."""
    planned = job.planned
    try:
        with judged(f"verification of {planned.table.full_name}, chunk {key_range.number}"):
            sessions = kept(job.settings)
            source = sessions.source(planned.table.source)
            expected = digest.source_sums(source, planned, key_range)
            found = digest.target_sums(sessions.targets, planned, key_range)
            rows, target_rows = sum(share.rows for share in expected), sum(share.rows for share in found)
            places = [place for place, share in enumerate(expected) if share != found[place]]
            if not places:
                return Checked(key_range.number, rows, target_rows)
            named = digest.suspects(source, sessions.targets, planned, key_range, places, MAX_SUSPECTS)
            return Checked(key_range.number, rows, target_rows, named)
    except Stopped as stopped:
        forget()
        return Checked(key_range.number, problem=stopped.problem)
