"""An idempotent producer that either delivers everything in order or ends (rule 3)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import structlog
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from migrate.kafka import apart
from migrate.kafka.admin import client_options, error_text
from migrate.kafka.stall import alone
from migrate.model.errors import ServerError, StopError
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


class DeliveryFailed(ServerError):  # noqa: N818 - what it says is what happened
    """Kafka did not take a message; nothing behind it in its partition was taken either."""


class AcknowledgedLost(StopError):  # noqa: N818 - it says what happened
    """A partition ends before what the broker had acknowledged of it."""

    def __init__(self, topic: str, partition: int, end: int, had: int, hint: str = "") -> None:
        super().__init__(
            f"Kafka lost acknowledged messages: {topic} [{partition}] ended at offset {end}, and had been acknowledged"
            f" up to {had}",
            hint=hint or "start the publisher again: it names the place from which to publish once more",
        )
        self.topic, self.partition, self.end, self.had = topic, partition, end, had


class Ends:
    """One past the last message that the broker acknowledged, of partitions (topic, number), over several producers."""

    def __init__(self, known: Mapping[tuple[str, int], int] | None = None) -> None:
        self.all = dict(known or {})
        self._changed: dict[tuple[str, int], int] = {}

    def note(self, place: tuple[str, int], offset: int) -> int:
        """An offset is acknowledged. Where a partition had come further already, how far: the broker lost what was
        there, as offsets only rise; else 0."""
        had = self.all.get(place, 0)
        if offset < had:
            return had
        self.all[place] = self._changed[place] = offset + 1
        return 0

    def changed(self) -> dict[tuple[str, int], int]:
        """Those that rose since this was asked last."""
        found, self._changed = self._changed, {}
        return found


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
        ends: Ends | None = None,
    ) -> None:
        """ends: what the producers before it had acknowledged, to be compared; None: it is not."""
        self._settings = settings
        self._stop = stop or threading.Event()
        self._confirmed = time.monotonic()  # when something was confirmed last, or nothing was on its way
        self._told = 0.0  # when it was said that nothing is
        self._looked = 0.0  # when the client was looked at
        self._heard = _Heard()
        self._ends = ends
        self._lost: tuple[str, int, int, int] | None = None  # topic, partition, where it ends, where it had ended
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
        return self._lost is not None

    def _compare(self, message: Message) -> None:
        place, offset = (str(message.topic()), int(message.partition() or 0)), message.offset()
        if self._ends is None or offset is None or offset < 0:  # not known: the broker had the message already
            return
        if had := self._ends.note(place, offset):
            self._lost = self._lost or (*place, offset, had)

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
            if not left and self._heard.failed is None and self._lost is None:
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
        if self._lost is not None:
            raise AcknowledgedLost(*self._lost)
        if self._heard.failed is not None:
            raise DeliveryFailed(
                f"Kafka at {self._settings.bootstrap} did not take a message: {self._heard.failed}",
                hint="it ends here, so that nothing later overtakes, and starts again from the stored position",
            )

    def abandon(self) -> None:
        """Drop what is not delivered. What is on its way may still arrive, in order and never behind a gap."""
        self._heard.failed = self._heard.failed or "it was given up"
        apart.drop(self._producer)
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
