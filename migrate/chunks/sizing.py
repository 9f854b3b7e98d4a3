"""How many rows a chunk of the copy should have, by bytes and by time, so that none is a giant one."""

from __future__ import annotations

from migrate.settings import Copy

_NEWEST = 0.3
"""Weight of the chunk that was measured last."""
_FIRST = 5_000
_GROWTH = 2
"""A chunk has at most so many times the rows of the largest before: behind small rows large ones may come."""


class ChunkSize:
    """Learns from finished chunks. row_bytes: what the source's statistics say that a row takes."""

    def __init__(self, copy: Copy, row_bytes: float) -> None:
        self._copy = copy
        self._told = row_bytes
        self._row_bytes = self._row_seconds = 0.0
        self._most = _FIRST

    @property
    def rows(self) -> int:
        """For the next chunk: at least 1, at most `copy.chunk_rows`."""
        rows = float(min(self._copy.chunk_rows, self._most))
        if (row_bytes := max(self._told, self._row_bytes)) > 0:
            rows = min(rows, self._copy.chunk_bytes / row_bytes)
        if self._row_seconds > 0:
            rows = min(rows, self._copy.chunk_seconds / self._row_seconds)
        return max(1, int(rows))

    def note(self, rows: int, size: int, seconds: float) -> None:
        """Take in what a chunk had and how long it took."""
        if not rows:
            return
        self._most = max(self._most, _GROWTH * rows)
        if not self._row_bytes:
            self._row_bytes, self._row_seconds = size / rows, seconds / rows
            return
        self._row_bytes += _NEWEST * (size / rows - self._row_bytes)
        self._row_seconds += _NEWEST * (seconds / rows - self._row_seconds)
