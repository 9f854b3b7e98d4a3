"""Structured logs on standard error: one line an event, key=value or JSON. Never a password or a row value."""

from __future__ import annotations

import logging
import sys
import traceback
from contextlib import suppress

import structlog

from migrate.model.errors import defect
from migrate.mysql.connection import log_statements
from migrate.settings import Logging
from migrate.terminal import printable


def configure(settings: Logging, process: str) -> None:
    """Set up logging for one process; `process` is named in every line."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s %(message)s", force=True
    )
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if settings.format == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            _logger_name,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _without_values,
            _printable,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(settings.level)),
        logger_factory=_named_logger,
        cache_logger_on_first_use=False,
    )
    structlog.contextvars.clear_contextvars()
    if process:
        structlog.contextvars.bind_contextvars(process=process)
    log_statements(settings.log_sql)


class _Logger(structlog.PrintLogger):
    """A line that nobody can take, as a terminal or a pipe is gone, ends no process."""

    def __init__(self, name: str) -> None:
        super().__init__(sys.stderr)
        self.name = name

    def msg(self, message: str) -> None:
        with suppress(OSError):
            super().msg(message)

    log = debug = info = warn = warning = msg
    fatal = failure = err = error = critical = exception = msg


def _named_logger(*args: object) -> _Logger:
    return _Logger(str(args[0]) if args else "migrate")


def _without_values(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Of an error its kind and where it was raised: its text, and the variables there, may hold a row's values."""
    error = event.pop("exc_info", None)
    if isinstance(error, BaseException):
        event["error"] = defect(error)
        event["traceback"] = "".join(traceback.format_tb(error.__traceback__))
    return event


def _printable(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    return {name: printable(value) if isinstance(value, str) else value for name, value in event.items()}


def _logger_name(logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    event["logger"] = getattr(logger, "name", "migrate")
    return event
