"""The errors this service raises on purpose.

    MigrateError               one line for a person, a hint on the way out, an exit code
    ├── ConfigError            the config file is wrong (exit 2)
    ├── PreflightError         a server or table does not meet what the migration needs (exit 3)
    ├── ServerError            a server refused us, or the connection broke (exit 4); retried in place
    ├── StopError              something unknown was met; nothing is skipped (invariant unknown-stops; exit 5)
    ├── OwnershipLost          another process holds our lease now (exit 6)
    ├── CutoverAborted         a cutover did not come to its switch, and writes are given back (exit 7)
    └── DifferenceFound        verification found differences (exit 1)

Anything else that escapes is a defect.
"""

from __future__ import annotations

import traceback
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, NamedTuple


class MigrateError(Exception):
    """An error with a message for people and a hint that names the way out."""

    exit_code: ClassVar[int] = 70
    usual: ClassVar[str] = "nothing was lost; docs/reference.md lists the exit codes"
    """The way out where an error has no hint of its own."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.given = hint
        """The hint of this error alone, for another one that is raised in its place; "" where it has none."""

    @property
    def hint(self) -> str:
        """What a person is shown; never empty."""
        return self.given or self.usual

    def __str__(self) -> str:
        return f"{self.message} ({self.given})" if self.given else self.message

    def hint_and(self, more: str) -> str:
        """The hint of its own, and behind it a further way out."""
        return f"{self.given}; {more}" if self.given else more


def defect(error: BaseException) -> str:
    """Kind and place of an error that nobody raised on purpose; its text may hold a row's values."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {'/'.join(Path(frames[-1].filename).parts[-3:])}:{frames[-1].lineno}" if frames else ""
    return f"a defect of this program: {type(error).__name__}{where}"


class DifferenceFound(MigrateError):  # noqa: N818 - what it says is the outcome, not a fault
    exit_code = 1
    usual = "`migrate explain TABLE KEY` shows a row at both sides, `migrate verify --repair` repairs what differs"


class ConfigError(MigrateError):
    exit_code = 2
    usual = (
        "fix it in the config file or on the command line: config/example.yaml lists every setting, docs/sharding.md"
        " the sharding rules, `migrate COMMAND --help` the options"
    )


class PreflightError(MigrateError):
    exit_code = 3
    usual = "fix it and try again; `migrate preflight` names everything that is missing"


class ServerError(MigrateError):
    exit_code = 4
    usual = "check that the server answers, and try again; `migrate preflight` checks every server"


class ReadAgain(ServerError):  # noqa: N818 - what it says is what follows
    """Nothing was written of a partition, and nobody has to do anything: it is read again at once."""

    usual = "nothing has to be done: the partition is read again at once; `migrate status` shows what it waits for"


class Code(StrEnum):
    """What kind of thing stopped for good: for programs that watch, which do not read the sentence."""

    LOG = "log"  # an event of a source's log that is unknown, or not as it should be
    POSITION = "position"  # there is no place in a source's log to go on from
    STATEMENT = "statement"  # a logged statement may change a selected table, or was logged in place of rows
    DEFINITION = "definition"  # a table's definition cannot be read, or does not fit
    VALUE = "value"  # a value that cannot be carried or compared exactly
    SIZE = "size"  # a row or a transaction that is too large for Kafka
    ROUTE = "route"  # the sharding rule has no place for a row
    MESSAGE = "message"  # a message that cannot be read, or is not believed
    TOPIC = "topic"  # Kafka lost messages, or a topic is not the one that it was
    TARGET = "target"  # a target refuses a row, or lacks what it had
    SOURCE = "source"  # what a source is to be asked for cannot be asked
    SIDE = "side"  # applications are at the other side, or who may write is not known
    SERVER = "server"  # a server does not do what it must
    KEY = "key"  # a key that cannot be acted on
    STOPPED = "stopped"  # what was waited for has stopped
    DEFECT = "defect"  # of this program


class LogPlace(NamedTuple):
    """Of an event in a source's log."""

    source: str
    file: str
    pos: int  # behind the event

    def __str__(self) -> str:
        return f"source '{self.source}' {self.file}:{self.pos}"


class StopError(MigrateError):
    exit_code = 5
    code: Code = Code.DEFECT
    """Each that is raised says its own; a test sees to it."""
    usual = (
        "nothing is skipped: what stopped continues from the same place once this is fixed; `migrate status` names the"
        " next command, docs/resume.md the ways out"
    )

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        code: Code | None = None,
        where: LogPlace | None = None,
        refused_offset: int | None = None,
    ) -> None:
        """where: the place in a source's log that the text names. refused_offset: of the message of Kafka that is
        refused, which a person may leave out."""
        super().__init__(message, hint=hint)
        if code is not None:
            self.code = code
        self.where = where
        self.refused_offset = refused_offset

    def place(self, where: LogPlace) -> None:
        """Name the place in the log that was read when it was raised."""
        self.message = f"{where}: {self.message}"
        self.where = where


class CutoverAborted(MigrateError):  # noqa: N818 - what it says is the outcome
    exit_code = 7
    usual = "applications write where they wrote before; fix what prevented the switch, and try again"


class OwnershipLost(MigrateError):  # noqa: N818 - as above
    exit_code = 6
    usual = "the process that took over continues; there is nothing to do"
