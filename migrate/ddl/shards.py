"""Which shard tables a statement is for: those of a migration's table, of a rule file, or of nodes that are named."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import sqlalchemy as sa

from migrate.ddl.problem import Problem
from migrate.ddl.servers import Servers
from migrate.ddl.statement import LogicalStatement
from migrate.model.errors import ConfigError, PreflightError
from migrate.model.words import some
from migrate.settings import Settings
from migrate.sharding.places import Place
from migrate.sharding.rule import places_in, places_of
from migrate.sharding.shardingsphere import RuleFile
from migrate.state import ddl_member, finished, switch
from migrate.state.switch import Side
from migrate.target.groups import name_of
from migrate.target.routing import Plan, PlannedTable
from migrate.target.stored_plan import stored_plan

_DATABASES = 10  # that a hint names
_BY_A_RUN = (
    '`migrate ddl run "STATEMENT" --side targets --allow-data-loss` runs it at the target tables; then set'
    " tables[].ddl: ignore, and start again"
)


class WhichSide(StrEnum):
    BOTH = "both"
    SOURCES = "sources"
    TARGETS = "targets"


@dataclass(frozen=True, slots=True, order=True)
class Shard:
    """One physical table: of which side, at which server, in which database of that."""

    side: Side
    server: str
    database: str
    table: str

    def __str__(self) -> str:
        return f"{self.server}/{self.database}.{self.table}"


@dataclass(frozen=True)
class Wanted:
    """The shard tables of a logical table, in the order in which they are altered.

    routing: columns by which rows find their place or their key, in lower case. policy: what the publisher does about a
    statement on its source tables; "" where none reads them. key: of a table of a migration, by which its changes are
    ordered; empty where it is of none, or of one that is finished. streamed: a stream keeps its source and target
    tables alike. empties: the stream follows a TRUNCATE of a source table, whose target tables are emptied first;
    to_empty: what is to be done for that where it does not.
    reverse_policy: what the publishers of the reverse stream do about a statement on the target tables; "" while
    applications are at the sources. refused: why nothing is run at them, whatever the statement is. to_lose: the way
    out where the statement loses values or rows, and that is not allowed.
    """

    shards: tuple[Shard, ...]
    routing: frozenset[str] = frozenset()
    policy: str = ""
    key: tuple[str, ...] = ()
    streamed: bool = False
    empties: bool = False
    to_empty: str = ""
    reverse_policy: str = ""
    refused: tuple[Problem, ...] = ()
    to_lose: str = "--allow-data-loss allows it"

    @property
    def migrated(self) -> bool:
        """Whether it is a table of a migration."""
        return bool(self.key)


def of_nodes(servers: Servers, nodes: str) -> Wanted:
    """nodes: as in a sharding rule, `ds_${0..1}.orders_${0..3}`. Raises ConfigError."""
    return Wanted(_placed(servers, places_of(nodes, "--nodes"), "--nodes"))


def of_rule_file(servers: Servers, logical: LogicalStatement, path: Path) -> Wanted:
    """The nodes of the table in a ShardingSphere rule file. Raises ConfigError."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}", hint="--rule takes a ShardingSphere rule file") from None
    spec = RuleFile(text, str(path)).spec(logical.table, databases=servers.databases)
    said_by = f"{path}: table '{logical.table}'"
    return Wanted(_placed(servers, places_in(spec, said_by), said_by), frozenset(_columns(spec)))


def _columns(spec: Mapping[str, object]) -> Iterable[str]:
    for level in ("database", "table"):
        written = spec.get(level)
        if isinstance(written, dict):
            yield from (str(name).lower() for name in written.get("columns") or [written["column"]])


def _placed(servers: Servers, places: Iterable[Place], said_by: str) -> tuple[Shard, ...]:
    """said_by: what names the places, for messages."""
    found = []
    for place in places:
        if place.database not in servers.databases:
            has = some(sorted(servers.databases), _DATABASES) or "none"
            raise ConfigError(
                f"{said_by}: the data source '{place.database}' is not under 'databases' in the config",
                hint=f"databases there: {has}; add it with its target and the database's name at that server",
            )
        target, database = servers.databases[place.database]
        found.append(Shard(Side.TARGET, target, database, place.table))
    return tuple(sorted(found))


def of_migration(settings: Settings, state: sa.Engine, logical: LogicalStatement, sides: WhichSide) -> Wanted:
    """Those of a table of the migration: its target tables, and its source tables while the migration reads them; the
    side that a stream writes comes first, so that no row arrives with a column that is not there.

    Raises: ConfigError where no table has the name, PreflightError before init.
    """
    plan = stored_plan(settings, state)
    members = _named(plan, logical)
    first = members[0]
    targets = {Shard(Side.TARGET, one.database.target, one.database.database, one.table) for one in first.places}
    sources = {Shard(Side.SOURCE, *one.table.id) for one in members}
    with state.connect() as connection:
        over = finished.find(connection, settings.name) is not None
        active = switch.get(connection, settings.name).side
    if over and sides is WhichSide.SOURCES:
        raise PreflightError(f"migration '{settings.name}' is finished and reads its sources no more")
    chosen = {Side.TARGET: [] if sides is WhichSide.SOURCES else sorted(targets)}
    chosen[Side.SOURCE] = [] if sides is WhichSide.TARGETS or over else sorted(sources)
    columns = {name.lower() for one in members for name in (*one.routing, *one.table.key)}
    policies = {one.ddl.columns for one in members}
    to_empty = "" if over else _to_empty(first, sides, active)
    return Wanted(
        (*chosen[active.other], *chosen[active]),
        frozenset(columns),
        "" if not chosen[Side.SOURCE] else _policy(policies),
        () if over else tuple(first.table.key),
        streamed=not over,
        empties=not (over or to_empty),
        to_empty=to_empty,
        reverse_policy=_policy(policies) if active is Side.TARGET and chosen[Side.TARGET] and not over else "",
    )


def _to_empty(planned: PlannedTable, sides: WhichSide, active: Side) -> str:
    """What is to be done before the stream brings a TRUNCATE of a source table to its targets; "" for nothing."""
    if active is Side.TARGET:
        return "delete the rows by DELETE, which the reverse stream follows; or finish the migration first"
    if planned.group:
        return "delete the rows by DELETE, which the streams follow: a group has no `truncate: apply`"
    to_do = []
    if planned.ddl.truncate != "apply":
        to_do.append(
            "set `ddl: {truncate: apply}` for the table, stop `migrate run`, `migrate init`, and start it again"
        )
    if sides is not WhichSide.SOURCES:
        to_do.append("run it with --side sources, and the publisher empties the targets")
    return "; then ".join(to_do)


def at_targets(planned: PlannedTable) -> Wanted:
    """The target tables of a table of a migration, whose source table has the statement already."""
    places = {Shard(Side.TARGET, one.database.target, one.database.database, one.table) for one in planned.places}
    columns = {name.lower() for name in (*planned.routing, *planned.table.key)}
    key, empties = tuple(planned.table.key), planned.ddl.truncate == "apply"
    return Wanted(tuple(sorted(places)), frozenset(columns), "", key, streamed=True, empties=empties, to_lose=_BY_A_RUN)


@dataclass(frozen=True, slots=True)
class GroupProgress:
    """name: of the group whose target tables a run altered for a statement on one of its source tables. left: the
    source tables that have not come to the same statement yet."""

    name: str
    left: tuple[str, ...]


def progress_of(settings: Settings, state: sa.Engine, run: int) -> GroupProgress | None:
    """Of a run for a statement on a table of a group; None of any other."""
    with state.connect() as connection:
        had = ddl_member.of_run(connection, settings.name, run)
    plan = stored_plan(settings, state) if had else None
    planned = plan.tables.get(had[0]) if plan is not None else None
    if plan is None or planned is None:
        return None
    left = sorted(planned.members.difference(had))
    return GroupProgress(planned.group, tuple(name_of(plan.tables[id_]) for id_ in left))


def _policy(policies: Collection[str]) -> str:
    """Of tables of a group: the one that stops most."""
    return next(one for one in ("stop", "apply", "ignore") if one in policies)


def _named(plan: Plan, logical: LogicalStatement) -> list[PlannedTable]:
    """The tables of the migration that a statement speaks of: one, or all of a group."""
    found = [one for one in plan.tables.values() if _is_meant(one, logical)]
    if not found:
        names = sorted({one.group or one.table.full_name for one in plan.tables.values()})
        raise ConfigError(
            f"the migration has no table '{logical.name}'",
            hint=f"its tables: {', '.join(names[:10])}; --nodes or --rule name shard tables of no migration",
        )
    groups = {one.group or one.table.full_name for one in found}
    if len(groups) > 1:
        raise ConfigError(
            f"'{logical.name}' may be {' or '.join(sorted(groups))}", hint="name the table with its database"
        )
    return list(plan.members(found[0]))


def _is_meant(planned: PlannedTable, logical: LogicalStatement) -> bool:
    if not logical.database and planned.group == logical.table:
        return True
    same = planned.table.name == logical.table
    return same and logical.database in ("", planned.table.database)
