"""What a verification task does with one chunk. Plain Python: Spark is the caller's."""

from __future__ import annotations

from dataclasses import dataclass, field

from migrate.chunks.outcome import Problem, TaskStopped, judged
from migrate.chunks.sessions import Sessions, forget, kept
from migrate.chunks.task_settings import for_tasks
from migrate.model.chunk import Chunk
from migrate.settings import Settings
from migrate.target.routing import PlannedTable
from migrate.verify import checksum, digest, target_split
from migrate.verify.checksum import ChunkSum, Form
from migrate.verify.digest import Suspects

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

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", for_tasks(self.settings))


@dataclass(frozen=True, slots=True)
class Checked:
    """One look at one chunk, as a task tells it. How a copy of a chunk ended is a `ChunkResult`."""

    chunk: int
    rows: int = 0  # at the source
    target_rows: int = 0
    suspects: Suspects = field(default_factory=Suspects)
    problem: Problem | None = None


def compare_chunk(job: CheckJob, chunk: Chunk) -> Checked:
    """As `check_chunk`. Raises what it met."""
    checked = check_chunk(job, chunk)
    if checked.problem is not None:
        raise checked.problem.error()
    return checked


def check_chunk(job: CheckJob, chunk: Chunk) -> Checked:
    """Compare one chunk of the sources with its share of every place."""
    planned = job.tables[0]
    try:
        with judged(f"verification of {planned.table.full_name}, chunk {chunk.number}"):
            return _compared(job, kept(job.settings), chunk)
    except TaskStopped as stopped:
        forget()
        return Checked(chunk.number, problem=stopped.problem)


def _compared(job: CheckJob, sessions: Sessions, chunk: Chunk) -> Checked:
    """Range by range, where the target has far more rows than the sources: then it is more than one."""
    planned, twice = job.tables[0], checksum.keys_twice(sessions.source, job.tables, chunk)
    form, *_ = _forms(job, sessions)
    total = checksum.source_total(sessions.source, job.tables, chunk, form)
    page_rows = job.settings.verify.chunk_rows
    rows, target_rows, named = 0, 0, Suspects()
    for part in target_split.parts(sessions.targets, planned, chunk, total[0].rows, page_rows, MAX_BYTES):
        here, there = _part(job, sessions, part, total if part == chunk else None, bool(twice), named)
        rows, target_rows = rows + here, target_rows + there
    for key in twice:
        named.add(key, MAX_SUSPECTS)
    return Checked(chunk.number, rows, target_rows, named)


def _part(
    job: CheckJob,
    sessions: Sessions,
    chunk: Chunk,
    total: tuple[ChunkSum, bool | None] | None,
    differs: bool,
    named: Suspects,
) -> tuple[int, int]:
    """By a sum of each side, and by the keys where those differ, a row is in another table than its own at either side,
    or two tables have one.

    Where rows belong at the sources is asked for only where the sums agree: else each row is looked at by itself, and
    that with it. A row that is misplaced all the while stands in the range at either look, so none goes unnamed.

    total: of the sources, where it is known; named: takes the keys that differ. Returns the rows of either side.
    """
    planned, targets = job.tables[0], sessions.targets
    for form in _forms(job, sessions):
        expected, at_home = total or checksum.source_total(sessions.source, job.tables, chunk, form)
        sums, placed = checksum.target_sums(targets, planned, chunk, form)
        found, total = sum(sums, ChunkSum()), None
        alike = [*(sums if planned.broadcast else [found])]  # each node of a broadcast table has every row
        alike += checksum.mirror_sums(sessions.source, planned, chunk, form)
        if differs:
            break
        if all(one == expected for one in alike):
            there = checksum.all_in_place(targets, planned, chunk) if placed is None else placed
            here = checksum.sources_in_place(sessions.source, job.tables, chunk) if at_home is None else at_home
            if here and there:
                return expected.rows, found.rows
            break
        if any(one.rows != expected.rows for one in alike):
            break
    if not expected.rows and len(named.keys) >= MAX_SUSPECTS:
        named.more += max(one.rows for one in alike)  # all of them are extra: they are not read to be counted
    else:
        mixed = len(sessions.flavours(job.tables)) > 1
        differing = digest.suspects(sessions.source, targets, job.tables, chunk, MAX_SUSPECTS, mixed)
        for key in differing.keys:
            named.add(key, MAX_SUSPECTS)
        named.more += differing.more
    return expected.rows, found.rows


def _forms(job: CheckJob, sessions: Sessions) -> list[Form]:
    json_types = job.json_types or job.settings.verify.json_types
    return checksum.forms(job.tables[0].table, sessions.flavours(job.tables), json_types=json_types)
