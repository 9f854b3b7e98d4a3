"""A source and two targets of the releases that a pair names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from migrate.mysql.connection import version_of
from migrate.preflight.server.versions import LEAST_WAY_BACK
from sandbox.database import DatabaseServer, Option
from sandbox.releases import USUAL, release
from sandbox.settings import Flavour
from sandbox.stack import Sandbox

PAIRS = (
    ("mariadb-11.8", "mariadb-11.8"),
    ("mariadb", "mariadb-11.8"),
    ("mariadb-10.5", "mariadb-11.8"),
    ("mariadb-11.4", "mariadb-11.8"),
    ("mariadb-10.5", "mariadb-10.5"),
    ("mariadb-11.8", "mariadb-10.5"),
    ("mariadb-11.8", "mysql"),
    ("mysql", "mariadb-11.8"),
    ("mariadb-10.5", "mysql"),
    ("mariadb-11.4", "mariadb-11.4"),
    ("mysql", "mariadb-11.4"),
    ("mysql-5.6", "mysql"),
    ("mysql-5.6", "mariadb-11.8"),
)
"""Those that `make test-servers` works through, of the servers asked for."""
_OLD_COLLATIONS: Mapping[str, Option] = {"character_set_collations": ""}
"""MariaDB 11.8 gives tables collations by default that other servers have not: preflight names such columns."""


def flavour_of(name: str) -> Flavour:
    found = release(name)
    return Flavour(name) if found is None else found.flavour


def installed(name: str) -> bool:
    found = release(name)
    return found is None or found.installed


def server(name: str, root: Path, number: int, options: Mapping[str, Option] | None = None) -> DatabaseServer:
    of = "" if name in USUAL else name
    return DatabaseServer(flavour_of(name), root, of=of, server_id=number, options=options)


class Pair(Sandbox):
    """A source of one server and two targets of another."""

    def __init__(self, source: str, target: str, root: Path) -> None:
        super().__init__(flavour_of(source), root, targets=0, kafka=False, keep=False)
        named = source == "mariadb-11.8" and not target.startswith("mariadb-11")
        self.source = server(source, self.root / "source", 1, _OLD_COLLATIONS if named else None)
        self.targets = [server(target, self.root / f"target{number}", 1 + number) for number in (1, 2)]


def pairs_of(names: Sequence[str]) -> list[tuple[str, str]]:
    """Those that have one of these servers, and only servers that are there."""
    return [pair for pair in PAIRS if set(names).intersection(pair) and all(map(installed, pair))]


def takes_back(box: Sandbox) -> bool:
    """Whether the reverse stream may write to the source (migrate/preflight/server/versions.py)."""
    version = version_of(str(box.source.query("SELECT VERSION()")[0][0]))
    return version[:2] >= LEAST_WAY_BACK[str(box.source.flavour)]
