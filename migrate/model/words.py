"""Words for people."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil


def counted(number: int, one: str, many: str = "") -> str:
    """`1 row`, `2 rows`; `many` where it is not the word with an s."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def some(names: Sequence[str], most: int) -> str:
    """`a, b`, or the first of them and how many are left: `a, b and 3 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def duration(seconds: float) -> str:
    """`40 s`, `12 min`, `3.5 h`."""
    if seconds < 90:
        return f"{ceil(seconds)} s"
    return f"{ceil(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
