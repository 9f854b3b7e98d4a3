"""Whether the broker still has the last messages that it acknowledged to one sender (invariant fence-compares).

A partition that was put back, and that other senders filled again, ends as far as before or further: only the message
that stands there tells.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager

import structlog

from migrate.kafka.producer import AcknowledgedEnds, Place
from migrate.kafka.reader import NoSuchTopic, PartitionReader
from migrate.model.errors import MigrateError, ServerError, StopError
from migrate.model.message_reader import senders
from migrate.settings import Kafka

log = structlog.get_logger("migrate.kafka")
_PATIENCE = 15.0
"""Seconds for the messages to come."""
_AGAIN = 1.0
"""Seconds until a partition that ends too early is asked once more: its leader may have changed just now."""
_JOIN = 5.0


class _Stopped(ServerError):  # noqa: N818 - it says what happened
    pass


class AcknowledgedCheck:
    """Of one sender: what it finds is in `AcknowledgedEnds.lost`, and every producer of it raises from then on."""

    def __init__(self, settings: Kafka, group: str, ends: AcknowledgedEnds, sender: str, stop: threading.Event) -> None:
        """sender: as of `migrate.model.message_reader.senders`."""
        self._settings = settings
        self._group = group
        self._ends = ends
        self._sender = sender
        self._stop = stop
        self._over = threading.Event()
        self._turn = threading.Lock()  # one look at a time

    @contextmanager
    def looking(self, seconds: float) -> Iterator[None]:
        """Look every so often, beside what the block does."""

        def forever() -> None:
            while not self._over.wait(seconds):
                self.try_to_look()

        self._over.clear()
        thread = threading.Thread(target=forever, name="acknowledged", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join(_JOIN)  # what it finds later is found at the next start, too

    def try_to_look(self) -> None:
        """A broker that is away is asked again the next time: what is to be looked at stays."""
        try:
            self.look()
        except MigrateError as error:
            log.warning("acknowledged messages not looked at; tried again", reason=error.message)

    def look(self) -> None:
        """Look at what is marked, unless told to stop. Raises ServerError where the broker does not answer."""
        with self._turn:
            marked = self._ends.marked()
            if not marked:
                return
            try:
                with closing(PartitionReader(self._settings, self._group)) as reader:
                    self._look(reader, marked)
            except _Stopped:
                pass
            except StopError as error:  # deleted by age, or put back, since it was asked where the partition begins
                raise ServerError(error.message, hint="this is checked again by itself") from error

    def _look(self, reader: PartitionReader, marked: Mapping[Place, set[int]]) -> None:
        left: dict[Place, list[int]] = {}
        for place, ends in marked.items():
            try:
                low, high = self._bounds(reader, place, max(ends))
            except NoSuchTopic:  # told where topics are looked at
                continue
            if high < max(ends):
                self._ends.tell(place, high, max(ends))
            # What was deleted by age cannot be told any more.
            left[place] = sorted(end for end in ends if low < end <= high)
        while wanted := {place: ends.pop() for place, ends in left.items() if ends}:  # one of each partition at once
            ours = self._ours(reader, wanted)
            for place, end in wanted.items():
                if not ours.get(place):  # another's, or none at all: something that is no message stands there
                    self._ends.tell(place, end - 1, end)
        for place in left:
            self._ends.seen(place, marked[place])

    def _bounds(self, reader: PartitionReader, place: Place, end: int) -> tuple[int, int]:
        low, high = reader.bounds(*place)
        if high < end:
            self._stop.wait(_AGAIN)
            low, high = reader.bounds(*place)
        return low, high

    def _ours(self, reader: PartitionReader, wanted: Mapping[Place, int]) -> dict[Place, bool]:
        """Whether the messages that end there are this sender's."""
        until = time.monotonic() + _PATIENCE

        def may_go_on() -> None:
            if self._stop.is_set() or self._over.is_set():
                raise _Stopped("stopped while acknowledged messages were looked at")
            if time.monotonic() >= until:
                raise ServerError(f"Kafka did not bring acknowledged messages within {_PATIENCE:.0f} s")

        spans = {place: (end - 1, end) for place, end in wanted.items()}
        return {
            (raw.topic, raw.partition): self._sender in senders(raw.value) for raw in reader.spans(spans, may_go_on)
        }
