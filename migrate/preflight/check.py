"""What a check declares of itself: its name and group, where it looks, what it needs to know, and what it does."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

from migrate.mysql.connection import Connection
from migrate.preflight.known import KnownFacts
from migrate.preflight.result import Result
from migrate.target.routing import Plan

T = TypeVar("T")


class Group(StrEnum):
    SERVER = "server"
    SCHEMA = "schema"
    CAPACITY = "capacity"
    TOPICS = "topics"


class At(StrEnum):
    """Where a check looks."""

    SOURCE = "source"  # every one
    TARGET = "target"  # every one
    STATE = "state"
    KAFKA = "kafka"
    HERE = "here"  # in no session of its own: at the config, the plan, and what other checks found


class Need(StrEnum):
    """What a check needs before it can run."""

    CONNECTION = "a connection that answers"
    TABLES = "the selected tables of the source"
    PLAN = "a plan"
    STATE_VERSION = "the version of the state database"


CONNECTED = frozenset({Need.CONNECTION})
PLANNED = frozenset({Need.PLAN})
AT_SOURCE = CONNECTED | {Need.TABLES}
AT_SOURCE_PLANNED = AT_SOURCE | PLANNED
AT_TARGET_PLANNED = CONNECTED | PLANNED
AT_STATE_READ = CONNECTED | {Need.STATE_VERSION}


@dataclass(frozen=True, slots=True)
class Visit:
    """What a check is given. name: of the source or target that it looks at."""

    known: KnownFacts
    name: str = ""
    opened: Connection | None = None

    @property
    def connection(self) -> Connection:
        """Raises LookupError in a check that does not declare Need.CONNECTION."""
        if self.opened is None:
            raise LookupError("the check does not declare that it needs a connection")
        return self.opened

    @property
    def plan(self) -> Plan:
        """Raises LookupError in a check that does not declare Need.PLAN."""
        if self.known.plan is None:
            raise LookupError("the check does not declare that it needs a plan")
        return self.known.plan


@dataclass(frozen=True, slots=True, eq=False)
class Subjects(Generic[T]):
    """What of a server a check looks at one by one, such as its tables; an error at one costs that one alone."""

    listed: Callable[[Visit], Iterable[T]]
    named: Callable[[T], str]


def _nothing_apart(_visit: Visit) -> list[None]:
    return [None]


WHOLE: Subjects[None] = Subjects(_nothing_apart, lambda _none: "")
"""A check that looks at a server once."""


@dataclass(frozen=True, slots=True)
class Check:
    """name: as `Result.check` has it. subject: of the result when the check could not look; "": the server."""

    name: str
    group: Group
    at: At
    run: Callable[[Visit, Any], Iterable[Result]]
    needs: frozenset[Need]
    subjects: Subjects[Any] = WHOLE
    subject: str = ""


def declare(
    name: str,
    group: Group,
    at: At,
    run: Callable[[Visit], Iterable[Result]],
    needs: Collection[Need] = CONNECTED,
    *,
    subject: str = "",
) -> Check:
    """A check that looks once."""
    return Check(name, group, at, lambda visit, _none: run(visit), frozenset(needs), subject=subject)


def declare_each(
    name: str,
    group: Group,
    at: At,
    subjects: Subjects[T],
    run: Callable[[Visit, T], Iterable[Result]],
    needs: Collection[Need] = CONNECTED,
) -> Check:
    """A check that looks at each of some subjects by itself."""
    return Check(name, group, at, run, frozenset(needs), subjects)


def by_connection(run: Callable[[Connection], Iterable[Result]]) -> Callable[[Visit], Iterable[Result]]:
    """The function of a check that looks at the session alone."""
    return lambda visit: run(visit.connection)
