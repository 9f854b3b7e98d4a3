"""The servers that shard tables are at: those of a migration's config file, or of one that names servers alone."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from migrate.model.errors import ConfigError
from migrate.mysql.connection import Connection, connect
from migrate.settings import Logging, Server, Settings, State
from migrate.settings.shards import load_shards
from migrate.state.switch import Side

if TYPE_CHECKING:
    from collections.abc import Iterator

_DAYS = 30 * 86400.0
"""A copying ALTER says nothing before its end."""
_DEFAULT_LAG = 10.0


@dataclass(frozen=True)
class Servers:
    """name: under which the state keeps runs. databases: the target and the physical name of each that rules name.

    replicas: whose lag counts; lag: how much, in seconds, by default.
    """

    name: str
    state: State
    lease_seconds: float
    by_name: Mapping[tuple[Side, str], Server]
    databases: Mapping[str, tuple[str, str]]
    replicas: tuple[Server, ...] = ()
    lag: float = _DEFAULT_LAG
    settings: Settings | None = field(default=None, repr=False)  # of a migration

    def server(self, side: Side, name: str) -> Server:
        """Raises ConfigError where the config has it no more."""
        found = self.by_name.get((side, name))
        if found is None:
            known = ", ".join(one for where, one in self.by_name if where is side) or "none"
            raise ConfigError(f"there is no {side} named '{name}' in the config", hint=f"known: {known}")
        return found

    @contextmanager
    def session(
        self, side: Side, name: str, database: str | None = None, lock_wait: int | None = None
    ) -> Iterator[Connection]:
        """A session that waits for a statement as long as that takes. lock_wait: seconds for a lock. Raises
        ServerError."""
        server = self.server(side, name).model_copy(update={"read_timeout": _DAYS})
        waits = {} if lock_wait is None else {"lock_wait_timeout": lock_wait, "innodb_lock_wait_timeout": lock_wait}
        with closing(connect(server, f"{side} '{name}'", database=database, session=waits)) as session:
            yield session


def of_settings(settings: Settings) -> Servers:
    """Those of a migration."""
    by_name: dict[tuple[Side, str], Server] = {(Side.SOURCE, one.name): one for one in settings.sources}
    by_name |= {(Side.TARGET, one.name): one for one in settings.targets}
    databases = {name: (one.target, one.database) for name, one in settings.databases.items()}
    throttle = settings.copy_.throttle
    return Servers(
        *(settings.name, settings.state, settings.lease.seconds, by_name, databases),
        replicas=throttle.replicas,
        lag=throttle.max_replica_lag_seconds,
        settings=settings,
    )


def load_servers(path: Path) -> tuple[Servers, Logging]:
    """Those of a config file that may have nothing else, and how it has logs written. Raises ConfigError."""
    found = load_shards(path)
    by_name: dict[tuple[Side, str], Server] = {(Side.TARGET, one.name): one for one in found.targets}
    databases = {name: (one.target, one.database) for name, one in found.databases.items()}
    throttle = found.copy_.throttle
    servers = Servers(
        *(found.name, found.state, found.lease.seconds, by_name, databases),
        replicas=throttle.replicas,
        lag=throttle.max_replica_lag_seconds,
    )
    return servers, found.logging
