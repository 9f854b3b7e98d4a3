"""Waiting for servers that are away or busy, with a limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import pymysql
import structlog

from migrate.chunks.outcome import AttemptEnd, Problem, may_pass
from migrate.model.errors import MigrateError, ServerError
from migrate.mysql import errors
from migrate.settings import Settings

T = TypeVar("T")
log = structlog.get_logger("migrate.copy")
_ROUNDS = 10
"""Failures in a row before it gives up."""


class Retries:
    """Tries again with back-off, as `consume.retry_seconds` and `retry_max_seconds` say.

    Args: what: for messages, e.g. "copy of a.t"; reset: forgets sessions whose state is unknown.
    """

    def __init__(
        self, settings: Settings, what: str, reset: Callable[[], None], sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._first = settings.consume.retry_seconds
        self._most = settings.consume.retry_max_seconds
        self._what = what
        self._reset = reset
        self._sleep = sleep
        self._failures = 0

    def call(self, step: Callable[[], T]) -> T:
        """Do a step on the servers. Raises what does not pass; ServerError when it went on too long."""
        while True:
            try:
                result = step()
            except (pymysql.MySQLError, ConnectionError, TimeoutError, ServerError) as error:
                self._reset()
                told = error if isinstance(error, MigrateError) else errors.explain(error, self._what)
                if not may_pass(error):
                    raise told from error
                self.wait(told)
            else:
                return result

    def wait(self, reason: MigrateError) -> None:
        """Wait after a failure, longer each time. Raises ServerError when there were too many in a row."""
        self._failures += 1
        if self._failures > _ROUNDS:
            hint = "check that source and targets answer, then run it again"
            raise ServerError(f"{self._what} gives up: {reason.message}", hint=hint)
        seconds = min(self._most, self._first * 2 ** (self._failures - 1))
        log.warning("waits", what=self._what, seconds=seconds, reason=reason.message)
        self._sleep(seconds)

    def judge(self, problems: Sequence[Problem], *, succeeded: bool) -> None:
        """Take in how a round of chunks ended; waits when none succeeded.

        Raises the first problem that no retry mends.
        """
        for problem in problems:
            if problem.end is not AttemptEnd.AGAIN:
                raise problem.error()
        if succeeded:
            self._failures = 0
        elif problems:
            self.wait(problems[0].error())
