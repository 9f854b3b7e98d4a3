"""Trying a target write again, in place: Kafka sends nothing twice by itself (invariant consumed-is-a-prefix)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

import pymysql
import structlog

from migrate.kafka.topic_identity import TopicGone
from migrate.merge.defects import as_stop
from migrate.metrics import shared
from migrate.model.errors import MigrateError, OwnershipLost, ReadAgain, ServerError, StopError
from migrate.mysql import errors as mysql_errors
from migrate.settings import Consume
from migrate.target.owners import RowsNotAsked
from migrate.target.reached import StateBehind
from migrate.target.roles import NoRole

log = structlog.get_logger("migrate.merge")
T = TypeVar("T")


def until_done(
    action: Callable[[], T],
    where: str,
    settings: Consume,
    stop: threading.Event,
    *,
    again: Callable[[], None],
    refused: Callable[[BaseException], MigrateError | None],
) -> T:
    """Run `action` until it succeeds.

    Errors that pass (server away, deadlock, lock wait) are tried again without end, with back-off; a duplicate key,
    which a copy running beside can cause, until `refused_attempts` are over and `refused` finds the change that the
    target does not take. `again` runs before each new attempt; `refused` makes the error, or None when it finds none or
    has dealt with it. Raises: what `refused` makes; OwnershipLost, TopicGone, NoRole, RowsNotAsked, ReadAgain
    and StateBehind as they come; ServerError when `stop` was set. A defect, as any other error, becomes a
    StopError that names the change, or this target.
    """
    pause, refusals = settings.retry_seconds, 0
    while True:
        try:
            return action()
        except (OwnershipLost, TopicGone, NoRole, RowsNotAsked, ReadAgain, StateBehind):
            raise
        except StopError as error:  # a warning, or a value that cannot be written
            if (told := refused(error)) is not None:
                raise told from error
            again()
        except (pymysql.MySQLError, OSError, ServerError) as error:
            passing = isinstance(error, ServerError) or mysql_errors.passes(error)
            if not passing:
                refusals += 1
                if mysql_errors.number(error) != mysql_errors.DUPLICATE_KEY or refusals >= settings.refused_attempts:
                    refusals = 0
                    if (told := refused(error)) is not None:
                        raise told from error
            shared.retried(where)
            log.warning("write failed, trying again", where=where, error=mysql_errors.text(error), pause_seconds=pause)
            again()
            if stop.wait(pause):
                raise ServerError(f"{where}: stopped while a write was being tried again") from error
            pause = min(pause * 2, settings.retry_max_seconds)
        except Exception as error:  # a defect stops what met it, and nothing else
            told = as_stop(error, where)
            again()
            if (named := refused(told)) is not None:
                raise named from error
