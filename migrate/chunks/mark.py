"""What a chunk's frame says about the chunk itself, between its rows: that it ended, or why it could not."""

from __future__ import annotations

import json
from dataclasses import dataclass

from migrate.chunks.outcome import AttemptEnd, Problem


@dataclass(frozen=True, slots=True)
class ChunkMark:
    """The end of a chunk's rows with what was read, or a problem."""

    rows: int = 0
    bytes: int = 0
    problem: Problem | None = None

    def dump(self) -> str:
        if self.problem is None:
            return json.dumps({"rows": self.rows, "bytes": self.bytes})
        problem = self.problem
        return json.dumps({"end": problem.end, "message": problem.message, "hint": problem.hint})


def load(text: str) -> ChunkMark:
    raw = json.loads(text)
    if "end" in raw:
        return ChunkMark(problem=Problem(AttemptEnd(raw["end"]), raw["message"], raw["hint"]))
    return ChunkMark(int(raw["rows"]), int(raw["bytes"]))
