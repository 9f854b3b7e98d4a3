"""An idempotent producer that either delivers everything in order or ends (invariant position-after-delivery)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

import structlog
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from migrate.kafka import client_close
from migrate.kafka.admin import client_options, error_text
from migrate.kafka.liveness import alone
from migrate.model.errors import Code, ServerError, StopError
from migrate.settings import Kafka

log = structlog.get_logger("migrate.kafka")
OVERHEAD = 512
"""Room for the record's headers in the broker's limit."""

Delivered = Callable[[], None]
_FATAL = (KafkaException, SystemError)
"""What the client raises once a delivery failed for good, from then on at every call. Where reports of other messages
wait behind that, it calls them with its exception already set, which Python makes a SystemError of."""

_QUIET, _QUIET_STILL = 5.0, 60.0
"""Seconds without a confirmation after which that is logged, and then again."""
_ALONE = 60.0
"""Seconds without one after which the client is looked at, and then again."""
_BACK = 1.0
"""Seconds without one of a partition, in which its broker may have been put back."""
_MOST_MARKS = 8
"""Of one partition between two looks."""

Place = tuple[str, int]
"""Topic and partition."""


class DeliveryFailed(ServerError):  # noqa: N818 - what it says is what happened
    """Kafka did not take a message; nothing behind it in its partition was taken either."""


class AcknowledgedLost(StopError):  # noqa: N818 - it says what happened
    """A partition ended before what the broker had acknowledged of it, whatever came there since."""

    code = Code.TOPIC

    def __init__(self, topic: str, partition: int, end: int, had: int, hint: str = "") -> None:
        super().__init__(
            f"Kafka lost acknowledged messages: {topic} [{partition}] ended at offset {end} or before, and had been"
            f" acknowledged up to {had}",
            hint=hint or "start the publisher again: it names the place from which to publish again",
        )
        self.topic, self.partition, self.end, self.had = topic, partition, end, had


class AcknowledgedEnds:
    """One past the last message that the broker acknowledged, of partitions (topic, number), over several producers.

    Some are marked: whether the broker still has the message before one is to be looked at
    (`migrate.kafka.acknowledged`).
    """

    def __init__(self, known: Mapping[Place, int] | None = None) -> None:
        self.all = dict(known or {})
        self.lost: dict[Place, tuple[int, int]] = {}
        """Where a partition ended, or before that, and where it had ended."""
        self._changed: dict[Place, int] = {}
        self._noted: dict[Place, float] = {}  # when a partition's end rose
        self._marks: dict[Place, set[int]] = {}
        self._turn = threading.Lock()  # of the marks and of what is lost

    def note(self, place: Place, offset: int) -> None:
        """An offset is acknowledged. Where a partition had come further already, the broker lost what was there, as
        offsets only rise."""
        had, now = self.all.get(place, 0), time.monotonic()
        if offset < had:
            self.tell(place, offset, had)
            return
        if 0 < had < offset and now - self._noted.get(place, 0.0) >= _BACK:
            with self._turn:  # others wrote here since: behind our messages, or in their places
                self._mark(place, had)
        self._noted[place] = now
        self.all[place] = self._changed[place] = offset + 1

    def tell(self, place: Place, end: int, had: int) -> None:
        """The broker lost what it had acknowledged from an offset on, or before it, up to another one."""
        with self._turn:
            known = self.lost.get(place, (end, had))
            self.lost[place] = min(end, known[0]), max(had, known[1])

    def forget(self, place: Place) -> None:
        """What is acknowledged from here on is compared with nothing that was before."""
        with self._turn:
            for known in (self.all, self.lost, self._changed, self._noted, self._marks):
                known.pop(place, None)

    def marked(self) -> dict[Place, set[int]]:
        """What to look at: with where each partition ends now."""
        now = self.all.copy()
        with self._turn:
            for place, end in now.items():
                if end > 0:
                    self._mark(place, end)
            return {place: set(some) for place, some in self._marks.items()}

    def seen(self, place: Place, ends: Collection[int]) -> None:
        """They were looked at. The last one is looked at once more the next time: others may stand there by then."""
        with self._turn:
            if (some := self._marks.get(place)) is not None:
                some.difference_update(set(ends) - {max(ends)})

    def _mark(self, place: Place, end: int) -> None:
        some = self._marks.setdefault(place, set())
        some.add(end)
        if len(some) > _MOST_MARKS:  # the newest tell most: offsets only rise, and the present end is one of them
            some.remove(min(some))

    def changed(self) -> dict[Place, int]:
        """Those that rose since they were `stored` last."""
        return self._changed.copy()

    def stored(self, ends: Mapping[Place, int]) -> None:
        """They are where a restart finds them."""
        for place, end in ends.items():
            if self._changed.get(place) == end:
                del self._changed[place]


class _Heard:
    """What the client said. It holds whom it tells, and would end wherever garbage is collected if that held it too."""

    def __init__(self) -> None:
        self.failed: str | None = None
        self.trouble = ""  # of late

    def error(self, error: Any) -> None:
        self.trouble = str(error.str())
        if error.fatal():
            self.failed = self.failed or str(error)


class OrderedProducer:
    """`acks=all`, idempotent, no message time-out, gapless; any delivery error makes every later call raise.

    A partition thus always holds a prefix of what one producer was given.
    """

    def __init__(
        self,
        settings: Kafka,
        queue_bytes: int = 64 * 1024 * 1024,
        stop: threading.Event | None = None,
        linger_seconds: float = 0.005,
        ends: AcknowledgedEnds | None = None,
    ) -> None:
        """ends: what the producers before it had acknowledged, to be compared; None: it is not."""
        self._settings = settings
        self._stop = stop or threading.Event()
        self._confirmed = time.monotonic()  # when something was confirmed last, or nothing was on its way
        self._told = 0.0  # when it was said that nothing is
        self._looked = 0.0  # when the client was looked at
        self._heard = _Heard()
        self._ends = ends
        options: dict[str, Any] = {
            **client_options(settings),
            "acks": "all",
            "log_level": 2,  # or it writes a line for each try to connect, twenty a second; `_watch` says it once
            "enable.idempotence": True,
            "enable.gapless.guarantee": True,
            "message.timeout.ms": 0,
            "message.max.bytes": settings.max_message_bytes,
            "compression.type": "lz4",
            "linger.ms": round(linger_seconds * 1000),
            # room for the largest message, or that would wait for ever
            "queue.buffering.max.kbytes": 1 + max(1024 * 1024, queue_bytes, settings.max_message_bytes) // 1024,
            "queue.buffering.max.messages": 1_000_000,
            "error_cb": self._heard.error,
        }
        self._producer = Producer(options)

    def produce(
        self, topic: str, partition: int, value: bytes, key: bytes | None = None, delivered: Delivered = lambda: None
    ) -> None:
        """`send` of one message."""
        self.send(topic, [(partition, key, value)], delivered)

    def send(
        self, topic: str, messages: Sequence[tuple[int, bytes | None, bytes]], delivered: Delivered = lambda: None
    ) -> None:
        """Hand (partition, key, value)s over; `delivered` runs in a later `poll`, once every in-sync replica has them
        all.

        Waits while the local queue is full. Raises StopError for a message above the broker's limit, ServerError
        once any delivery failed.
        """
        self.check()
        produce, note = self._producer.produce, self._note
        largest = self._settings.max_message_bytes - OVERHEAD
        # A partition's messages are confirmed in order: with the last one, all of them.
        last = {message[0]: index for index, message in enumerate(messages)}
        ends, report = frozenset(last.values()), self._reporter(len(last), delivered)
        first: dict[int, int] = {}  # its offset tells whether the broker lost what was before
        for index, message in enumerate(messages if self._ends is not None else ()):
            first.setdefault(message[0], index)
        begins = frozenset(first.values())
        for index, (partition, key, value) in enumerate(messages):
            if len(value) + len(key or b"") > largest:
                raise StopError(
                    f"a message of {len(value)} bytes for {topic} is above kafka.max_message_bytes"
                    f" ({self._settings.max_message_bytes})",
                    hint="raise kafka.max_message_bytes and the topic's max.message.bytes",
                    code=Code.TOPIC,
                )
            while True:
                try:
                    told = report if index in ends else self._note_first if index in begins else note
                    produce(topic, value, key, partition, told)
                    break
                except BufferError:
                    self.wait()
                except KafkaException as error:  # fatal, from now on at every call
                    self._heard.failed = self._heard.failed or error_text(error)
                    self.check()

    @property
    def lost(self) -> bool:
        """Whether the broker lost what it had acknowledged."""
        return self._ends is not None and bool(self._ends.lost)

    def _compare(self, message: Message) -> None:
        place, offset = (str(message.topic()), int(message.partition() or 0)), message.offset()
        if self._ends is None or offset is None or offset < 0:  # not known: the broker had the message already
            return
        self._ends.note(place, offset)

    def wait(self) -> None:
        """Give Kafka a moment to take or confirm something. Raises ServerError when asked to stop, or as `poll`."""
        self.poll(0.1)
        if self._stop.is_set():
            raise ServerError("stopped while Kafka took nothing more", hint="sent again after the start")

    def _reporter(self, partitions: int, delivered: Delivered) -> Callable[[Any, Message], None]:
        """What librdkafka calls for the last message of each partition of a `send`."""
        left = partitions

        def report(error: KafkaError | None, message: Message) -> None:
            nonlocal left
            self._note(error, message)
            left -= 1
            if error is None:
                self._compare(message)
                self._confirmed, self._heard.trouble = time.monotonic(), ""
            if not left and self._heard.failed is None and not self.lost:
                delivered()

        return report

    def _note(self, error: KafkaError | None, _message: Message) -> None:
        """What it calls for every other message."""
        if error is not None:
            self._heard.failed = self._heard.failed or str(error)

    def _note_first(self, error: KafkaError | None, message: Message) -> None:
        """What it calls for the first message of each partition of a `send`."""
        self._note(error, message)
        if error is None:
            self._compare(message)

    def poll(self, seconds: float = 0.0) -> None:
        """Run delivery reports. Raises ServerError once any delivery failed."""
        try:
            self._producer.poll(seconds)
        except _FATAL as error:
            self._heard.failed = self._heard.failed or _why(error)
        self.check()
        self._watch()

    def _watch(self) -> None:
        """Say when Kafka confirms nothing: it is waited for, however long, and nobody else would know why.

        Raises ServerError where it answers others.
        """
        now, waiting = time.monotonic(), len(self._producer)
        if not waiting:
            self._confirmed = now
        quiet = now - self._confirmed
        if quiet < _QUIET:
            if self._told:
                log.info("Kafka confirms again", kafka=self._settings.bootstrap)
                self._told = 0.0
        elif now - self._told >= _QUIET_STILL or not self._told:
            self._told = now
            log.warning(
                "Kafka confirms nothing, waiting for it",
                kafka=self._settings.bootstrap,
                seconds=round(quiet),
                messages=waiting,
                error=self._heard.trouble or "none told: too few in-sync replicas?",
            )
        if quiet >= _ALONE and now - self._looked >= _ALONE:
            self._looked = now
            if alone(self._producer, self._settings):
                self._heard.failed = self._heard.failed or "the client lost the broker, which answers another one"
                self.check()

    def check(self) -> None:
        """Raises AcknowledgedLost, DeliveryFailed."""
        if self._ends is not None and self._ends.lost:
            place, ends = next(iter(self._ends.lost.copy().items()))  # another thread may find more
            raise AcknowledgedLost(*place, *ends)
        if self._heard.failed is not None:
            raise DeliveryFailed(
                f"Kafka at {self._settings.bootstrap} did not take a message: {self._heard.failed}",
                hint="the process ends, so that no later message overtakes, and starts again from the stored position",
            )

    def abandon(self) -> None:
        """Drop what is not delivered. What is on its way may still arrive, in order and never behind a gap."""
        self._heard.failed = self._heard.failed or "it was given up"
        client_close.drop(self._producer)
        self._producer.purge()
        with suppress(*_FATAL):
            self._producer.poll(0)  # the reports of what was purged, which hold us until they are given

    def flush(self, seconds: float) -> bool:
        """Wait until everything is confirmed; False when time ran out first. Raises ServerError on failure."""
        try:
            left = self._producer.flush(seconds)
        except _FATAL as error:
            self._heard.failed = self._heard.failed or _why(error)
            left = 1
        self.check()
        return left == 0


def _why(error: BaseException) -> str:
    fatal = error if isinstance(error, KafkaException) else error.__cause__
    if not isinstance(fatal, KafkaException):
        raise error
    return error_text(fatal)
