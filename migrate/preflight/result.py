"""What a check found: found a problem differs from could not look."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from migrate.model.errors import MigrateError


class Verdict(StrEnum):
    PASS = "pass"  # noqa: S105 - a verdict
    NOTE = "note"  # holds as it is, but should be known
    PROBLEM = "problem"
    UNKNOWN = "could not look"


@dataclass(frozen=True, slots=True)
class Result:
    check: str
    subject: str
    verdict: Verdict
    message: str
    mend: str = ""  # the statement or setting that mends it


def guarded(check: str, subject: str, look: Callable[[], list[Result]]) -> list[Result]:
    """Run one check; an error while looking becomes a result of its own."""
    try:
        return look()
    except MigrateError as error:
        return [Result(check, subject, Verdict.UNKNOWN, error.message, error.hint)]
