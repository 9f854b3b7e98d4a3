"""What is known of an attempt at a chunk of a copy: as it is handed out, as it ends, and once it is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from migrate.chunks.keyrange import KeyRange
from migrate.chunks.outcome import Problem
from migrate.model.change import Key
from migrate.state.chunks import Counts


@dataclass(frozen=True, slots=True)
class Attempt:
    """A chunk to be copied now; only this attempt may write it (invariant copy-never-overwrites)."""

    range: KeyRange
    attempt: int


@dataclass(frozen=True, slots=True)
class Finished:
    """A chunk that is done."""

    range: KeyRange
    attempt: int
    counts: Counts


@dataclass(frozen=True, slots=True)
class ChunkResult:
    chunk: int
    attempt: int
    counts: Counts
    problem: Problem | None = None
    seconds: float = 0.0  # from its first rows to its last commit
    places: Mapping[int, int] = field(default_factory=dict)  # rows by place, as an index
    left_out: Sequence[Key] = ()  # rows that were left out, as another one has a unique value of theirs
