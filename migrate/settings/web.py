"""`migrate web`: where it listens, and whose token may do what (decision 0033)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, SecretStr, ValidationInfo, field_validator, model_validator

from migrate.model.address import is_loopback, parse_address
from migrate.model.secrets import refuse_sample
from migrate.settings.base import Section

INSTANCE = 128
"""Characters of an application instance's name, at most."""
NOT_LOOPBACK = (
    "is not a loopback address, where tokens would be sent unencrypted: set web.tls (certificate and key), or listen on"
    " 127.0.0.1 behind a proxy that terminates TLS"
)
SHARED = "web.token is the only token: whoever has it can acknowledge a version of the switch as any instance"
SHARED_REMEDY = "give each instance a token of its own under web.tokens; web.token then only reads"
_TOKEN = 16  # characters at least
_SHORT = f"has fewer than {_TOKEN} characters"
_Instance = Annotated[str, Field(min_length=1, max_length=INSTANCE)]
_Reader = Annotated[str, Field(min_length=1, max_length=INSTANCE, pattern=r"^[^:\x00-\x1f\x7f]+$")]
"""As a user name of HTTP's Basic authentication, which has no colon and no control character (RFC 7617)."""


class Certificate(Section):
    """PEM files: the certificate with its chain, and its private key, without a passphrase."""

    certificate: Path
    key: Path


class Web(Section):
    tls: Certificate | None = None  # before `listen`, which is judged by it
    listen: str = "127.0.0.1:8087"
    token: SecretStr | None = None
    """Reads the switch; where there are no `tokens` it also acknowledges, as any instance."""
    tokens: dict[_Instance, SecretStr] = Field(default_factory=dict)
    """The token of each application instance: it reads, and acknowledges as that instance alone."""
    metrics_token: SecretStr | None = None
    """Reads /metrics alone, which `token` reads too."""
    readers: dict[_Reader, SecretStr] = Field(default_factory=dict)
    """People by name, each with a token, who read the page alone."""
    operators: dict[_Reader, SecretStr] = Field(default_factory=dict)
    """People by name, each with a token, who read the page, and act from it where `actions` is true."""
    actions: bool = False
    """Whether commands are run from the page."""

    @property
    def answers(self) -> bool:
        """Whether there is a token: without one nobody would be answered."""
        return bool(self.token or self.metrics_token or self.tokens or self.people)

    @property
    def people(self) -> dict[str, SecretStr]:
        """Whoever reads the page."""
        return {**self.readers, **self.operators}

    @property
    def is_shared(self) -> bool:
        """Whether one token stands for every instance."""
        return self.token is not None and not self.tokens

    @field_validator("listen")
    @classmethod
    def _encrypted_or_local(cls, value: str, others: ValidationInfo) -> str:
        host, _ = parse_address(value, 0)
        if others.data.get("tls", ...) is None and not is_loopback(host):
            raise ValueError(NOT_LOOPBACK)
        return value

    @field_validator("token", "metrics_token")
    @classmethod
    def _strong(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            _refuse_weak(value)
        return value

    @field_validator("tokens", "readers", "operators")
    @classmethod
    def _all_strong(cls, value: dict[str, SecretStr]) -> dict[str, SecretStr]:
        for instance, secret in value.items():
            if instance != instance.strip():
                raise ValueError(f"the name {instance!r} begins or ends with a blank")
            _refuse_weak(secret, instance)
        return value

    @model_validator(mode="after")
    def _one_owner(self) -> Web:
        """Each token tells whose it is."""
        owners: dict[str, str] = {}
        named = [("web.token", self.token), ("web.metrics_token", self.metrics_token), *self.tokens.items()]
        named += [(f"web.readers.{name}", secret) for name, secret in self.readers.items()]
        named += [(f"web.operators.{name}", secret) for name, secret in self.operators.items()]
        if both := sorted(self.readers.keys() & self.operators.keys()):
            raise ValueError(f"'{both[0]}' is under readers and under operators; take one of them out")
        for name, secret in [(name, secret) for name, secret in named if secret is not None]:
            if owner := owners.get(secret.get_secret_value()):
                raise ValueError(f"tokens: '{name}' has the same token as '{owner}'; each one needs its own")
            owners[secret.get_secret_value()] = name
        return self


def _refuse_weak(value: SecretStr, name: str = "") -> None:
    if len(value.get_secret_value()) < _TOKEN:
        raise ValueError(f"'{name}' {_SHORT}" if name else _SHORT)
    refuse_sample(value.get_secret_value(), name)
