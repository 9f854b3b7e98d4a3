"""`alarms`: what is told to whom without being asked."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from migrate.settings.base import Name, Seconds, Section

_Over = Annotated[float, Field(ge=0)] | None
_Count = Annotated[int, Field(ge=1)] | None


class When(Section):
    """Each None: no such alarm."""

    stopped_seconds: _Over = 0.0
    """A process or a partition is stopped."""
    missing_seconds: _Over = 60.0
    """No process of a kind runs."""
    unreachable_seconds: _Over = 60.0
    """A source, a target or Kafka does not answer."""
    lag_seconds: _Over = 300.0
    no_progress_seconds: _Over = 600.0
    """Something waits, and nothing of it was published or applied."""
    differences: _Count = 1
    """Rows, by the scheduled check or a verification, and not verified since."""
    parked: _Count = 1
    left_out: _Count = 1
    """Messages, and rows too large for Kafka."""
    foreign: _Count = 1
    losses: _Count = 1
    """Databases and topics that came back with less."""
    takeovers: bool = True
    """A lease went to another machine."""
    failovers: bool = True
    """A source is another server."""
    free_bytes: _Count = 2 * 1024**3
    """Fewer are free on the disk of a server that shows it, or of `run_dir`."""
    retention_share: Annotated[float, Field(gt=0, le=1)] | None = 0.5
    """What waits is older than this share of the time that the source's binlog, or Kafka, keeps it."""
    certificate_hours: _Over = None
    """The last clean verification of all tables began longer ago."""


class Receiver(Section):
    """One of `command`, `webhook` and `apprise`."""

    name: Name
    command: tuple[str, ...] = ()
    """An executable and its arguments; the alarm is in its environment."""
    environment: tuple[str, ...] = ()
    """Names of environment variables that it gets, besides PATH, HOME, USER, LANG, TZ and the like."""
    webhook: SecretStr | None = None
    form: Literal["json", "slack", "alertmanager"] = "json"
    authorization: SecretStr | None = None
    """The value of that header, for a webhook."""
    apprise: SecretStr | None = None
    """A URL of the library `apprise`."""
    seconds: Seconds = 10.0
    """How long it may take."""

    @field_validator("webhook")
    @classmethod
    def _of_http(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            parts = urlsplit(value.get_secret_value())
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError("is no URL that begins with http:// or https://")
        return value

    @model_validator(mode="after")
    def _one_way(self) -> Receiver:
        if sum(map(bool, (self.command, self.webhook, self.apprise))) != 1:
            raise ValueError(f"'{self.name}' needs one of command, webhook and apprise")
        if self.authorization is not None and self.webhook is None:
            raise ValueError(f"'{self.name}': authorization goes with a webhook")
        return self


class Alarms(Section):
    interval_seconds: Seconds = 10.0
    """Between two looks."""
    repeat_seconds: Seconds = 14400.0
    """After which what still holds is sent again."""
    event_seconds: Seconds = 900.0
    """After which what happened at one time, a takeover or a failover, is resolved."""
    when: When = When()
    to: tuple[Receiver, ...] = ()
    """Without any there are no alarms."""

    @field_validator("to")
    @classmethod
    def _apart(cls, value: tuple[Receiver, ...]) -> tuple[Receiver, ...]:
        names = [one.name for one in value]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"'{name}' is there twice")
        return value
