"""`metrics`: where each process answers Prometheus."""

from __future__ import annotations

from pathlib import Path

from pydantic import field_validator

from migrate.model.address import is_loopback, parse_address
from migrate.settings.base import Section

_ELSEWHERE = (
    "is not a loopback address, and these ports have neither TLS nor tokens: let an agent of Prometheus on this machine"
    " read them, or a proxy that terminates TLS"
)


class Metrics(Section):
    listen: str | None = None
    """host:port, a loopback address. Each process has a port of its own from there on, or a free one where it is 0."""
    directory: Path | None = None
    """Where each process says in a file at which port it answers; by default `metrics` below `run_dir`."""

    @field_validator("listen")
    @classmethod
    def _local(cls, value: str | None) -> str | None:
        if value is not None and not is_loopback(_address(value)[0]):
            raise ValueError(_ELSEWHERE)
        return value

    @property
    def where(self) -> tuple[str, int] | None:
        """Host, and the first port or 0; None: nowhere."""
        return None if self.listen is None else _address(self.listen)


def _address(listen: str) -> tuple[str, int]:
    """Raises ValueError."""
    host, _, port = listen.rpartition(":")
    if port == "0":
        return parse_address(host, 1)[0], 0
    return parse_address(listen, 0)
