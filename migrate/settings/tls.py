"""How a session with a database server is encrypted, and how the server proves who it is (decision 0045)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator, model_validator

from migrate.settings.base import Section


class Tls(Section):
    """`verify`: the certificate and its name are checked. `off`: all is sent in plain. There is no fall-back."""

    mode: Literal["off", "verify"] | None = None
    """null: `verify`, and `off` for a loopback address of which nothing else here is set."""
    ca: Path | None = None
    """PEM file of the authorities that the server's certificate is checked against; null: the system's."""
    certificate: Path | None = None
    """PEM file of the client's certificate, for accounts that REQUIRE one; with `key`, which has no passphrase."""
    key: Path | None = None
    minimum_version: Literal["1.2", "1.3"] = "1.2"
    server_name: str | None = Field(default=None, min_length=1)
    """The name that the server's certificate must have; null: the host."""
    public_key: Path | None = None
    """PEM file of the server's RSA key: where nothing is encrypted, MySQL may be sent a password encrypted with it."""

    @field_validator("mode", mode="before")
    @classmethod
    def _unquoted(cls, value: object) -> object:
        """YAML reads off as false."""
        return "off" if value is False else value

    @model_validator(mode="after")
    def _of_the_mode(self) -> Tls:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key: one needs the other")
        if self.mode == "off" and self.encrypts:
            raise ValueError("ca, certificate, key and server_name: 'mode' is 'off', which uses none of them")
        return self

    @property
    def encrypts(self) -> bool:
        """Whether anything is set that only an encrypted session uses."""
        return any((self.ca, self.certificate, self.server_name))

    @property
    def files(self) -> dict[str, Path]:
        """The files that are named here, by setting."""
        named = {"ca": self.ca, "certificate": self.certificate, "key": self.key, "public_key": self.public_key}
        return {name: path for name, path in named.items() if path is not None}


class CarriedTls(Tls):
    """With the contents of its files, for a machine that does not have them."""

    contents: tuple[tuple[str, bytes], ...] = Field(default=(), repr=False)
