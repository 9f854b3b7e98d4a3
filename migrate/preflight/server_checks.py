"""The checks at one server: the error of one becomes a result of its own, and the others run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TypeVar

import pymysql

from migrate.model.errors import MigrateError
from migrate.mysql.connection import Connection, connect
from migrate.mysql.errors import explain, number, unreachable
from migrate.preflight.limits import TOO_LONG, TOOK_LONG
from migrate.preflight.result import Result, Verdict
from migrate.settings import Server

_ENDED = frozenset({1927, 4031})
"""Connection was killed (MariaDB), the client was disconnected for its silence (MySQL)."""
T = TypeVar("T")


class ServerChecks:
    """One session at a server, in which checks run; what they find is added to `results`.

    A server that does not answer is one result, and is noted in `away`. A session that is lost is opened again, once:
    the check that was running is the only one that could not look.
    """

    def __init__(
        self,
        server: Server,
        answers: tuple[str, str],
        where: str,
        results: list[Result],
        away: set[str],
        *,
        strict: bool = False,
    ) -> None:
        """answers: check and subject of the result when the server does not answer, as "target", "t0". where: the
        server's name in results, as "target 't0'". strict: raise what a check meets. Raises ServerError when strict.
        """
        self._server, self._answers, self._strict = server, answers, strict
        self._results, self._away = results, away
        self.where = where
        self._connection: Connection | None = None
        self._reopened = False
        if self.where in away:
            return
        try:
            self._connection = connect(server, self.where)
        except MigrateError as error:
            if strict:
                raise
            self._give_up(error.message, error.hint)

    def run(self, check: str, look: Callable[[Connection], Iterable[Result]], subject: str = "") -> None:
        """Add what one check finds; nothing when the server does not answer. subject: what of the server the check
        looks at, such as a table."""
        if self._connection is not None:
            with self._guarded(self._connection, check, subject):
                for one in look(self._connection):
                    self._results.append(one)  # one by one: what was found before an error stays

    @contextmanager
    def _guarded(self, connection: Connection, check: str, subject: str) -> Iterator[None]:
        try:
            yield
        except (pymysql.MySQLError, OSError) as error:
            found = could_not(connection, check, subject, error)
            if self._strict:
                raise explain(error, self.where) from error
            if lost(connection, error) and not self._reopen():
                self._give_up(f"{found.message}; nothing else was looked at there", found.mend)
            else:
                self._results.append(found)
        except MigrateError as error:
            if self._strict:
                raise
            self._results.append(Result(check, subject or self.where, Verdict.UNKNOWN, error.message, error.given))

    def _reopen(self) -> bool:
        self.close()
        if self._reopened:
            return False
        self._reopened = True
        try:
            self._connection = connect(self._server, self.where)
        except MigrateError:
            return False
        return True

    def _give_up(self, message: str, hint: str) -> None:
        self._results.append(Result(*self._answers, Verdict.UNKNOWN, message, hint))
        self._away.add(self.where)
        self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> ServerChecks:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def lost(connection: Connection, error: BaseException) -> bool:
    """Whether the session is gone, so that everything else in it would fail too."""
    return not connection.open or unreachable(error) or number(error) in _ENDED


def could_not(connection: Connection, check: str, subject: str, error: BaseException) -> Result:
    """What a check met, with its name, the server's and what it was about."""
    told = explain(error, f"{connection.name}, check '{check}'{' of ' if subject else ''}{subject}")
    mend = TOOK_LONG if number(error) in TOO_LONG else told.hint
    return Result(check, subject or connection.name, Verdict.UNKNOWN, told.message, mend)


def each(
    connection: Connection,
    check: str,
    subjects: Iterable[T],
    look: Callable[[T], Iterable[Result]],
    name: Callable[[T], str] = str,
) -> Iterator[Result]:
    """Run a check for each subject; an error at one is a result, unless the session is lost. Raises its error then."""
    for subject in subjects:
        try:
            yield from look(subject)
        except (pymysql.MySQLError, OSError) as error:
            if lost(connection, error):
                raise
            yield could_not(connection, check, name(subject), error)


def once(results: Iterable[Result]) -> list[Result]:
    """Of a check that was run for each table: what is not as it should be, or one line that passes."""
    found = list(results)
    return [one for one in found if one.verdict is not Verdict.PASS] or found[:1]
