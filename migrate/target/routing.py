"""Where every table's rows go: tables, their rules, and the physical places behind them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property

from migrate.model.change import Key, partition_of
from migrate.model.errors import Code, ConfigError, ServerError, StopError
from migrate.model.message import CANAL, Row
from migrate.model.rowfilter import RowFilter, make_filter
from migrate.model.table import Column, Table, TableId
from migrate.settings import Settings, TableSettings
from migrate.settings.tables import STOP, DdlPolicy
from migrate.sharding.columns import column_types
from migrate.sharding.rule import TableRule, build_rule
from migrate.sharding.spec import spec_of
from migrate.target import update_time
from migrate.target.home import Home, MirrorTable, ShardTable, home_of
from migrate.target.ledger import GROUP


@dataclass(frozen=True, slots=True, order=True)
class TargetDatabase:
    """One physical database: `name` as the sharding rules say, on the server `target`, called `database` there."""

    name: str
    target: str
    database: str


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """One physical target table in one database."""

    database: TargetDatabase
    table: str

    def __str__(self) -> str:
        return f"{self.database.target}/{self.database.database}.{self.table}"


@dataclass(frozen=True)
class PlannedTable:
    table: Table
    rule: TableRule
    places: tuple[Place, ...]
    spec: Mapping[str, object]
    rows: RowFilter | None = None
    topic: str = ""  # that its changes go to; "" for the main one
    ddl: DdlPolicy = STOP  # what a statement in the log that may change the table does
    first: Table | None = None  # the table as init found it; None: as it is here
    group: str = ""  # whose tables share their places; "" for a table with places of its own
    unique_apart: bool = False  # no two tables of the group, or of the places, hold the same values of a unique key
    belongs: Home | None = None  # where each row of the group belongs at the side that is read
    mirrors: tuple[TableId, ...] = ()  # of a broadcast table that is read: its other nodes, which are compared alone
    mirror_of: TableId | None = None  # it is such a node, of this table: none of its changes is applied
    update_time: str | None = None  # the column by which changes that are older than a target's row are skipped
    members: frozenset[TableId] = frozenset()  # of its group, itself among them

    @cached_property
    def _by_name(self) -> dict[tuple[str, str], Place]:
        return {(place.database.name, place.table): place for place in self.places}

    @cached_property
    def databases(self) -> tuple[TargetDatabase, ...]:
        return tuple(sorted({place.database for place in self.places}))

    def route_all(self, rows: Sequence[Row]) -> list[Place]:
        """The place of each row. Raises StopError when no place takes one of them; `route` tells which."""
        if not rows:
            return []
        columns = [[row.get(name) for row in rows] for name in self.rule.columns]
        places = self.places
        return [places[index] for index in self.rule.route_many(columns, rows=len(rows))]

    def route(self, row: Row) -> Place:
        """The place of a row, of a broadcast table the first. Raises StopError when no place takes it."""
        found = self.rule.route({name: row.get(name) for name in self.rule.columns})
        return self._by_name[(found.database, found.table)]

    def places_of(self, row: Row) -> tuple[Place, ...]:
        """Where a row is to be: in one place; of a broadcast table in each. Raises StopError when no place takes it."""
        return self.places if self.broadcast else (self.route(row),)

    @property
    def broadcast(self) -> bool:
        """Whether each row is at every place."""
        return self.rule.broadcast

    @property
    def nodes(self) -> int:
        """At how many nodes each row is, at the side where the table is a broadcast table; 0 where it is none."""
        return len(self.places) if self.broadcast else 1 + len(self.mirrors) if self.mirrors else 0

    def indexes(self, place: int) -> Sequence[int]:
        """The places, by their indexes, of rows that the rule takes to one."""
        return range(len(self.places)) if self.broadcast else (place,)

    @property
    def read_at(self) -> tuple[str, ...]:
        """The sources that have its rows: one, and those of the other nodes of a broadcast table that is read."""
        return tuple(dict.fromkeys((self.table.source, *(source for source, _, _ in self.mirrors))))

    @property
    def mirror_tables(self) -> list[Table]:
        """The table as it is at the other nodes."""
        return [replace(self.table, source=one[0], database=one[1], name=one[2]) for one in self.mirrors]

    @property
    def home(self) -> Home | None:
        """Where each row of the group belongs at the sources, where the stream goes by it."""
        return self.belongs if self.belongs is not None and self.belongs.binds else None

    @cached_property
    def routing(self) -> tuple[str, ...]:
        """The columns that tell the stream where a row belongs, at either side."""
        return tuple(dict.fromkeys((*self.rule.columns, *(self.home.rule.columns if self.home is not None else ()))))

    @cached_property
    def key_tells_home(self) -> bool:
        """Whether a key alone tells the one source table, of several, that its row belongs to."""
        return self.home is not None and self.home.is_told_by_key(self.table)

    def misplaced(self, rows: Sequence[Row]) -> list[TableId | None]:
        """Of each row of this table the other source table that it belongs to; None where it belongs here.

        Raises StopError where the sources' rule has no table for one of them.
        """
        if self.home is None:
            return [None] * len(rows)
        own = self.table.id
        return [None if id_ == own else id_ for id_ in self.home.of_all(rows)]

    @cached_property
    def own_rows(self) -> str | None:
        """SQL that is true for the rows that belong to this source table, false or NULL for others; None where no
        server computes it. Without such a rule all of them do."""
        return "TRUE" if self.belongs is None else self.belongs.condition(self.table.id)

    @cached_property
    def belongs_by(self) -> tuple[Column, ...]:
        """The columns that tell where a row belongs at the side that is read. Raises StopError where one is gone."""
        names = () if self.belongs is None else self.belongs.rule.columns
        if gone := [name for name in names if name not in self.table.by_name]:
            raise StopError(
                f"{self.table.full_name} has no column '{gone[0]}' any more, by which its rows are sharded",
                hint="give it back: without it nothing tells whether a row is where it belongs",
                code=Code.DEFINITION,
            )
        return tuple(self.table.by_name[name] for name in names)

    def elsewhere(self, columns: Sequence[Sequence[str | None]], rows: int) -> list[str]:
        """As `Home.elsewhere`, of so many rows of this table. columns: the texts of each of `belongs_by`."""
        return [""] * rows if self.belongs is None else self.belongs.elsewhere(self.table.id, columns, rows)

    @property
    def hashed(self) -> tuple[str, str]:
        """The two names that choose a key's partition: the same for all tables of a group (invariant per-key-order)."""
        return (GROUP, self.group) if self.group else (self.table.database, self.table.name)

    def partition(self, key: Key, partitions: int) -> int:
        """The number of the partition that the changes of a key travel in."""
        return partition_of(*self.hashed, None if self.table.one_partition else key, partitions)

    def partitions(self, count: int) -> Iterable[int]:
        """Those that the table's changes travel in. count: of its topic."""
        return (self.partition((), count),) if self.table.one_partition else range(count)

    @cached_property
    def conditions(self) -> tuple[str | None, ...]:
        """SQL that is true for a place's rows and for no others, for each place; None where no server computes it."""
        if not self.rule.columns:
            return ("TRUE",) * len(self.places)  # the only place there is, or every one
        return tuple(self.rule.condition(index) for index in range(len(self.places)))

    @cached_property
    def noted_as(self) -> Table:
        """The table as the delete ledger knows it: of a group there is one, as the places are the same."""
        if self.mirror_of is not None:
            source, database, name = self.mirror_of
            return replace(self.table, source=source, database=database, name=name)
        return replace(self.table, source=GROUP, database="", name=self.group) if self.group else self.table

    @cached_property
    def rule_hash(self) -> str:
        """Changes when sharding, row conditions, topic or group do, or the columns or key that init found: another copy
        is not resumed. Columns that changed since then are in the schema history."""
        return self._hash(self.rows)

    @cached_property
    def base_hash(self) -> str:
        """As `rule_hash`, whatever the row conditions are."""
        return self._hash(None)

    def _hash(self, rows: RowFilter | None) -> str:
        table = self.first or self.table
        columns = [{**asdict(column), "kind": column.kind.value} for column in table.columns]
        parts: list[object] = [columns, table.key, self.spec, [str(place) for place in self.places]]
        if rows is not None:
            parts.append([(item.column.name, item.test, item.values) for item in rows.conditions])
        if self.topic:
            parts.append(self.topic)
        if self.group:
            parts.append({"group": self.group})
        if self.home is not None:
            parts.append({"home": [self.home.spec, self.home.tables]})
        if self.mirrors or self.mirror_of:
            parts.append({"mirrors": [self.mirrors, self.mirror_of]})
        text = json.dumps(parts, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()


class Plan:
    """The whole migration: every table with its rule and places."""

    def __init__(
        self, settings: Settings, tables: Mapping[TableId, Table], first: Mapping[TableId, Table] | None = None
    ) -> None:
        """tables: as they are now; first: as init found them, where that is another time."""
        self.settings = settings
        self._first = first or {}
        self.databases = {
            name: TargetDatabase(name, database.target, database.database)
            for name, database in settings.databases.items()
        }
        self._homes: dict[tuple[str, str], Home] = {}
        self._mirrors: dict[TableId, list[TableId]] = {}
        for one in settings.tables:
            if isinstance(one, MirrorTable) and (id_ := (settings.source_of(one), one.database, one.table)) in tables:
                self._mirrors.setdefault(one.mirror_of, []).append(id_)
        self.tables: dict[TableId, PlannedTable] = {}
        for source in settings.sources:
            there = [key[1:] for key in tables if key[0] == source.name]
            for wanted in settings.choose(source.name, there):
                key = (source.name, wanted.database, wanted.table)
                if key not in tables:
                    raise ConfigError(f"table {wanted.name} was added after init", hint="run `migrate init` again")
                self.tables[key] = self._plan(wanted, tables[key])
        self._groups = self._join_groups()
        self._by_table = {key[1:]: planned for key, planned in self.tables.items()}

    def _join_groups(self) -> dict[str, list[PlannedTable]]:
        """Tell the tables of each group what its members are; the groups."""
        groups: dict[str, list[TableId]] = {}
        for id_, planned in self.tables.items():
            if planned.group:
                groups.setdefault(planned.group, []).append(id_)
        for ids in groups.values():
            members = frozenset(ids)  # one for all of them
            self.tables |= {id_: replace(self.tables[id_], members=members) for id_ in ids}
        return {group: [self.tables[id_] for id_ in ids] for group, ids in groups.items()}

    def _plan(self, wanted: TableSettings, table: Table) -> PlannedTable:
        spec = spec_of(wanted.sharding, wanted.name, databases=self.databases)
        rule = build_rule(spec, wanted.name, column_types(table))
        if rule.broadcast and wanted.group is not None:
            raise ConfigError(
                f"tables: {wanted.name}: each row is at every node, so it can be of no `group`",
                hint="name the table of one source alone, without `group` and `home`: of sharded sources each has all"
                " rows",
            )
        for name in rule.columns:
            if name not in table.by_name:
                raise ConfigError(
                    f"tables: {wanted.name}: sharding column '{name}' is not a column of the table",
                    hint=f"its columns: {', '.join(table.by_name)}",
                )
        places = []
        for place in rule.places:
            if place.database not in self.databases:
                raise ConfigError(
                    f"tables: {wanted.name}: database '{place.database}' of the sharding rule is not under 'databases'",
                    hint=f"databases in the config: {', '.join(sorted(self.databases))}",
                )
            places.append(Place(self.databases[place.database], place.table))
        rows = make_filter(table, [(item.column, item.test, item.values) for item in wanted.rows])
        topic = self.settings.topic_of(table.database, table.name)
        other = "" if topic == self.settings.topic else topic
        first = self._first.get(table.id)
        group, apart = wanted.group or "", wanted.unique_apart
        belongs = wanted.belongs if isinstance(wanted, ShardTable) else self._home(wanted, table)
        mirrors = tuple(self._mirrors.get(table.id, ())), wanted.mirror_of if isinstance(wanted, MirrorTable) else None
        by = update_time.checked(wanted.update_time, table)
        return PlannedTable(
            table, rule, tuple(places), spec, rows, other, wanted.ddl, first, group, apart, belongs, *mirrors, by
        )

    def _home(self, wanted: TableSettings, table: Table) -> Home | None:
        """Made once for tables that are alike."""
        if wanted.home is None or wanted.group is None:
            return None
        types = column_types(table)
        key = (wanted.group, repr((wanted.home, types)))
        if key not in self._homes:
            self._homes[key] = home_of(wanted.home, wanted.group, types, self.settings.source_databases)
        return self._homes[key]

    def members(self, planned: PlannedTable) -> Sequence[PlannedTable]:
        """The tables whose rows go to a table's places: those of its group, or itself alone; of a mirror its first
        node."""
        return self._groups[planned.group] if planned.group else (self.leader(planned),)

    def leader(self, planned: PlannedTable) -> PlannedTable:
        """The table itself; of a mirror that at the first node, whose changes are applied."""
        return planned if planned.mirror_of is None else self.tables[planned.mirror_of]

    def group(self, name: str) -> PlannedTable:
        """The first table of a group."""
        return self._groups[name][0]

    def refuse_outdated(self, noted: Mapping[TableId, str]) -> None:
        """Raise ServerError when `migrate init` has noted other members or rules than these since this was planned.

        noted: each member's `rule_hash`, as it is stored now; one that has none there is taken as it is.
        """
        for source, name, table in sorted(id_ for id_, rule in noted.items() if self._rule(id_) != rule):
            raise ServerError(
                f"{name}.{table} of source '{source}' was added or changed by `migrate init` since this process began",
                hint="the process ends; `migrate run` starts it again with the new config, otherwise start it yourself",
            )

    def _rule(self, id_: TableId) -> str | None:
        return self.tables[id_].rule_hash if id_ in self.tables else None

    def find(self, source: str, database: str, table: str) -> PlannedTable:
        """The planned table a message speaks of. Raises StopError when it is not ours."""
        anywhere = self._by_table if source == CANAL else {}
        found = self.tables.get((source, database, table)) or anywhere.get((database, table))
        if found is None:
            raise StopError(
                f"a message names table {database}.{table} of source '{source}', which is not in the config",
                hint="add it to 'tables' and run `migrate init` again, or clean the topic's producer",
                code=Code.DEFINITION,
            )
        return found

    @cached_property
    def used_databases(self) -> tuple[TargetDatabase, ...]:
        return tuple(sorted({place.database for planned in self.tables.values() for place in planned.places}))
