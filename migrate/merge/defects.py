"""A defect that one partition meets stops that partition, by name, and no other one."""

from __future__ import annotations

import pymysql
import structlog
from sqlalchemy.exc import SQLAlchemyError

from migrate.model.errors import Code, MigrateError, StopError, defect

log = structlog.get_logger("migrate.merge")
_HINT = "nothing was written or skipped, it is tried again by itself; please report it with the traceback in the log"


def as_stop(error: Exception, where: str = "") -> StopError:
    """The error itself where it is a StopError; of any other one a StopError, and its traceback in the log.

    Its text is not shown and not logged, as that may hold a row's values. where: what was being done.
    Raises: the error, where a server or another process is the cause.
    """
    if isinstance(error, StopError):
        return error
    if isinstance(error, MigrateError | pymysql.MySQLError | SQLAlchemyError | OSError | MemoryError):
        raise error
    told = defect(error)
    log.error("a defect", where=where, exc_info=error)
    return StopError(f"{where}: {told}" if where else told, hint=_HINT, code=Code.DEFECT)
