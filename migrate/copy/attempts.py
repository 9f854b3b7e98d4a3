"""What is known of an attempt at a chunk of a copy: as it is handed out, and as it ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from migrate.chunks.outcome import Problem
from migrate.model.change import Key
from migrate.model.chunk import Chunk
from migrate.state.chunks import CopyCounts


@dataclass(frozen=True, slots=True)
class Attempt:
    """A chunk to be copied now; only this attempt may write it (invariant copy-never-overwrites)."""

    chunk: Chunk
    attempt: int


@dataclass(frozen=True, slots=True)
class ChunkResult:
    """How an attempt ended, as a task tells it; what the state notes of it is a `ChunkCopy`."""

    chunk: int  # its number
    attempt: int
    counts: CopyCounts
    problem: Problem | None = None
    seconds: float = 0.0  # from its first rows to its last commit
    places: Mapping[int, int] = field(default_factory=dict)  # rows by place, as an index
    left_out: Sequence[Key] = ()  # rows that were left out, as another one has a unique value of theirs
