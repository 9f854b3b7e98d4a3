"""Which messages are believed: those from a place that their source's publisher may have published.

A message moves the mark below which later ones are repeats. One from far beyond, by whoever else can write to the
topic, would drop every real change behind it without a word.
"""

from __future__ import annotations

from migrate.merge.table_versions import History
from migrate.model.errors import Code, StopError
from migrate.model.message import CANAL, Message

_HINT = "see who else writes to the topic, and that publisher and consumer use the same state database"
_RESTORED = (
    "was the state database put back to an earlier one? then `migrate publish --from` an earlier place begins an"
    " incarnation of its own; else see who else writes to the topic"
)
Place = tuple[int, int]
"""Incarnation and number of a file."""


class TrustedPlaces:
    """Knows how far each source's publisher may have published; asks the state again when a message is from beyond."""

    def __init__(self, history: History | None) -> None:
        """history: None believes all."""
        self._history = history
        self._reach: dict[str, tuple[int, int]] = {}

    def refuse_beyond(self, message: Message, offset: int) -> None:
        """Raises StopError for a message from a place that its publisher has not stored."""
        if self._history is None or not message.from_log:
            return
        if message.source == CANAL:
            if (message.incarnation, message.file, message.transaction) != (0, 0, offset):
                raise _beyond(message, "messages of Canal are ordered by their offset, and this has a place of its own")
            return
        place = message.incarnation, message.file
        known = self._reach.get(message.source)
        if known is not None and place <= known:
            return
        if (now := self._history.reach(message.source)) is None:
            raise _beyond(message, f"the publisher of source '{message.source}' never began")
        self._reach[message.source] = now
        if place > now:
            reached = f"incarnation {now[0]}, file {now[1]}"
            hint = _RESTORED if message.incarnation > now[0] else _HINT
            raise _beyond(message, f"the publisher of source '{message.source}' has come to {reached}", hint)

    def refuse_lost(self, message: Message, applied: Place) -> None:
        """Of a message from a place before one that was applied: it is a repeat, after a rewind, a failover or a kill.
        Where the state no longer has that place, its publisher goes on before it, or in another server's log, and every
        change would be dropped as a repeat without a word. Raises StopError then."""
        now = self._history.reach(message.source) if self._history is not None else applied
        if now is not None and now >= applied:
            return
        place = f"incarnation {message.incarnation}, file {message.file}"
        again = f"`migrate publish --from` a place up to position {message.transaction} of that file"
        if message.incarnation < applied[0]:
            hint = f"{again} begins the later one again"
        else:
            hint = (
                f"it goes on by itself once the publisher has come to file {applied[1]} again; where that was another"
                f" server's log, {again} begins an incarnation of its own"
            )
        raise StopError(
            f"source '{message.source}' is published from {place}, and incarnation {applied[0]}, file {applied[1]} was"
            " applied: the state database was put back to before a rewind or a failover, or the file",
            hint=hint,
            code=Code.MESSAGE,
        )


def _beyond(message: Message, why: str, hint: str = _HINT) -> StopError:
    told = f"{message.database}.{message.table} at {tuple(message.coordinate)} is not believed: {why}"
    return StopError(told, hint=hint, code=Code.MESSAGE)
