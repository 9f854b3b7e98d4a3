"""The checks of Kafka and its topics."""

from __future__ import annotations

from collections.abc import Iterable

from migrate.model.errors import MigrateError
from migrate.preflight.check import CONNECTED, At, Group, Visit, declare
from migrate.preflight.result import Result
from migrate.preflight.server import state
from migrate.preflight.topics import account_rights, kafka, stale_topics, topic_settings
from migrate.settings import Settings
from migrate.state.migration import Migration


def _kafka(visit: Visit) -> Iterable[Result]:
    settings = visit.known.settings
    results = kafka.check(settings, _known(settings))
    visit.known.kafka_answers = True
    return results


def _known(settings: Settings) -> Migration | None:
    try:
        return state.known(settings)
    except MigrateError:  # told by the check of the state server
        return None


def _stale_topics(visit: Visit) -> Iterable[Result]:
    settings = visit.known.settings
    return stale_topics.check(settings) if _is_new(settings) else []


def _is_new(settings: Settings) -> bool:
    try:
        return state.known(settings) is None
    except MigrateError:  # told by the check of the state server
        return False


KAFKA = declare("kafka", Group.TOPICS, At.KAFKA, _kafka, ())
TOPIC_SETTINGS = declare(
    "topic",
    Group.TOPICS,
    At.KAFKA,
    lambda visit: topic_settings.check(visit.known.settings),
    CONNECTED,
    subject="topics",
)
RIGHTS = declare(
    "kafka",
    Group.TOPICS,
    At.KAFKA,
    lambda visit: account_rights.check(visit.known.settings),
    CONNECTED,
    subject="rights",
)
STALE_TOPICS = declare("topic", Group.TOPICS, At.KAFKA, _stale_topics, CONNECTED, subject="topics")
