"""What became of one attempt at one chunk, as it travels from a task to the driver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

import pymysql
import structlog

from migrate.model.errors import MigrateError, OwnershipLost, ServerError, StopError
from migrate.mysql import errors

log = structlog.get_logger("migrate.copy")


class AttemptEnd(StrEnum):
    DONE = "done"
    AGAIN = "again"  # a new attempt with a new read: the server was away or busy, or a commit's outcome is unknown
    LOST = "lost"  # a later attempt took over
    FAILED = "failed"  # nothing that a new attempt would mend (invariant unknown-stops)


@dataclass(frozen=True, slots=True)
class Problem:
    end: AttemptEnd
    message: str
    hint: str = ""

    def error(self) -> MigrateError:
        """The problem as an error of this process."""
        kinds = {AttemptEnd.AGAIN: ServerError, AttemptEnd.LOST: OwnershipLost, AttemptEnd.FAILED: StopError}
        return kinds[self.end](self.message, hint=self.hint)


def tell_not_copied(table: str, error: Exception) -> None:
    """Log why a table is not copied while the others are. table: its full name."""
    defect = None if isinstance(error, MigrateError) else error
    log.error("a table is not copied", table=table, reason=str(error) if defect is None else "", exc_info=defect)


class TaskStopped(Exception):  # noqa: N818 - it stops a task, and is not an error of this process
    """A problem on its way up inside a task."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


@contextmanager
def judged(what: str) -> Iterator[None]:
    """Turn any known error inside into `TaskStopped`; `what` names table and chunk.

    Defects pass as they are.
    """
    try:
        yield
    except (MigrateError, pymysql.MySQLError, ConnectionError, TimeoutError) as error:
        raise TaskStopped(judge(error, what)) from error


def judge(error: Exception, what: str) -> Problem:
    """What an error means for the attempt."""
    if isinstance(error, OwnershipLost):
        return Problem(AttemptEnd.LOST, error.message, error.given)
    if isinstance(error, MigrateError):
        return Problem(
            AttemptEnd.AGAIN if may_pass(error) else AttemptEnd.FAILED, f"{what}: {error.message}", error.given
        )
    if may_pass(error):
        return Problem(AttemptEnd.AGAIN, f"{what}: {errors.text(error)}")
    return Problem(
        AttemptEnd.FAILED, f"{what}: {errors.text(error)}", "fix the row or the target table, then run it again"
    )


def may_pass(error: BaseException) -> bool:
    """Whether trying again later makes sense: not for a wrong password, though that is a ServerError too."""
    if isinstance(error, ServerError):
        return error.__cause__ is None or errors.passes(error.__cause__)
    return errors.passes(error)
