"""What the checks of one run have found out: later checks go by it."""

from __future__ import annotations

from collections import Counter as Rows
from dataclasses import dataclass, field

from migrate.model.table import Table, TableId
from migrate.preflight.capacity.space import Disk
from migrate.preflight.capacity.volume import Volume
from migrate.preflight.result import Result
from migrate.preflight.schema.auto_increment import Counter
from migrate.preflight.schema.existing import Existing
from migrate.preflight.schema.full_text import Indexed
from migrate.preflight.schema.trial import Sample
from migrate.preflight.server.time_zones import Zone
from migrate.settings import Settings, TableSettings
from migrate.target.routing import Place, Plan


@dataclass(slots=True)
class SourceFacts:
    """Of all sources together; empty where none of them could be read."""

    chosen: dict[str, list[TableSettings]] = field(default_factory=dict)  # by source: its selected tables
    flavours: dict[str, str] = field(default_factory=dict)  # by source
    packet: int = 0  # the largest allowed, in bytes
    modes: list[frozenset[str]] = field(default_factory=list)
    zones: list[Zone] = field(default_factory=list)
    volumes: dict[TableId, Volume] = field(default_factory=dict)  # of the tables that are to be copied
    counters: dict[TableId, Counter | None] = field(default_factory=dict)
    spread: dict[TableId, Rows[Place]] = field(default_factory=dict)  # of tables of groups: rows looked at, by place
    statements: dict[TableId, str] = field(default_factory=dict)  # of tables with unique keys on parts or expressions
    full_text: dict[str, Indexed] = field(default_factory=dict)  # by source, of those with full-text keys
    samples: list[Sample] = field(default_factory=list)  # of the tables that init would make


@dataclass(slots=True)
class TargetFacts:
    """Of all targets together; empty where none of them could be read."""

    existing: dict[str, list[Existing]] = field(default_factory=dict)  # by target: the tables that it has already
    next_ids: dict[Place, int] = field(default_factory=dict)
    disks: dict[str, Disk] = field(default_factory=dict)  # by target


@dataclass(slots=True)
class StateFacts:
    """Of the state database."""

    is_read: bool = False  # whether `version` is known
    version: int | None = None  # None: there is no such database yet
    begun: frozenset[TableId] = frozenset()  # source tables that init would take with rows at their shard tables
    copied: frozenset[TableId] = frozenset()  # source tables whose rows are at the targets


@dataclass(slots=True)
class KnownFacts:
    """reverse: the reverse stream is checked: its targets have the rows already, and applications write there.

    is_strict: for `init`: what a check meets at a source is raised, as init cannot go on without it.
    """

    settings: Settings
    reverse: bool = False
    is_strict: bool = False
    results: list[Result] = field(default_factory=list)
    tables: dict[TableId, Table] = field(default_factory=dict)  # whose definitions could be read, and are usable
    plan: Plan | None = None
    away: set[str] = field(default_factory=set)  # servers that do not answer, as "target 't0'"
    kafka_answers: bool = False
    sources: SourceFacts = field(default_factory=SourceFacts)
    targets: TargetFacts = field(default_factory=TargetFacts)
    state: StateFacts = field(default_factory=StateFacts)
