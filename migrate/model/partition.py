"""One partition of one of a migration's topics."""

from __future__ import annotations

from dataclasses import dataclass


def offset_name(topic: str, number: int, offset: int) -> str:
    """A message, as it is named to people."""
    return f"{topic} [{number}] @ {offset}"


def leave_out_hint(topic: str, number: int, offset: int) -> str:
    """The way on where a message cannot be applied, whatever is mended."""
    skip = f"migrate parked skip --topic {topic} --partition {number} --offset {offset} --reason …"
    return f"to continue without the message: `{skip}`"


@dataclass(frozen=True, slots=True)
class Partition:
    """As state tables and fences name it: by the topic's id, so that a topic made anew is another one."""

    migration: str
    topic_id: str
    number: int

    @property
    def row(self) -> dict[str, object]:
        """The columns that name it in a state table."""
        return {"migration": self.migration, "topic_id": self.topic_id, "partition_no": self.number}

    @property
    def lease(self) -> str:
        """The name of the lease that its owner holds (invariant one-committer)."""
        return f"partition:{self.topic_id}:{self.number}"
