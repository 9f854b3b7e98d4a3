"""What a config sends over the network without encryption (decision 0045)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from migrate.model.address import is_loopback, parse_address
from migrate.settings.model import Settings
from migrate.settings.servers import Server

_KAFKA_ENCRYPTS = frozenset({"SSL", "SASL_SSL"})
REMEDY = "`tls.mode: verify`, with the file of the server's authority as `tls.ca`"
REMEDY_KAFKA = "`kafka.security` with `security.protocol: SASL_SSL`, or SSL"


@dataclass(frozen=True, slots=True)
class PlainChannel:
    """where: "source 'main' at db:3306". remedy: the settings that encrypt it."""

    where: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.where}: not encrypted; whoever is on its network reads the rows that pass, and may change them"


def plain_channels(settings: Settings) -> list[PlainChannel]:
    """The servers, and Kafka, that are spoken to in plain, and not by the loopback interface alone."""
    found = [PlainChannel(f"{name} at {one.address}", REMEDY) for name, one in _servers(settings) if _is_plain(one)]
    security = settings.kafka.security_options
    if security.get("security.protocol", "PLAINTEXT").upper() in _KAFKA_ENCRYPTS:
        return found
    brokers = [one.strip().rpartition("://")[2] for one in settings.kafka.bootstrap.split(",")]
    away = [one for one in brokers if not _is_local(one)]
    return found + ([PlainChannel(f"Kafka at {', '.join(away)}", REMEDY_KAFKA)] if away else [])


def _servers(settings: Settings) -> Iterator[tuple[str, Server]]:
    for source in settings.sources:
        for host, port in source.places:
            yield f"source '{source.name}'", source.at(f"{host}:{port}")
    yield from ((f"target '{one.name}'", one) for one in settings.targets)
    yield "state server", settings.state
    yield from (("replica", one) for one in settings.copy_.throttle.replicas)


def _is_plain(server: Server) -> bool:
    return not server.is_encrypted and not is_loopback(server.host)


def _is_local(address: str) -> bool:
    try:
        return is_loopback(parse_address(address, 9092)[0])
    except ValueError:
        return False
