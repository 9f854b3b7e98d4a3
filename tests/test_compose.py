"""docker-compose.yml describes the sandbox's stack: same versions and settings, nothing open, no password."""

import configparser
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from sandbox.paths import PROJECT
from sandbox.settings import (
    IMAGES,
    KAFKA_HEAP_MB,
    KAFKA_IMAGE,
    KAFKA_PROPERTIES,
    Flavour,
    server_options,
)

COMPOSE: Path = PROJECT / "docker-compose.yml"

# What depends on the container's own network, and so cannot be the sandbox's.
CONTAINER_ONLY = {
    "KAFKA_HEAP_OPTS",
    "KAFKA_LISTENERS",
    "KAFKA_ADVERTISED_LISTENERS",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP",
    "KAFKA_CONTROLLER_LISTENER_NAMES",
    "KAFKA_CONTROLLER_QUORUM_VOTERS",
}


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    """The parsed file, anchors resolved."""
    parsed: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())
    return parsed


def databases(compose: dict[str, Any], flavour: Flavour) -> dict[str, dict[str, Any]]:
    """The database services of a flavour."""
    return {name: service for name, service in compose["services"].items() if name.startswith(f"{flavour}-")}


@pytest.mark.parametrize("flavour", list(Flavour), ids=str)
def test_server_settings_are_the_sandboxs(compose: dict[str, Any], flavour: Flavour) -> None:
    settings = configparser.ConfigParser()
    settings.read_string(compose["configs"][flavour]["content"])
    assert dict(settings["mysqld"]) == server_options(flavour)


@pytest.mark.parametrize("flavour", list(Flavour), ids=str)
def test_a_source_and_two_targets_of_the_pinned_version_with_ids_of_their_own(
    compose: dict[str, Any], flavour: Flavour
) -> None:
    found = databases(compose, flavour)
    assert sorted(found) == [f"{flavour}-source", f"{flavour}-target1", f"{flavour}-target2"]
    assert {service["image"] for service in found.values()} == {IMAGES[flavour]}
    assert [service["profiles"] for service in found.values()] == [[flavour]] * 3
    assert sorted(service["command"][0] for service in found.values()) == [f"--server-id={n}" for n in (1, 2, 3)]
    for service in found.values():
        assert service["configs"] == [{"source": flavour, "target": "/etc/mysql/conf.d/sandbox.cnf"}]


def test_kafka_settings_are_the_sandboxs(compose: dict[str, Any]) -> None:
    kafka = compose["services"]["kafka"]
    as_environment = {"KAFKA_" + name.upper().replace(".", "_"): value for name, value in KAFKA_PROPERTIES.items()}
    given = {name: value for name, value in kafka["environment"].items() if name not in CONTAINER_ONLY}
    assert given == as_environment
    assert kafka["environment"]["KAFKA_HEAP_OPTS"] == f"-Xmx{KAFKA_HEAP_MB}m"
    assert kafka["image"] == KAFKA_IMAGE


def test_every_image_is_pinned_to_a_full_version(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        assert re.fullmatch(r"[a-z/]+:\d+\.\d+\.\d+", service["image"])


def test_every_port_is_bound_to_the_loopback_interface(compose: dict[str, Any]) -> None:
    ports = [port for service in compose["services"].values() for port in service.get("ports", ())]
    assert len(ports) == 7
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_no_password_has_a_default(compose: dict[str, Any]) -> None:
    for flavour in Flavour:
        for service in databases(compose, flavour).values():
            (password,) = service["environment"].values()
            assert re.fullmatch(r"\$\{SANDBOX_PASSWORD:\?[^}]+\}", password)
