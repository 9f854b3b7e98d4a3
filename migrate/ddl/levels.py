"""How much a statement takes of a server: the algorithm and the lock, from the lightest to the heaviest.

MySQL manual, "Online DDL Operations" and "ALTER TABLE Statement"; MariaDB documentation, "InnoDB Online DDL Overview".
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Algorithm(StrEnum):
    INSTANT = "instant"
    INPLACE = "inplace"
    COPY = "copy"


class Lock(StrEnum):
    NONE = "none"  # others read and write meanwhile
    SHARED = "shared"  # others read
    EXCLUSIVE = "exclusive"


class Level(NamedTuple):
    """As the two clauses are written. "" for an algorithm that the server leaves nobody to choose."""

    algorithm: str
    lock: str

    @property
    def told(self) -> str:
        if not self.algorithm:
            return "not chosen"
        return f"{self.algorithm}, lock {self.lock.lower()}" if self.lock else self.algorithm


LEVELS = (
    Level("INSTANT", ""),
    Level("NOCOPY", "NONE"),  # MariaDB alone: in place, without a new clustered index
    Level("INPLACE", "NONE"),
    Level("INPLACE", "SHARED"),
    Level("INPLACE", "EXCLUSIVE"),
    Level("COPY", "NONE"),  # MariaDB from 11.2 on
    Level("COPY", "SHARED"),
    Level("COPY", "EXCLUSIVE"),
    Level("", ""),
)
AT_ONCE = Level("-", "")
"""Of what is no ALTER: it takes the table for a moment, however many rows there are."""
_WHOSE = {"INSTANT": Algorithm.INSTANT, "NOCOPY": Algorithm.INPLACE, "INPLACE": Algorithm.INPLACE}
_ALGORITHMS, _LOCKS = tuple(Algorithm), tuple(Lock)


def needs(level: Level) -> tuple[Algorithm, Lock]:
    """What has to be allowed for it."""
    if level == AT_ONCE:
        return Algorithm.INSTANT, Lock.NONE
    if not level.algorithm:  # it may be any
        return Algorithm.COPY, Lock.EXCLUSIVE
    return _WHOSE.get(level.algorithm, Algorithm.COPY), Lock(level.lock.lower() or "none")


@dataclass(frozen=True, slots=True)
class Allowance:
    """What may be taken at most."""

    algorithm: Algorithm = Algorithm.INPLACE
    lock: Lock = Lock.NONE

    def allows(self, level: Level) -> bool:
        algorithm, lock = needs(level)
        return _ALGORITHMS.index(algorithm) <= _ALGORITHMS.index(self.algorithm) and _LOCKS.index(lock) <= _LOCKS.index(
            self.lock
        )

    def __str__(self) -> str:
        return f"{self.algorithm} {self.lock}"

    @classmethod
    def of(cls, text: str) -> Allowance:
        """From how it is stored."""
        algorithm, lock = text.split()
        return cls(Algorithm(algorithm), Lock(lock))


def from_level(level: Level) -> tuple[Level, ...]:
    """It, and those that are heavier."""
    return LEVELS[LEVELS.index(level) :] if level in LEVELS else (level,)
