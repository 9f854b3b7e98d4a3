"""Whether a person is needed, by what holds a migration back."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from migrate.status.blocker import Blocker, Kind


class Verdict(IntEnum):
    """The values are the exit codes of `migrate status --exit-code`."""

    FINE = 0
    PERSON = 1
    UNKNOWN = 2


UNTOLD = frozenset({Kind.NO_ANSWER, Kind.SOURCE_UNREACHABLE})
"""A server does not answer, so that what it would have said is not known."""
PASSING = frozenset(
    {
        Kind.NOT_BEGUN,
        Kind.REPLAYING,
        Kind.BEHIND,
        Kind.EMPTY_DELETES,
        Kind.MARKERS,
        Kind.OUTDATED,
        Kind.TABLE_NOT_READY,
        Kind.ADDED_JOINING,
        Kind.NOT_COPIED,
        Kind.COPY_RUNS,
        Kind.UNVERIFIED,
        Kind.VERIFIED_TOO_LONG_AGO,
        Kind.NOT_FOLLOWED,
        Kind.STILL_RUNS,
        Kind.NOT_THERE,
        Kind.NOT_RUNNING,
    }
)
"""It passes by itself, or is the next step of a migration, which may wait. Whatever else there is needs a person."""


def verdict(held: Iterable[Blocker]) -> Verdict:
    kinds = {one.kind for one in held}
    if kinds - PASSING - UNTOLD:
        return Verdict.PERSON
    return Verdict.UNKNOWN if kinds & UNTOLD else Verdict.FINE
