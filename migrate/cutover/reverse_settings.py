"""The reverse stream: the settings of a migration whose sources are the targets of another, and the other way round.

From the switch on, changes at the targets flow back into the source tables by the same machinery: each
target server is a source, the places of one table are a group that ends in that one table, and transactions that the
forward stream wrote are marked by its fence, so that they do not come back (invariant own-writes-marked).
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import NamedTuple

import sqlalchemy as sa

from migrate.model.errors import ConfigError
from migrate.model.table import TableId
from migrate.settings import Database, Settings, Source, TableSettings, Target
from migrate.sharding.rule import node
from migrate.state import position
from migrate.state.migration import REVERSE
from migrate.target import reverse_obstacles
from migrate.target.home import Home, MirrorTable, ShardTable
from migrate.target.ledger import GROUP
from migrate.target.routing import Plan, PlannedTable

SUFFIX = REVERSE
_LONGEST = 48 - len(SUFFIX)
_READABLE, _DIGITS = 24, 16


def reversed_settings(settings: Settings, plan: Plan) -> Settings:
    """The settings of the reverse stream of a migration; `plan` is of the forward stream.

    Raises ConfigError for what has no reverse stream.
    """
    _refuse(settings, plan)
    servers = _servers(settings, plan)
    names = _database_names(settings, plan)
    kafka = settings.kafka
    return Settings.model_validate(
        {
            **{name: value for name, value in settings if name != "copy_"},
            "copy": settings.copy_,
            "name": settings.name + SUFFIX,
            "sources": tuple(servers.values()),
            "targets": tuple(Target(**_reached(one), name=one.name) for one in settings.sources),
            "databases": {name: Database(target=where[0], database=where[1]) for where, name in names.items()},
            "source_databases": {},
            "kafka": kafka.model_copy(
                update={
                    "topic": kafka.topic and kafka.topic + SUFFIX,
                    "group": kafka.group and kafka.group + SUFFIX,
                    "topics": {},
                }
            ),
            "tables": tuple(_tables(settings, plan, servers, names)),
            "run_dir": settings.run_dir / "reverse",
            "publish": settings.publish.model_copy(
                update={
                    "position_directory": settings.publish.position_directory
                    and settings.publish.position_directory / "reverse"
                }
            ),
        }
    )


class MovedSource(NamedTuple):
    """A source that is read at another address since a failover: the reverse stream still writes to the first one."""

    source: str
    read: str
    written: str


def moved(settings: Settings, state: sa.Engine) -> list[MovedSource]:
    """Addresses are host:port. Raises ServerError of the state server."""
    now = position.where_read(state, settings)
    found = [MovedSource(one.name, now.source(one.name).address, one.address) for one in settings.sources]
    return [one for one in found if one.read.lower() != one.written.lower()]


def _refuse(settings: Settings, plan: Plan) -> None:
    if len(settings.name) > _LONGEST:
        raise ConfigError(
            f"name: '{settings.name}' leaves no room for the reverse stream's, which is {settings.name}{SUFFIX}",
            hint=f"names of migrations that are to be switched have up to {_LONGEST} characters",
        )
    for table, why, mend in reverse_obstacles.obstacles(plan):
        raise ConfigError(f"tables: {table.full_name} has no reverse stream: {why}", hint=mend)


def _reached(server: Source | Target) -> dict[str, object]:
    """How a server is reached, without its name and what else belongs to it in its part."""
    names = ("host", "port", "user", "password", "password_command", "password_environment", "connect_timeout")
    named = (name for name in (*names, "read_timeout", "tls") if name in server.model_fields_set)
    return {name: getattr(server, name) for name in named}


def _servers(settings: Settings, plan: Plan) -> dict[str, Source]:
    """The target servers that have places, each once: two targets may be one server, which has one binlog."""
    used = {settings.target(database.target).address.lower() for database in plan.used_databases}
    servers: dict[str, Source] = {}
    for target in settings.targets:  # whichever of two has tables, the server keeps its name
        if target.address.lower() in used:
            servers.setdefault(target.address.lower(), Source.model_validate({**_reached(target), "name": target.name}))
    return servers


def _named(*identity: str) -> str:
    """A name for a source's database or table, that sharding rules and groups take.

    It enters the hash of a rule that is stored when the reverse stream begins, so it depends on nothing else in the
    config.
    """
    readable = re.sub("[^A-Za-z0-9_]", "_", identity[-1])[:_READABLE]
    digest = hashlib.sha256(json.dumps(identity).encode()).hexdigest()
    return f"{readable}_{digest[:_DIGITS]}"


def _database_names(settings: Settings, plan: Plan) -> dict[tuple[str, str], str]:
    """What rules call the sources' databases: those of `home` as it does, as expressions give its names."""
    wanted = {(one.table.source, one.table.database) for one in plan.tables.values()}
    ruled = {id_[:2] for one in plan.tables.values() if one.home is not None for id_ in one.home.tables}
    by_rule = {(one.source, one.database): name for name, one in settings.source_databases.items()}
    return {where: by_rule[where] if where in ruled else _named(*where) for where in sorted(wanted)}


def _tables(
    settings: Settings,
    plan: Plan,
    servers: dict[str, Source],
    names: dict[tuple[str, str], str],
) -> list[TableSettings]:
    """A table for each place; those of one table are a group, where they are several, and those of one group are. Of a
    broadcast table that at the first node is the one, and the others are its mirrors."""
    found: list[TableSettings] = []
    wanted = {
        (source.name, one.database, one.table): one
        for source in settings.sources
        for one in settings.choose(source.name, [id_[1:] for id_ in plan.tables if id_[0] == source.name])
    }
    for planned in plan.tables.values():
        table, ruled = planned.table, planned.home
        if ruled is not None and plan.members(planned)[0] is not planned:
            continue  # of the group there is one
        sharding = {"nodes": node(names[table.source, table.database], table.name)} if ruled is None else ruled.spec
        whole = table.id if ruled is None else (GROUP, planned.group)
        shards = _shards(settings, planned, servers)
        belongs = Home(planned.rule, planned.spec, tuple(shards), "sharding", binds=ruled is not None)
        for source, database, name in shards:
            common = {
                "name": f"{database}.{name}",
                "source": source,
                "key": wanted[table.id].key,
                "ddl": wanted[table.id].ddl,
                "sharding": dict(sharding),
            }
            first = shards[0]
            if planned.broadcast and (source, database, name) != first:
                found.append(MirrorTable(**common, mirror_of=first))
            elif planned.broadcast:
                found.append(TableSettings(**common))
            elif ruled is not None or len(shards) > 1:
                found.append(ShardTable(**common, group=_named(*whole), unique_apart=True, belongs=belongs))
            else:
                found.append(TableSettings(**common))
    return found


def _shards(settings: Settings, planned: PlannedTable, servers: dict[str, Source]) -> list[TableId]:
    """The shard tables of a table, as sources, in the order of the rule's places."""
    return [
        (servers[settings.target(one.database.target).address.lower()].name, one.database.database, one.table)
        for one in planned.places
    ]
