"""Words for people."""

from __future__ import annotations

from math import ceil


def counted(number: int, one: str, many: str = "") -> str:
    """`1 row`, `2 rows`; `many` where it is not the word with an s."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def duration(seconds: float) -> str:
    """`40 s`, `12 min`, `3.5 h`."""
    if seconds < 90:
        return f"{ceil(seconds)} s"
    return f"{ceil(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
