"""Kafka: it answers, and every topic is there as it must be, or may be created."""

from __future__ import annotations

from migrate.kafka import admin
from migrate.model.errors import PreflightError
from migrate.model.words import counted
from migrate.preflight.result import Result, Verdict
from migrate.settings import Settings
from migrate.state import migration as migrations
from migrate.state.migration import Migration, Topic


def check(settings: Settings, known: Migration | None) -> list[Result]:
    """known: the migration as an earlier init stored it. Changes nothing at the broker. Raises ServerError."""
    where, brokers = f"Kafka at {settings.kafka.bootstrap}", admin.brokers(settings.kafka)
    results = [Result("kafka", "kafka", Verdict.PASS, f"{where} answers: {counted(brokers, 'broker')}")]
    stored = {topic.name: topic for topic in known.topics} if known is not None else {}
    for topic in settings.topics:
        results += _topic(settings, topic, stored.get(topic))
    return results


def _topic(settings: Settings, topic: str, stored: Topic | None) -> list[Result]:
    """A topic and its delay topics: what is wrong with each, or one line that passes."""
    found = admin.describe(settings.kafka, topic)
    partitions = found.partitions if found is not None else settings.kafka.partitions
    results: list[Result] = []
    if found is not None and stored is not None:
        try:
            migrations.check(stored, Topic(found.name, found.id, found.partitions))
        except PreflightError as error:
            results.append(_problem(topic, error.message, error.hint))
    elif stored is not None:
        results.append(
            _problem(topic, f"topic {topic} is gone", "start a new migration under another name and copy again")
        )
    elif found is not None and partitions != settings.kafka.partitions:
        has = f"topic {topic} has {counted(partitions, 'partition')}, kafka.partitions is {settings.kafka.partitions}"
        results.append(Result("kafka", topic, Verdict.NOTE, f"{has}: it stays as it is"))
    elif found is None:
        results += _may_be_created(settings, topic, partitions)
    for name in settings.delay_topics(topic):
        delay = admin.describe(settings.kafka, name)
        if delay is None:
            results += _may_be_created(settings, name, partitions)
        elif delay.partitions != partitions:
            has = f"topic {name} has {counted(delay.partitions, 'partition')}, {topic} has {partitions}"
            results.append(_problem(name, has, "delete the delay topic, so that init creates it"))
    state = f"has {counted(partitions, 'partition')}" if found is not None else "may be created"
    return results or [Result("kafka", topic, Verdict.PASS, f"topic {topic} {state}")]


def _may_be_created(settings: Settings, name: str, partitions: int) -> list[Result]:
    refused = admin.refusal(settings.kafka, name, partitions)
    if not refused:
        return []
    mend = "see kafka.partitions and kafka.replication, and what the user may do at the broker"
    return [_problem(name, f"topic {name} cannot be created: {refused}", mend)]


def _problem(subject: str, message: str, mend: str) -> Result:
    return Result("kafka", subject, Verdict.PROBLEM, message, mend)
