"""Where a stream stands: the one snapshot that everything else is told from (`snapshot_reading` reads it)."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from migrate.state.reached import LostMessages
from migrate.status.table_state import TableState


@dataclass(slots=True)
class SourceStatus:
    name: str
    published: str  # file:position delivered
    log_end: str  # file:position the source is at; "" when it cannot be asked
    caught_up: bool
    event_time: str
    address: str  # where it is read
    outstanding: dict[str, Any] = field(default_factory=dict)  # what Kafka had not confirmed at the last flush
    lag_seconds: float = 0.0  # of the publisher
    replaying: str = ""  # after a rewind, or a failover without GTID: up to where everything is published again
    problem: str = ""  # why it cannot be asked; empty when it was
    doubt: str = ""  # why a verification is due since the server changed; empty when none is


@dataclass(slots=True)
class PartitionStatus:
    topic: str
    partition: int
    consumed: int  # next offset
    end: int  # the topic's end
    messages: int
    rows: int
    owner: str = ""  # host and process id of the consumer that works on it now; empty when none does

    @property
    def waiting(self) -> int:
        return self.end - self.consumed


@dataclass(slots=True)
class Snapshot:
    migration: str
    topics: list[str]
    sources: list[SourceStatus] = field(default_factory=list)
    partitions: list[PartitionStatus] = field(default_factory=list)
    records: dict[str, int] = field(default_factory=dict)
    empty_deletes: int = 0  # waiting for their delayed message
    waiting_markers: int = 0  # of rows that foreign keys changed: until the copy of their table is closed
    outdated: int = 0  # keys that the update-time filter skipped: until their table is copied and caught up
    parked: int = 0  # changes that the target refuses and that were set aside
    skips: int = 0  # keys of which what is refused is set aside
    left_out: int = 0  # messages that could not be applied and that were left out
    lacking: int = 0  # partitions that a target database has less of than it had: what it lacks comes again
    lost: list[LostMessages] = field(default_factory=list)  # what targets came back without, not verified since
    foreign: int = 0  # keys written at this stream's source while that was standby, or had too late; not compared yet
    differing: int = 0  # keys found different, by the check or a verification, since the last clean one began
    left_out_since: int = 0  # of these, those since the last clean verification of all tables began
    tables: dict[str, TableState] = field(default_factory=dict)  # with its source where others have the name
    halted: list[dict[str, str]] = field(default_factory=list)
    endings: list[dict[str, Any]] = field(default_factory=list)  # the last one of processes that may run again by now
    leading: dict[str, str] = field(default_factory=dict)  # host and process id, by what there is one of at a time
    gone: set[str] = field(default_factory=set)  # topics that the broker does not have
    oversized: list[dict[str, Any]] = field(default_factory=list)  # rows left out of the stream; verified: found equal
    lag_seconds: float = 0.0
    lag_of_consumers: float = 0.0  # seconds, a part of it
    unanswered: list[str] = field(default_factory=list)  # Kafka and targets, of which nothing is told
    plain: list[str] = field(default_factory=list)  # servers, and Kafka, that are spoken to in plain over the network
    check: dict[str, Any] = field(default_factory=dict)  # what the scheduled check found
    copies: dict[str, dict[str, Any]] = field(default_factory=dict)  # how far the copy of each of `tables` is
    forgotten: dict[str, str] = field(default_factory=dict)  # since when and why nothing counts as compared, if so

    @property
    def oversized_since(self) -> int:
        """Of `oversized`, those that no clean verification has found equal."""
        return sum(not row["verified"] for row in self.oversized)

    @property
    def waiting_messages(self) -> int:
        return sum(max(0, part.waiting) for part in self.partitions)  # less than none where a topic was made again

    @property
    def rows_applied(self) -> int:
        return sum(part.rows for part in self.partitions)

    @property
    def returning(self) -> int:
        """Messages that come back into their partitions: deferred deletes, markers, refreshes of outdated keys."""
        return self.empty_deletes + self.waiting_markers + self.outdated

    @property
    def ended(self) -> list[dict[str, Any]]:
        """Of `endings` those whose process does not work now."""
        working = {*self.leading, *(() if any(not part.owner for part in self.partitions) else ("consume",))}
        return [one for one in self.endings if one["process"] not in working]

    @property
    def drained(self) -> bool:
        """Everything the sources logged up to now is at the target, and no delete waits to come back."""
        caught_up = all(source.caught_up for source in self.sources)
        waiting = (
            self.gone or any(part.waiting for part in self.partitions) or self.records.get("new", 0) or self.unanswered
        )
        return caught_up and not waiting and not self.returning and not self.lacking

    def as_dict(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "gone": sorted(self.gone),
            "lost": [str(one) for one in self.lost],
            "waiting_messages": self.waiting_messages,
            "rows_applied": self.rows_applied,
            "drained": self.drained,
        }
