"""Whether topics are still the ones that a migration began with."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from migrate.kafka.admin import client_options, error_code
from migrate.model.errors import StopError
from migrate.settings import Kafka

_EVERY = 15.0
_SURE = 2
"""Answers in a row that know no such topic: a broker that just started may not have heard of it yet."""
BEGIN_ANEW = "its messages are gone; start a new migration under another name and copy again"


class TopicWatch:
    """Asks for the topics' ids now and then, in the background: a broker that is away holds nobody up."""

    def __init__(self, settings: Kafka, ids: Mapping[str, str], every: float = _EVERY) -> None:
        """ids: of each topic by its name, as stored; every: seconds between questions, and to wait for an answer."""
        self._ids = dict(ids)
        self._every = every
        self._admin = AdminClient({**client_options(settings), "log_level": 2})  # others say that it is away
        self._asked: dict[str, Future[Any]] = {}
        self._next = time.monotonic() + every
        self._unknown = dict.fromkeys(ids, 0)  # answers in a row
        self._gone: dict[str, StopError] = {}

    def gone(self) -> Mapping[str, StopError]:
        """What there is to say of each topic that was deleted, as far as is known by now. Does not wait."""
        for name in [name for name, future in self._asked.items() if future.done()]:
            self._judge(name, self._asked.pop(name))
        if not self._asked and time.monotonic() >= self._next:
            self._next = time.monotonic() + self._every
            self._asked = dict(self._admin.describe_topics(TopicCollection([*self._ids]), request_timeout=self._every))
        return self._gone

    def _judge(self, name: str, answer: Future[Any]) -> None:
        known = self._ids[name]
        try:
            seen = str(answer.result().topic_id)
        except KafkaException as error:
            unknown = error_code(error) == KafkaError.UNKNOWN_TOPIC_OR_PART
            self._unknown[name] = self._unknown[name] + 1 if unknown else 0  # anything else: the broker is away
            if self._unknown[name] >= _SURE:
                self._gone[name] = StopError(f"topic {name} was deleted at the broker (id {known})", hint=BEGIN_ANEW)
            return
        self._unknown[name] = 0
        if seen != known:
            self._gone[name] = StopError(
                f"topic {name} was deleted and made again (id {known}, now {seen})", hint=BEGIN_ANEW
            )
        else:
            self._gone.pop(name, None)
