"""What a check found: found a problem differs from could not look."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from migrate.model.errors import MigrateError


class Verdict(StrEnum):
    PASS = "pass"  # noqa: S105 - a verdict
    NOTE = "note"  # holds as it is, but should be known
    PROBLEM = "problem"
    UNKNOWN = "could not look"


_MENDS = {
    Verdict.PROBLEM: "fix it at the server or in the config, and run `migrate preflight` again; docs/preflight.md"
    " explains each check",
    Verdict.UNKNOWN: "fix what prevented the check, and run `migrate preflight` again",
}
"""For results of checks that know no statement or setting."""


@dataclass(frozen=True, slots=True)
class Result:
    check: str
    subject: str
    verdict: Verdict
    message: str
    mend: str = ""  # the statement or setting that mends it; a problem always has one

    def __post_init__(self) -> None:
        if not self.mend and self.verdict in _MENDS:
            object.__setattr__(self, "mend", _MENDS[self.verdict])


def guarded(check: str, subject: str, look: Callable[[], list[Result]]) -> list[Result]:
    """Run one check; an error while looking becomes a result of its own."""
    try:
        return look()
    except MigrateError as error:
        return [Result(check, subject, Verdict.UNKNOWN, error.message, error.given)]


def problems(results: Iterable[Result]) -> list[Result]:
    """Those that keep a migration from beginning: what is a problem, and what could not be looked at."""
    return [one for one in results if one.verdict in (Verdict.PROBLEM, Verdict.UNKNOWN)]
