"""What holds a migration back, as values; `migrate.status.told` has the sentence for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from migrate.model.command import Command, Direction

WATCH = Command.of("status --watch")
"""Where nothing is to be done but to wait."""
FOREIGN = Command.of("foreign compare")
PARKED = Command.of("parked list")
PREFLIGHT = Command.of("preflight")
DRAIN = Command.of("drain")
VERIFY = Command.of("verify")
REPAIR = Command.of("verify --repair")
INIT = Command.of("init")
RUN = Command.of("run")
COPY = Command.of("copy")


class Kind(StrEnum):
    """The values are what `migrate status --json` shows."""

    # of a stream
    STOPPED = "stopped"  # a process, or a partition of the consumer, stopped for good
    SOURCE_UNREACHABLE = "source unreachable"
    NOT_BEGUN = "not begun"  # no publisher has begun with a source
    TOPIC_GONE = "topic gone"
    NO_ANSWER = "no answer"  # of Kafka or a target
    NO_PUBLISHER = "no publisher"
    NO_CONSUMER = "no consumer"
    REPLAYING = "replaying"
    BEHIND = "behind"
    EMPTY_DELETES = "empty deletes"
    MARKERS = "markers"
    OUTDATED = "outdated"  # keys that the update-time filter skipped
    PARKED = "parked"
    SKIPPED = "skipped"
    TABLE_NOT_READY = "table not ready"
    # of a stream, until a verification
    SERVER_IN_DOUBT = "server in doubt"
    FOREIGN = "foreign writes"
    LOST = "lost writes"
    DIFFERENT = "different"
    MESSAGES_LEFT_OUT = "messages left out"
    ROWS_LEFT_OUT = "rows left out"
    # of a migration
    ADDED_WAITING = "added, waiting"
    ADDED_JOINING = "added, joining"
    NOT_COPIED = "not copied"
    COPY_RUNS = "copy runs"
    UNVERIFIED = "unverified"
    VERIFIED_TOO_LONG_AGO = "verified too long ago"
    TRIGGER = "trigger"
    UNLIKE = "unlike"  # a target table cannot hold its rows as the source has them
    CASCADES = "cascades"  # rows that a foreign key changes, and that no marker follows
    WRITABLE_AGAIN = "writable again"
    RUN_SWITCHED = "cutover switched"
    RUN_OPEN = "cutover open"
    WRITES_STOPPED = "writes stopped"
    NOT_FOLLOWED = "not followed"
    STILL_RUNS = "still runs"
    NEVER_APPLIED = "never applied"
    # of the reverse stream
    SOURCE_MOVED = "source moved"
    REFUSED = "refused"
    NOT_THERE = "not there"
    NOT_RUNNING = "not running"
    NOT_CARRYING = "not carrying"  # it is not there, or does not run, while applications are at the targets


@dataclass(frozen=True, slots=True)
class Blocker:
    """subject: what it is about by name: a process, a source, a topic, a side. facts: what its sentence says of it.
    remedy: the command that goes on from there; None where others come first. stream: that it holds, where it is not
    the one that is asked about."""

    kind: Kind
    subject: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    remedy: Command | None = None
    stream: Direction | None = None

    def towards(self, stream: Direction) -> Blocker:
        return replace(self, stream=stream)

    def as_dict(self) -> dict[str, Any]:
        """For programs, without its remedy: how that is typed depends on who leads (`next_step.typed_remedy`)."""
        return {
            "kind": self.kind.value,
            "subject": self.subject,
            "facts": dict(self.facts),
            "stream": self.stream.name.lower() if self.stream else "",
        }
