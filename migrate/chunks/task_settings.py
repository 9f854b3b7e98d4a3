"""The part of the config that travels to Spark's tasks: the accounts at sources and targets, and no other secret."""

from __future__ import annotations

from migrate.settings import Settings, Throttle

_NEEDED = ("name", "sources", "targets", "databases", "consume", "verify", "connections", "logging")


class TaskSettings(Settings):
    """Settings without state, Kafka and tables, which no task uses: reading one of them raises AttributeError. Sections
    that are neither listed here nor required have their defaults."""


def for_tasks(settings: Settings) -> TaskSettings:
    """What tasks need; itself where it is that already.

    The jobs of many tables share one, as the pickle of a wave then has it once.
    """
    if isinstance(settings, TaskSettings):
        return settings
    copy = settings.copy_.model_copy(update={"throttle": Throttle()})  # whose replicas have accounts of their own
    return TaskSettings.model_construct(copy_=copy, **{name: getattr(settings, name) for name in _NEEDED})
