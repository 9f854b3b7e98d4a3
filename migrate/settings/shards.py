"""Servers of shard tables without a migration: the part of the config file that `migrate ddl` needs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, model_validator

from migrate import config_text
from migrate.model.errors import ConfigError
from migrate.settings.base import Name, Section
from migrate.settings.loading import explained_in
from migrate.settings.model import Copy, Database, Lease, Logging, Settings
from migrate.settings.servers import State, Target


class ShardServers(Section):
    """`state`, `targets`, `databases` and `copy` as in a migration's config file, whose other keys may be there or not.

    copy_: for the replicas whose lag counts.
    """

    name: Name
    state: State
    targets: tuple[Target, ...] = Field(min_length=1)
    databases: dict[str, Database]
    copy_: Copy = Field(default=Copy(), alias="copy")
    lease: Lease = Lease()
    logging: Logging = Logging()

    @model_validator(mode="after")
    def _names_resolve(self) -> ShardServers:
        targets = {target.name for target in self.targets}
        for name, database in self.databases.items():
            if database.target not in targets:
                raise ValueError(f"databases.{name}.target: there is no target named '{database.target}'")
        return self


def is_of_migration(path: Path) -> bool:
    """Whether a config file names tables to migrate. Raises ConfigError."""
    raw, _ = config_text.read(path)
    return "tables" in raw


def load_shards(path: Path, env: Mapping[str, str] | None = None) -> ShardServers:
    """The servers of a config file, that of a migration or one that has no more than these. Raises ConfigError."""
    raw, _ = config_text.read(path)
    known = {field.alias or name for name, field in Settings.model_fields.items()}
    for key in raw:
        if key not in known:
            raise ConfigError(f"unknown key '{key}'", hint=f"in {path}; config/example.yaml shows every key")
    read = {field.alias or name for name, field in ShardServers.model_fields.items()}
    own: dict[str, Any] = {key: value for key, value in raw.items() if key in read}
    expanded = config_text.expand(own, os.environ if env is None else env)
    try:
        return ShardServers.model_validate(expanded)
    except ValidationError as error:
        raise explained_in(error, own, str(path)) from None
