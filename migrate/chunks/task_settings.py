"""The part of the config that travels to Spark's tasks: the accounts at sources and targets, and no other secret."""

from __future__ import annotations

from typing import Any, TypeVar

from migrate.mysql import tls
from migrate.settings import Server, Settings, Throttle

_NEEDED = ("name", "databases", "consume", "verify", "connections", "logging")
_S = TypeVar("_S", bound=Server)


class TaskSettings(Settings):
    """Settings without state, Kafka and tables, which no task uses: reading one of them raises AttributeError. Sections
    that are neither listed here nor required have their defaults."""


def for_tasks(settings: Settings) -> TaskSettings:
    """What tasks need; itself where it is that already.

    The jobs of many tables share one, as the pickle of a wave then has it once.
    """
    if isinstance(settings, TaskSettings):
        return settings
    servers: dict[str, Any] = {"sources": _carried(settings.sources), "targets": _carried(settings.targets)}
    copy = settings.copy_.model_copy(update={"throttle": Throttle()})  # whose replicas have accounts of their own
    return TaskSettings.model_construct(copy_=copy, **servers, **{name: getattr(settings, name) for name in _NEEDED})


def _carried(servers: tuple[_S, ...]) -> tuple[_S, ...]:
    """With the contents of their certificates, which Spark's machines need not have."""
    return tuple(one.model_copy(update={"tls": tls.carried(one.tls)}) if one.tls.files else one for one in servers)
