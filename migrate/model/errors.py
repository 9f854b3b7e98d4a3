"""The errors this service raises on purpose.

    MigrateError               one line for a person, a hint on the way out, an exit code
    ├── ConfigError            the config file is wrong (exit 2)
    ├── PreflightError         a server or table does not meet what the migration needs (exit 3)
    ├── ServerError            a server refused us, or the connection broke (exit 4); retried in place
    ├── StopError              rule 13: something unknown was met; nothing is skipped (exit 5)
    ├── OwnershipLost          another process holds our lease now (exit 6)
    ├── CutoverAborted         a cutover did not come to its switch, and writes are given back (exit 7)
    └── DifferenceFound        verification found differences (exit 1)

Anything else that escapes is a defect.
"""

from __future__ import annotations

from typing import ClassVar


class MigrateError(Exception):
    """An error with a message for people and a hint that names the way out."""

    exit_code: ClassVar[int] = 70

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message

    def hint_and(self, more: str) -> str:
        """The hint, and behind it a further way out."""
        return f"{self.hint}; {more}" if self.hint else more


class DifferenceFound(MigrateError):  # noqa: N818 - what it says is the outcome, not a fault
    exit_code = 1


class ConfigError(MigrateError):
    exit_code = 2


class PreflightError(MigrateError):
    exit_code = 3


class ServerError(MigrateError):
    exit_code = 4


class StopError(MigrateError):
    exit_code = 5


class CutoverAborted(MigrateError):  # noqa: N818 - what it says is the outcome
    exit_code = 7


class OwnershipLost(MigrateError):  # noqa: N818 - as above
    exit_code = 6
