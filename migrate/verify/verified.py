"""What the verification of one table found."""

from __future__ import annotations

from dataclasses import dataclass

from migrate.verify.recheck import Difference


@dataclass(frozen=True, slots=True)
class TableVerified:
    """What the verification of one table found, or of the tables of a group together: then their names."""

    table: str
    source: str
    key: tuple[str, ...]
    columns: tuple[str, ...]
    places: int
    chunks: int
    rows: int  # read at the source
    target_rows: int  # found at the places
    differences: int
    in_motion: int  # keys that kept changing while they were looked at: behind, not different
    named: tuple[Difference, ...] = ()  # at most settings.verify.max_named
    repaired: int = 0  # keys that differed, were refreshed, and agree now
    mended: tuple[Difference, ...] = ()  # what was wrong with those; at most settings.verify.max_named
    seconds: float = 0.0
    unaccounted: tuple[str, ...] = ()  # why rows that agree may not be equal; each counts as a difference too
    nodes: int = 0  # of a broadcast table, at either side: each was compared as a whole; else 0

    @property
    def clean(self) -> bool:
        return self.differences == 0 and self.in_motion == 0
