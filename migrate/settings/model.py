"""The whole config file as frozen, validated models."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from migrate.model.errors import ConfigError
from migrate.model.message import CANAL
from migrate.model.secrets import is_secret, refuse_sample
from migrate.settings import kafka_security
from migrate.settings.alarms import Alarms
from migrate.settings.base import Name, Positive, Seconds, Section, TopicName
from migrate.settings.cutover import Cutover
from migrate.settings.hooks import PhaseHooks
from migrate.settings.metrics import Metrics
from migrate.settings.publish import Publish
from migrate.settings.servers import Server, Source, State, Target
from migrate.settings.spark import SparkOptions
from migrate.settings.tables import SourceDatabase, TableSettings, like
from migrate.settings.web import Web


class Database(Section):
    """Where a database named in a sharding rule really is."""

    target: Name
    database: str = Field(min_length=1, max_length=64)


class Kafka(Section):
    bootstrap: str
    topic: TopicName | None = None
    topics: dict[TopicName, tuple[str, ...]] = Field(default_factory=dict)
    """Further topics, each with the tables (database.table, or patterns) that go there instead of the first one."""
    group: str | None = None
    partitions: Positive = 4
    replication: Positive = 1
    retention_hours: Positive = 168
    max_message_bytes: int = Field(default=1_000_000, ge=10_000)
    security: dict[str, str | SecretStr] = Field(default_factory=dict)
    """librdkafka's options, of those in `kafka_security.ALLOWED`; those that hold a secret are SecretStr."""
    token_command: tuple[str, ...] = ()
    """With `sasl.mechanism: OAUTHBEARER`: a program and its arguments that print a token, and in a second line the Unix
    time at which it ends, where the token does not say so itself."""
    token_environment: tuple[str, ...] = ()
    """Names of further environment variables that it gets, besides PATH, HOME, LANG and the like."""

    @field_validator("security")
    @classmethod
    def _only_security(cls, value: dict[str, str | SecretStr]) -> dict[str, str | SecretStr]:
        found: dict[str, str | SecretStr] = {}
        for key, option in value.items():
            kafka_security.refuse(key)
            if is_secret(key):
                option = option if isinstance(option, SecretStr) else SecretStr(option)
                refuse_sample(option.get_secret_value(), key)
            found[key] = option
        return found

    @model_validator(mode="after")
    def _one_way_to_a_token(self) -> Self:
        if not self.token_command:
            return self
        named = {key: str(value) for key, value in self.security.items()}
        mechanism = named.get("sasl.mechanism", named.get("sasl.mechanisms", ""))
        if mechanism.upper() != "OAUTHBEARER":
            raise ValueError("token_command goes with sasl.mechanism: OAUTHBEARER under security")
        if named.get("sasl.oauthbearer.method", "default").lower() != "default":
            raise ValueError("token_command or sasl.oauthbearer.method: one of the two brings the token")
        return self

    @property
    def security_options(self) -> dict[str, str]:
        """`security` as librdkafka takes it."""
        return {
            key: value.get_secret_value() if isinstance(value, SecretStr) else value
            for key, value in self.security.items()
        }


class Failover(Section):
    back_seconds: Annotated[int, Field(ge=0)] = 60
    """Without GTID: how far before the last delivered event's time the search in the new server's log goes."""
    down_seconds: Seconds = 60.0
    """With several addresses: how long the present one may be down before the next is tried."""


class Consume(Section):
    merge_interval_seconds: Seconds = 15.0
    poll_messages: Positive = 500
    queue_bytes: Positive = 64 * 1024 * 1024
    lookup_keys: Positive = 200
    write_rows: Positive = 1000
    idle_seconds: Seconds = 5.0
    retry_seconds: Seconds = 1.0
    retry_max_seconds: Seconds = 30.0
    refused_attempts: Positive = 5
    compare_seconds: Seconds = 30.0
    """How often databases that nobody writes to are asked whether they have what they had, and Kafka whether it has
    what it acknowledged."""
    keep_decisions_seconds: float = Field(default=3600.0, ge=0)
    """How long `migrate explain` can say what was decided for a key; 0: nothing is kept."""


class Commit(Section):
    idle_seconds: Seconds = 5.0
    renew_seconds: Seconds = 3600.0
    """The broker forgets offsets that nobody commits (`offsets.retention.minutes`, a week): so they are anew."""
    cleanup_interval_seconds: Seconds = 300.0
    cleanup_age_seconds: Seconds = 300.0


class Delay(Section):
    tiers_seconds: tuple[Seconds, ...] = Field(default=(600.0, 1800.0), min_length=1, max_length=8)


class Throttle(Section):
    """When a copy begins fewer chunks at a time: above a limit, none at twice the limit. 0: no limit."""

    min_chunks: Positive = 1
    rows_per_second: int = Field(default=0, ge=0)
    max_threads_running: int = Field(default=50, ge=0)
    max_history_length: int = Field(default=1_000_000, ge=0)
    max_replica_lag_seconds: float = Field(default=10.0, ge=0)
    replicas: tuple[Server, ...] = ()
    """Replicas, of sources or of targets, whose lag counts."""


class Copy(Section):
    master: str = "local[*]"
    chunk_rows: Positive = 50_000
    chunk_bytes: Positive = 32 * 1024 * 1024
    chunk_seconds: Seconds = 20.0
    """What a chunk has at most, and about how long it may take; the next ones are made smaller when one had more."""
    write_rows: Positive = 1000
    chunks_at_once: Positive = 4
    load: Literal["auto", "insert"] = "auto"
    """How rows are written: by LOAD DATA LOCAL where the target allows it, or by INSERT alone."""
    refused: Literal["stop", "park"] = "stop"
    """What becomes of a row whose values the target does not take."""
    throttle: Throttle = Throttle()

    @model_validator(mode="after")
    def _least_is_not_above_most(self) -> Copy:
        if self.throttle.min_chunks > self.chunks_at_once:
            raise ValueError(f"throttle.min_chunks is above chunks_at_once ({self.chunks_at_once})")
        return self


class Verify(Section):
    master: str = "local[*]"
    chunk_rows: Positive = 50_000
    recheck_seconds: Seconds = 5.0
    rechecks: int = Field(default=6, ge=0)
    """Together longer than a merge interval, so that a row the stream has not come to is no difference."""
    max_named: Positive = 100
    repair_rounds: Positive = 5
    json_types: bool = False
    """Whether scalars inside MySQL's JSON are compared by type, and not by their text and the document's size alone."""


class Check(Section):
    interval_seconds: Seconds = 120.0
    chunks: Positive = 100
    wait_seconds: Seconds = 120.0
    """How long a run waits for the stream to come to what it saw at the sources."""
    repair: bool = False


class Connections(Section):
    per_server: Annotated[int, Field(ge=2, le=1000)] = 16
    """Sessions at one server over which the consumer writes databases side by side, and at most so many tasks of a copy
    or a verification at a time; `migrate preflight` holds what all processes may open against `max_connections`."""


class Lease(Section):
    seconds: Annotated[float, Field(ge=2)] = 15.0


class Logging(Section):
    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    format: Literal["console", "json"] = "console"
    log_sql: bool = False


class Settings(Section):
    """The whole config file of one migration."""

    name: Name
    state: State
    sources: tuple[Source, ...] = Field(min_length=1)
    targets: tuple[Target, ...] = Field(min_length=1)
    databases: dict[str, Database]
    source_databases: dict[str, SourceDatabase] = Field(default_factory=dict)
    """The databases that the sources' own rules name (`tables[].home`)."""
    kafka: Kafka
    tables: tuple[TableSettings, ...] = Field(min_length=1)
    publish: Publish = Publish()
    failover: Failover = Failover()
    consume: Consume = Consume()
    commit: Commit = Commit()
    delay: Delay = Delay()
    copy_: Copy = Field(default=Copy(), alias="copy")
    verify: Verify = Verify()
    check: Check = Check()
    spark_conf: SparkOptions = Field(default_factory=dict)
    """Options of Spark for copy, verification and check, beside those that the service sets."""
    cutover: Cutover = Cutover()
    web: Web = Web()
    metrics: Metrics = Metrics()
    alarms: Alarms = Alarms()
    hooks: PhaseHooks = PhaseHooks()
    connections: Connections = Connections()
    lease: Lease = Lease()
    logging: Logging = Logging()
    run_dir: Path = Path(".migrate")

    @model_validator(mode="after")
    def _names_resolve(self) -> Settings:
        _unique("sources", [source.name for source in self.sources])
        _unique("targets", [target.name for target in self.targets])
        _unique("tables", [f"{self.source_of(table)} {table.name}" for table in self.tables])
        if CANAL in (source.name for source in self.sources):
            raise ValueError(f"sources: the name '{CANAL}' stands for messages from Canal")
        if self.topic in self.kafka.topics:
            raise ValueError(f"kafka.topics: '{self.topic}' is the topic of every table that is not named there")
        targets = {target.name for target in self.targets}
        for name, database in self.databases.items():
            if database.target not in targets:
                raise ValueError(f"databases.{name}.target: there is no target named '{database.target}'")
        self._databases_are_apart()
        sources = {source.name for source in self.sources}
        self._source_databases_are_apart(sources)
        for table in self.tables:
            if table.source is None and len(sources) > 1:
                raise ValueError(f"tables: {table.name} needs 'source', one of {', '.join(sorted(sources))}")
            if table.source is not None and table.source not in sources:
                raise ValueError(f"tables: {table.name}: there is no source named '{table.source}'")
        for group in {table.group for table in self.tables if table.group is not None and table.written}:
            policies = {table.ddl.columns for table in self.tables if table.group == group}
            if "apply" in policies and len(policies) > 1:
                raise ValueError(f"tables: group '{group}': 'ddl: apply' is for all of its tables, or for none of them")
        for name in sources - {self.source_of(table) for table in self.tables}:
            raise ValueError(f"sources: '{name}' has no table under 'tables'")
        return self

    @model_validator(mode="after")
    def _sessions_suffice(self) -> Settings:
        """Two waves of chunks are under way at a time, and each chunk has a session at every server."""
        chunks, most = self.copy_.chunks_at_once, self.connections.per_server
        if 2 * chunks > most:
            raise ValueError(f"copy.chunks_at_once: {chunks} is above half of connections.per_server ({most})")
        return self

    def _databases_are_apart(self) -> None:
        """Two names for one database would share one fence: after a crash, what one has would count for the other."""
        seen: dict[tuple[str, int, str], str] = {}
        for name, database in self.databases.items():
            target = self.target(database.target)
            place = (target.host.lower(), target.port, database.database)
            if place in seen:
                raise ValueError(f"databases.{name}: is the same database as databases.{seen[place]}")
            seen[place] = name

    def _source_databases_are_apart(self, sources: set[str]) -> None:
        seen: dict[tuple[str, str], str] = {}
        for name, database in self.source_databases.items():
            if database.source not in sources:
                raise ValueError(f"source_databases.{name}.source: there is no source named '{database.source}'")
            if (other := seen.setdefault((database.source, database.database), name)) != name:
                raise ValueError(f"source_databases.{name}: is the same database as source_databases.{other}")

    @property
    def topic(self) -> str:
        return self.kafka.topic or f"migrate.{self.name}"

    @property
    def group(self) -> str:
        return self.kafka.group or f"migrate.{self.name}"

    @property
    def topics(self) -> tuple[str, ...]:
        """The main topic, then those under kafka.topics."""
        return self.topic, *self.kafka.topics

    def topic_of(self, database: str, table: str) -> str:
        """The topic that a table's changes go to: the first under kafka.topics that takes it, else the main one."""
        name = f"{database}.{table}"
        taking = (topic for topic, patterns in self.kafka.topics.items() if any(like(one, name) for one in patterns))
        return next(taking, self.topic)

    def delay_topics(self, topic: str) -> tuple[str, ...]:
        """The topics in which delayed deletes of a topic wait, by tier."""
        return tuple(f"{topic}.delay.{tier}" for tier in range(len(self.delay.tiers_seconds)))

    def source_of(self, table: TableSettings) -> str:
        return table.source or self.sources[0].name

    def choose(self, source: str, names: Iterable[tuple[str, str]]) -> list[TableSettings]:
        """The settings of each table of a source: those named, and those among (database, table) that a pattern takes.

        A name goes before a pattern, an earlier pattern before a later one.
        """
        mine = [table for table in self.tables if self.source_of(table) == source]
        chosen = {(table.database, table.table): table for table in mine if not table.is_pattern}
        patterns = [table for table in mine if table.is_pattern]
        for name in sorted(set(names) - chosen.keys()):
            if pattern := next((table for table in patterns if table.matches(*name)), None):
                chosen[name] = pattern.for_table(*name)
        return list(chosen.values())

    def source(self, name: str) -> Source:
        """The source of that name; ConfigError when there is none."""
        for source in self.sources:
            if source.name == name:
                return source
        known = ", ".join(source.name for source in self.sources)
        raise ConfigError(f"there is no source named '{name}'", hint=f"sources in the config: {known}")

    def target(self, name: str) -> Target:
        for target in self.targets:
            if target.name == name:
                return target
        raise ConfigError(f"there is no target named '{name}'")


def _unique(where: str, names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{where}: '{name}' is there twice")
