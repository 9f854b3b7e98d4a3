"""Words for people."""

from __future__ import annotations


def counted(number: int, one: str, many: str = "") -> str:
    """`1 row`, `2 rows`; `many` where it is not the word with an s."""
    return f"{number} {one if number == 1 else many or one + 's'}"
