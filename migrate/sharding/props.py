"""Properties of an algorithm, read the way ShardingSphere reads them: every one is a text first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date

from migrate.model.errors import ConfigError
from migrate.sharding.javatypes import JavaError, parse_int, parse_long


class Props:
    """`key` names the place in the config file; each reader raises ConfigError, which names the property there."""

    def __init__(self, props: Mapping[str, object], key: str) -> None:
        self.key = key
        self._props = {name: _property_text(value, f"{key}.{name}") for name, value in props.items()}
        self._asked: set[str] = set()

    def has(self, name: str) -> bool:
        return name in self._props

    def text(self, name: str, default: str | None = None) -> str:
        self._asked.add(name)
        value = self._props.get(name, default)
        if value is None:
            raise ConfigError(f"{self.key}.{name} is missing")
        return value

    def parsed(self, name: str, text: str, parse: Callable[[str], int]) -> int:
        try:
            return parse(text)
        except JavaError as error:
            raise ConfigError(f"{self.key}.{name}: {error}") from None

    def yes(self, name: str) -> bool:
        """Boolean.parseBoolean, false where it is not given."""
        return self.text(name, "false").lower() == "true"

    def long(self, name: str) -> int:
        return self.parsed(name, self.text(name), parse_long)

    def whole(self, name: str, default: int) -> int:
        value = self.parsed(name, self.text(name, str(default)), parse_int)
        if value < 0:
            raise ConfigError(f"{self.key}.{name} must not be negative")
        return value

    def count(self, name: str) -> int:
        value = self.parsed(name, self.text(name), parse_int)
        if value <= 0:
            raise ConfigError(f"{self.key}.{name} must be positive")
        return value

    def no_more(self, algorithm: str) -> None:
        unknown = sorted(set(self._props) - self._asked)
        if unknown:
            raise ConfigError(
                f"{self.key}.{unknown[0]} is not a property of {algorithm}",
                hint="known: " + ", ".join(sorted(self._asked)),
            )


def _property_text(value: object, key: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    hint = "write it in quotes: YAML reads it as a time, and ShardingSphere too" if isinstance(value, date) else ""
    raise ConfigError(f"{key} must be a text or a number", hint=hint)
