"""What is wrong with one key: a pure function, tested as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from migrate.scroll.lookup import Seen


class Kind(StrEnum):
    MISSING = "missing"  # at no place
    EXTRA = "extra"  # not at the source
    DIFFERENT = "different"  # at its place with other bytes
    MISPLACED = "misplaced"  # at another place than its own
    DUPLICATED = "duplicated"  # at its place, and at another one too


@dataclass(frozen=True, slots=True)
class Verdict:
    kind: Kind
    place: int | None  # where the key belongs, None when the source does not have it
    elsewhere: tuple[int, ...] = ()  # other places that have it


def judge(seen: Seen) -> Verdict | None:
    """The verdict on a key as it was seen on both sides; None when they agree."""
    found = tuple(sorted(seen.targets))
    if seen.source is None:
        return Verdict(Kind.EXTRA, None, found) if found else None
    place, digest = seen.source
    elsewhere = tuple(other for other in found if other != place)
    if place not in seen.targets:
        return Verdict(Kind.MISPLACED if elsewhere else Kind.MISSING, place, elsewhere)
    if seen.targets[place] != digest:
        return Verdict(Kind.DIFFERENT, place, elsewhere)
    return Verdict(Kind.DUPLICATED, place, elsewhere) if elsewhere else None


def follows(seen: Seen, earlier: Sequence[Seen]) -> bool:
    """Whether the target has what the source had at an earlier look: the stream is behind a row that keeps changing."""
    return any(before.source != seen.source and judge(Seen(before.source, seen.targets)) is None for before in earlier)
