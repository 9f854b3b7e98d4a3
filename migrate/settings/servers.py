"""How servers are reached."""

from __future__ import annotations

from datetime import datetime
from typing import Self

from pydantic import Field, PrivateAttr, SecretStr, ValidationInfo, field_validator, model_validator

from migrate.model.address import is_loopback, parse_address
from migrate.model.log_position import parse_place
from migrate.model.secrets import refuse_sample
from migrate.settings.base import Name, Seconds, Section
from migrate.settings.tls import Tls


class Server(Section):
    """How to reach one MySQL or MariaDB server."""

    host: str
    port: int = Field(default=3306, gt=0, lt=65536)
    user: str
    password: SecretStr = SecretStr("")
    password_command: tuple[str, ...] = ()
    """A program and its arguments, run for each session: it prints the password, for example a token of a cloud's."""
    password_environment: tuple[str, ...] = ()
    """Names of further environment variables that it gets, besides PATH, HOME, LANG and the like."""
    connect_timeout: Seconds = 10.0
    read_timeout: Seconds = 600.0
    tls: Tls = Tls()

    @field_validator("password")
    @classmethod
    def _no_sample_password(cls, value: SecretStr, others: ValidationInfo) -> SecretStr:
        refuse_sample(value.get_secret_value())
        if value.get_secret_value() == others.data.get("user"):
            raise ValueError("is the user's own name; set another one, for example by ${ENV}")
        return value

    @model_validator(mode="after")
    def _one_password(self) -> Self:
        if bool(self.password_command) == ("password" in self.model_fields_set):
            raise ValueError("password or password_command: one of the two is needed")
        return self

    @model_validator(mode="after")
    def _one_channel(self) -> Self:
        if self.is_encrypted and self.tls.public_key is not None:
            raise ValueError("tls.public_key: is for 'mode: off'; over TLS nothing is encrypted with it")
        return self

    @property
    def is_encrypted(self) -> bool:
        """Whether sessions are over TLS, which is checked: as `tls.mode` says, by default wherever the network is."""
        if self.tls.mode is None:
            return self.tls.encrypts or not is_loopback(self.host)
        return self.tls.mode == "verify"

    _server: str = PrivateAttr("")

    @property
    def server(self) -> str:
        """Which server these settings are for, "server_id/UUID", where a source's position says; else "".

        An address leads to another server after a failover: a session with that one is refused (`mysql.connection`).
        """
        return self._server

    @property
    def address(self) -> str:
        """Where these settings lead, "host:port"."""
        return f"{self.host}:{self.port}"


class Source(Server):
    name: Name
    server_id: int | None = Field(default=None, gt=0, lt=2**32)
    """Our replica id towards this source; by default derived from the migration's and the source's names."""
    start: str | None = None
    """Where a publisher that never ran begins: file and position, GTID set, or time; by default where the source is."""

    @field_validator("start", mode="before")
    @classmethod
    def _start_is_a_place(cls, value: object) -> object:
        if isinstance(value, datetime):  # YAML reads an unquoted time itself
            value = value.isoformat()
        if isinstance(value, str):
            parse_place(value)
        return value

    addresses: tuple[str, ...] = ()
    """Where replicas of this server answer, "host" or "host:port", in the order in which they may take its place."""

    @model_validator(mode="after")
    def _addresses_are_apart(self) -> Source:
        for host, port in self.places:
            if self.places.count((host, port)) > 1:
                raise ValueError(f"addresses: {host}:{port} is there twice; host and port are the first one")
        return self

    def of(self, server: str) -> Source:
        """This source, as it is at one server ("server_id/UUID") and no other."""
        found = self.model_copy()
        found._server = server
        return found

    @property
    def places(self) -> tuple[tuple[str, int], ...]:
        """(host, port) of every address, in order."""
        return ((self.host.lower(), self.port), *(parse_address(address, self.port) for address in self.addresses))

    def at(self, address: str) -> Source:
        """This source at another of its addresses ("host:port"); itself when that is none of them."""
        for host, port in self.places[1:]:
            if address == f"{host}:{port}":
                return self.model_copy(update={"host": host, "port": port, "addresses": ()})
        return self


class State(Server):
    database: Name = "migrate_state"

    @property
    def shadow(self) -> str:
        """The database beside it in which statements of the sources' logs are tried on empty copies."""
        return f"{self.database}_shadow"


class Target(Server):
    name: Name
