"""The rows of a Spark job, or why it has none: Spark lost something, or its machines lack what a rule needs."""

from __future__ import annotations

import re

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, PythonException
from pyspark.sql import DataFrame, Row

from migrate.chunks.outcome import AttemptEnd, Problem
from migrate.model.errors import ConfigError

_UNLIKE = re.compile(rf"^{re.escape(ConfigError.__module__)}\.{ConfigError.__name__}: (.+)$", re.M)
"""With what a worker's traceback ends where it could not build the rule that the driver had built."""


def lost(error: Exception) -> str | None:
    """Why Spark could not run a job, in one line; None when the error is one of our own code."""
    if isinstance(error, PythonException):
        return None
    told = [line.strip().removeprefix(": ") for line in str(error).splitlines() if line.strip()]
    if len(told) > 1 and told[0].startswith("An error occurred while calling"):  # py4j's line, then Java's
        told = [told[1].rpartition("most recent failure: ")[2]]
    return f"Spark: {told[0][:300]}" if told else "Spark could not run the job"


def collected(frame: DataFrame) -> list[Row] | Problem:
    """The rows of a job; where Spark lost a worker or an executor, the problem of every chunk in it, to be tried again.

    Raises: Spark's error when it is one of our own code; ConfigError where a package that a rule needs is not at the
    workers.
    """
    try:
        return frame.collect()
    except (PySparkException, Py4JError) as error:
        if isinstance(error, PythonException) and (unlike := _UNLIKE.search(str(error))):
            raise ConfigError(
                f"at Spark's workers: {unlike[1]}", hint="install the same packages for their Python, then try again"
            ) from error
        if (reason := lost(error)) is None:
            raise
        return Problem(AttemptEnd.AGAIN, reason)
