"""From what was read to what is on its way: messages gather here and go to Kafka as batches (decision 0012)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from migrate.kafka.producer import OrderedProducer
from migrate.model.errors import Code, StopError
from migrate.publish.batches import Batch, Batches, Boundary, Messages
from migrate.publish.log.ahead import Fate
from migrate.publish.savepoints import HINT_SIZE
from migrate.settings import Publish

_TOO_LARGE = (
    "a transaction on selected tables of which something is rolled back, or may be yet (XA), is above"
    " publish.transaction_rows"
)


class _Mark(NamedTuple):
    """What the transaction that is being read had added up to a place in it."""

    pieces: int  # of transactions that were handed over before they ended
    messages: dict[str, int]  # by topic
    rows: int
    bytes: int


class Outbox:
    """Of one source. Whole transactions go together: those that one read of the socket brought, or, with
    `publish.batch_seconds`, those that come in that time. A transaction above `publish.transaction_rows` goes in
    pieces, so that it need not stand in memory.
    """

    def __init__(self, batches: Batches, producer: OrderedProducer, settings: Publish) -> None:
        self._batches = batches
        self._producer = producer
        self._wait = settings.batch_seconds
        self._batch_rows = settings.batch_rows
        self._most_rows = settings.transaction_rows
        self._most_bytes = settings.outstanding_bytes // 4
        self._messages: Messages = defaultdict(list)
        self._ends: list[Boundary] = []
        self._rows = self._bytes = 0
        self._whole_rows = self._whole_bytes = 0  # of those: of transactions that have ended
        self._pieces = 0
        self._is_torn = False  # what was handed over last is a piece of a transaction
        self._is_whole = False  # the transaction that is being read goes whole or not at all
        self._is_sure = self._is_dropped = False  # that it is committed; that all of it is rolled back
        self.fate: Callable[[], Fate] | None = None
        """Asks how the transaction that is being read ends, where its source logs what is rolled back."""
        self._marks: dict[str, _Mark] = {}

    def add(self, topic: str, key: bytes, messages: Iterable[tuple[int, bytes]], rows: int) -> None:
        """(Partition, value)s of so many rows of the transaction that is being read. Raises StopError where it is too
        large to wait for its end; what `fate` raises."""
        if self._is_dropped:
            return
        self.between(topic, key, messages)
        self._rows += rows
        if self._rows - self._whole_rows > self._most_rows or self._bytes - self._whole_bytes >= self._most_bytes:
            self._hand_over_piece()

    def between(self, topic: str, key: bytes, messages: Iterable[tuple[int, bytes]]) -> None:
        """(Partition, value)s that no transaction can take back."""
        append = self._messages[topic].append
        for partition, value in messages:
            append((partition, key, value))
            self._bytes += len(value)

    def _hand_over_piece(self) -> None:
        """A part of a transaction, once it is known that nothing of it is rolled back."""
        if not (self._is_whole or self._is_sure or self.fate is None):
            fate = self.fate()
            self._is_sure, self._is_whole = fate is Fate.COMMITTED, fate is Fate.PARTLY
            if fate is Fate.ROLLED_BACK:
                self._is_dropped = self.undo("")
                return
        if self._is_whole:
            raise StopError(_TOO_LARGE, hint=f"{HINT_SIZE} and start again", code=Code.SIZE)
        self._pieces += 1
        self._hand_over()
        self._is_torn = True

    @property
    def is_settled(self) -> bool:
        """Whether the broker has acknowledged all that was handed over, and each transaction of it to its end."""
        return not (self._is_torn or self._batches.outstanding or self._batches.ready(0))

    def begin(self, *, whole: bool) -> None:
        """A transaction begins. whole: of it nothing may go before its end says that it is committed."""
        self._is_whole, self._is_sure, self._is_dropped = whole, False, False
        self.mark("")

    def mark(self, name: str) -> None:
        """Where `undo` may come back to: a savepoint in the transaction that is being read, "" for its beginning."""
        if not name:
            self._marks.clear()
        counts = {topic: len(part) for topic, part in self._messages.items()}
        self._marks[name] = _Mark(self._pieces, counts, self._rows, self._bytes)

    def undo(self, name: str) -> bool:
        """Take back what was added since a mark; False where it is not known, or a part was handed over already."""
        mark = self._marks.get(name)
        if mark is None or mark.pieces != self._pieces:
            return False
        for topic, part in self._messages.items():
            del part[mark.messages.get(topic, 0) :]
        self._rows, self._bytes = mark.rows, mark.bytes
        return True

    def end(self, end: Boundary) -> None:
        """The transaction ends here, or nothing of ours was in it."""
        self._ends.append(end)
        self._whole_rows, self._whole_bytes = self._rows, self._bytes
        if self._wait:
            self._is_torn = False
            self._put()
        elif self._rows >= self._batch_rows or self._bytes >= self._most_bytes:
            self._hand_over()

    def pause(self) -> None:
        """The source is about to be waited for: whole transactions go now, unless they may wait."""
        if self._wait:
            if self._batches.ready(self._batch_rows, self._wait):
                self._send_waiting()
        elif self._ends and self._whole_rows == self._rows:
            self._hand_over()

    def flush(self) -> None:
        """At the end of a transaction: whole transactions go now."""
        if self._wait:
            if self._batches.ready(0):
                self._send_waiting()
        elif self._ends:
            self._hand_over()

    def _hand_over(self) -> None:
        """Everything there is."""
        self._is_torn = False
        if self._wait:
            self._put()
            return
        batch = self._batches.pass_on(self._rows, self._bytes, self._ends)
        self._ends = []
        self._rows = self._bytes = self._whole_rows = self._whole_bytes = 0
        # A transaction of which nothing is here goes on behind an emptied list. Of one in pieces no mark counts.
        self._marks = {name: _Mark(mark.pieces, {}, 0, 0) for name, mark in self._marks.items()}
        self._send(batch, self._messages)

    def _put(self) -> None:
        """With a time-out: to those that wait already. All of them go with a piece of a transaction."""
        end = self._ends.pop() if self._ends else None
        room = self._batches.put(self._messages, self._rows, self._bytes, end)
        self._messages = defaultdict(list)
        self._rows = self._bytes = self._whole_rows = self._whole_bytes = 0
        if end is None or not room or self._batches.ready(self._batch_rows, self._wait):
            self._send_waiting()

    def _send_waiting(self) -> None:
        batch = self._batches.get(self._batch_rows)
        self._send(batch, batch.messages)

    def _send(self, batch: Batch, messages: Messages) -> None:
        """Hand a batch to Kafka, and empty it, as the client makes copies. Waits while too much is on its way."""
        filled = [(topic, part) for topic, part in messages.items() if part]
        self._batches.sent(batch, len(filled))  # all of them, before the first confirmation can come
        for topic, part in filled:
            self._producer.send(topic, part, partial(self._batches.confirmed, batch))
            part.clear()
        if not filled:
            self._batches.settle()
        while self._batches.crowded:
            self._producer.wait()
