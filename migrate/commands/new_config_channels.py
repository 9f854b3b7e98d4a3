"""How the servers of a new config are reached: TLS, a program for passwords, and Kafka's account."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from migrate.config_text import expand
from migrate.model.errors import ConfigError
from migrate.model.secrets import is_secret
from migrate.settings import Kafka, kafka_security

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True, slots=True)
class Channels:
    """tls, password_command: of every server; {host}, {port} and {user} in its arguments stand for the server's own.
    kafka_security: as in the config, with ${NAME} for a secret."""

    tls: Mapping[str, str] = field(default_factory=dict)
    password_command: tuple[str, ...] = ()
    kafka_security: Mapping[str, str] = field(default_factory=dict)

    @property
    def variables(self) -> list[str]:
        """Environment variables that Kafka's options name."""
        return [name for value in self.kafka_security.values() for name in _VARIABLE.findall(value)]

    def command(self, host: str, port: int, user: str) -> tuple[str, ...]:
        known = {"{host}": host, "{port}": str(port), "{user}": user}
        return tuple(_filled(one, known) for one in self.password_command)

    def kafka(self, bootstrap: str, environment: Mapping[str, str]) -> Kafka:
        """Raises ConfigError."""
        security = expand(dict(self.kafka_security), environment, "--kafka-security")
        raw: dict[str, Any] = {"bootstrap": bootstrap, "security": security}
        try:
            return Kafka.model_validate(raw)
        except ValidationError as error:
            why = str(error.errors(include_input=False)[0]["msg"]).removeprefix("Value error, ")
            raise ConfigError(f"--kafka-security: {why}") from None


def read_channels(tls: str | None, password_command: str | None, kafka_security: Iterable[str]) -> Channels:
    """From the options of `migrate new`. tls: verify, off, or a PEM file. Raises ConfigError."""
    how = {} if tls is None else {"mode": tls} if tls in ("verify", "off") else {"ca": tls}
    try:
        command = tuple(shlex.split(password_command or ""))
    except ValueError as error:
        raise ConfigError(f"--password-command: {error}") from None
    return Channels(how, command, dict(_option(one) for one in kafka_security))


def _option(text: str) -> tuple[str, str]:
    """Raises ConfigError, which shows no value."""
    name, sign, value = text.partition("=")
    if not sign:
        raise ConfigError(f"--kafka-security: '{name}' is not written as option=value")
    try:
        kafka_security.refuse(name)
    except ValueError as error:
        raise ConfigError(f"--kafka-security: {error}") from None
    if is_secret(name) and not _VARIABLE.fullmatch(value):
        raise ConfigError(
            f"--kafka-security: {name} is a secret, which no command line takes",
            hint=f"write '{name}=${{VARIABLE}}', and set that environment variable",
        )
    return name, value


def _filled(text: str, known: Mapping[str, str]) -> str:
    for sign, value in known.items():
        text = text.replace(sign, value)
    return text
