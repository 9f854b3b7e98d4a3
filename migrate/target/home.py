"""Home: the source table where a row of a group belongs by the sources' own rule (invariant sources-never-compare).

With it a key is asked for where its row can be, and not at every table of its group. The same rule says where the
reverse stream takes a row (docs/decisions/0044), and to that stream the sources' own rule is the forward `sharding`: a
shard table is a source of it, which of several a row belongs in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import InstanceOf

from migrate.model.change import Key
from migrate.model.errors import ConfigError, StopError
from migrate.model.message import Row
from migrate.model.table import Table, TableId
from migrate.settings import SourceDatabase, TableSettings
from migrate.sharding.rule import BROADCAST, TableRule, build_rule
from migrate.sharding.spec import spec_of

PART = "home"


def named(id_: TableId) -> str:
    """A table with its source, as messages name it."""
    source, database, table = id_
    return f"{source}/{database}.{table}"


@dataclass(frozen=True)
class Home:
    rule: TableRule
    spec: Mapping[str, object]
    tables: tuple[TableId, ...]
    """The source table of each place of the rule."""
    part: str = PART
    """The part of the config file that has the rule."""
    binds: bool = True
    """Whether the stream goes by it: it asks for a key where its row can be, and writes no row that does not belong
    where it stands. Else a verification alone says of a row where it belongs."""

    def of_all(self, rows: Sequence[Row]) -> list[TableId]:
        """Where each row belongs. Raises StopError where the rule has no table for one of them."""
        if not rows:
            return []
        columns = [[row.get(name) for row in rows] for name in self.rule.columns]
        return [self.tables[index] for index in self.rule.route_many(columns, rows=len(rows))]

    def of(self, row: Row) -> TableId:
        """As `of_all`, of one."""
        return self.of_all([row])[0]

    def elsewhere(self, here: TableId, columns: Sequence[Sequence[str | None]], rows: int) -> list[str]:
        """Of each row of a table where it belongs instead, as people read it; "" for one that belongs there.

        columns: the canonical texts of each of the rule's columns, of so many rows.
        """
        try:
            routed = self.rule.route_many(columns, rows=rows)
        except StopError as error:  # of one of them
            if rows == 1:
                return [f"no place: {error.message}"]
            return [self.elsewhere(here, [[text] for text in row], 1)[0] for row in zip(*columns, strict=True)]
        found = [self.tables[index] for index in routed]
        return ["" if id_ == here else f"{named(id_)} by `{self.part}`" for id_ in found]

    def condition(self, here: TableId) -> str | None:
        """SQL that is true for the rows that belong in a table, false or NULL for others; None where no server computes
        it."""
        if here not in self.tables:
            return None
        return self.rule.condition(self.tables.index(here)) if self.rule.columns else "TRUE"

    def is_told_by_key(self, table: Table) -> bool:
        """Whether a key alone tells where its row belongs: then all of its changes come from one table."""
        return table.key_is_exact and {*self.rule.columns} <= {*table.key}

    def of_key(self, table: Table, key: Key) -> TableId | None:
        """Where the row of a key belongs; None where the key does not tell, or has no place."""
        if not self.is_told_by_key(table):
            return None
        try:
            return self.of(dict(zip(table.key, key, strict=True)))
        except StopError:
            return None


def home_of(
    written: Mapping[str, object],
    group: str,
    column_types: Mapping[str, str],
    databases: Mapping[str, SourceDatabase],
) -> Home:
    """The sources' rule of a group, as the config has it under `home`.

    databases: where those that the rule names are. Raises ConfigError.
    """
    spec = spec_of(written, group, PART)
    if BROADCAST in spec:
        raise ConfigError(
            f"table '{group}': {PART} says that each source has every row, and a row of a group belongs to one",
            hint="name the table of one source under 'tables', without `group` and `home`: it has every row",
        )
    rule = build_rule(spec, group, column_types, PART)
    unknown = next((place.database for place in rule.places if place.database not in databases), None)
    if unknown is not None:
        raise ConfigError(
            f"table '{group}': {PART}: database '{unknown}' is not under 'source_databases'",
            hint=f"say at which source it is and how it is called there; known: {', '.join(databases) or 'none'}",
        )
    names = [databases[place.database] for place in rule.places]
    tables = tuple((one.source, one.database, place.table) for one, place in zip(names, rule.places, strict=True))
    return Home(rule, spec, tables)


def asked(home: Home | None, table: Table, key: Key, named: Collection[TableId]) -> frozenset[TableId] | None:
    """The source tables where the row of a key can be: those that are asked for it; None: all of its group.

    table: one of the group. named: the tables that changes of the key came from; none where no change says anything.
    """
    if home is None:
        return None
    if (told := home.of_key(table, key)) is not None:
        return frozenset({told, *named})
    return frozenset(named) or None


def unlike(home: Home, members: Iterable[TableId]) -> tuple[list[TableId], list[TableId]]:
    """Tables that the rule names and the group does not have, and those that it has and the rule never names."""
    there, named = {*members}, {*home.tables}
    return sorted(named - there), sorted(there - named)


class MirrorTable(TableSettings):
    """A further node of a broadcast table as a table of the reverse stream, which takes the rows from the first node
    alone (docs/decisions/0049). No config file has one."""

    mirror_of: TableId
    """The table at the first node."""

    @property
    def written(self) -> bool:
        return False


class ShardTable(TableSettings):
    """A shard table as a table of the reverse stream, which has the rule made. No config file has one."""

    belongs: InstanceOf[Home]

    @property
    def written(self) -> bool:
        return False
