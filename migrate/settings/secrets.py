"""Every secret that a config holds."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel, SecretStr

from migrate.settings.model import Settings


def secrets_of(settings: Settings) -> frozenset[str]:
    return frozenset(_secrets(settings))


def _secrets(value: object) -> Iterator[str]:
    if isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, BaseModel):
        for _, item in value:
            yield from _secrets(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _secrets(item)
    elif isinstance(value, tuple):
        for item in value:
            yield from _secrets(item)
