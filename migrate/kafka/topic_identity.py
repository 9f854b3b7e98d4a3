"""Whether topics are still the ones that a migration began with, and keep every message until it is old."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]  # documented there

from migrate.kafka import client_close
from migrate.kafka.admin import client_options, error_code
from migrate.model.errors import Code, StopError
from migrate.settings import Kafka

_EVERY = 15.0
_AWAY = frozenset({KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN})
_SURE = 2
"""Answers in a row that know no such topic: a broker that just started may not have heard of it yet."""
BEGIN_ANEW = "its messages are gone; start a new migration under another name and copy again"
MAKE_AGAIN = (
    "nothing is lost, as the targets know what waited in it: stop `migrate run`, run `migrate init`, which creates the"
    " topic and sends that again, then start `migrate run`"
)
_KEEP = (
    "kafka-configs.sh --bootstrap-server {} --alter --entity-type topics --entity-name {} --add-config"
    " cleanup.policy=delete; what is missing by then is named, and `migrate verify` finds it"
)


class TopicGone(StopError):  # noqa: N818 - what it says is what happened
    """A topic is not the one that it was, or is not there: what tries again in place would do so for ever."""

    code = Code.TOPIC


class TopicWatch:
    """Asks for the topics' ids, and how they are cleaned, now and then in the background: a broker that is away holds
    nobody up."""

    def __init__(
        self,
        settings: Kafka,
        ids: Mapping[str, str],
        delays: Iterable[str] = (),
        gone: Collection[str] = (),
        every: float = _EVERY,
    ) -> None:
        """ids: of each topic by its name, as stored; delays: delay topics, whose ids are those that are seen first,
        and of which nothing is said before; gone: those of both that were looked for in vain; every: seconds between
        questions, and to wait for an answer.
        """
        self._ids = {**dict.fromkeys(delays, ""), **ids}
        self._stored = frozenset(ids)
        self._every = every
        self._settings = settings
        self._admin = AdminClient(client_options(settings))
        self._lost = False  # the broker did not answer
        self._asked: dict[str, Future[Any]] = {}
        self._cleaned: dict[str, Future[Any]] = {}
        self._compacted: dict[str, TopicGone] = {}
        self._next = time.monotonic()
        self._unknown = dict.fromkeys(self._ids, 0)  # answers in a row
        self._gone = {name: self.deleted(name) for name in self._ids if name in gone}

    def gone(self) -> Mapping[str, TopicGone]:
        """What there is to say of each topic that was deleted, or is compacted, as far as is known by now. Does not
        wait."""
        for name in [name for name, future in self._asked.items() if future.done()]:
            self._judge(name, self._asked.pop(name))
        for name in [name for name, future in self._cleaned.items() if future.done()]:
            self._judge_cleaning(name, self._cleaned.pop(name))
        if self._ids and not self._asked and not self._cleaned and time.monotonic() >= self._next:
            self._next = time.monotonic() + self._every
            if self._lost:
                self._renew()
            self._asked = dict(self._admin.describe_topics(TopicCollection([*self._ids]), request_timeout=self._every))
            topics = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in self._ids]
            answers = self._admin.describe_configs(topics, request_timeout=self._every)
            self._cleaned = {str(topic.name): answer for topic, answer in answers.items()}
        return {**self._compacted, **self._gone}

    def _judge_cleaning(self, name: str, answer: Future[Any]) -> None:
        """Where the user may not see it, or the broker is away, it stays as it was."""
        with suppress(KafkaException, KeyError):
            if "compact" in str(answer.result()["cleanup.policy"].value):
                told = f"topic {name} has cleanup.policy=compact: of several changes of a table one is left"
                self._compacted[name] = TopicGone(told, hint=_KEEP.format(self._settings.bootstrap, name))
            else:
                self._compacted.pop(name, None)

    def _judge(self, name: str, answer: Future[Any]) -> None:
        try:
            seen = str(answer.result().topic_id)
        except KafkaException as error:
            unknown = error_code(error) == KafkaError.UNKNOWN_TOPIC_OR_PART
            self._unknown[name] = self._unknown[name] + 1 if unknown else 0  # anything else: the broker is away
            if self._unknown[name] >= _SURE and self._ids[name]:
                self._gone[name] = self.deleted(name)
            self._lost = self._lost or error_code(error) in _AWAY
            return
        self._unknown[name] = 0
        known = self._ids[name] or seen
        self._ids[name] = known
        if seen != known:
            self._gone[name] = self._say(name, f"was deleted and made again (id {known}, now {seen})")
        else:
            self._gone.pop(name, None)

    def _renew(self) -> None:
        """Ask by a new client: ours may have forgotten where the broker is (migrate.kafka.liveness)."""
        with suppress(KafkaException):
            client_close.drop(self._admin)
            self._admin, self._lost = AdminClient(client_options(self._settings)), False

    def deleted(self, name: str) -> TopicGone:
        """What there is to say of a topic that the broker does not have."""
        known = self._ids[name]
        return self._say(name, f"was deleted at the broker (id {known})" if known else "was deleted at the broker")

    def _say(self, name: str, what: str) -> TopicGone:
        if name in self._stored:
            return TopicGone(f"topic {name} {what}", hint=BEGIN_ANEW)
        return TopicGone(f"delay topic {name} {what}", hint=MAKE_AGAIN)
