"""The config file as frozen, validated models: one YAML file, every key named, secrets from the environment.

`load(path)` is the only way in. Every mistake becomes one `ConfigError` line that names the key.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)

from migrate import config_text
from migrate.model.address import parse_address
from migrate.model.errors import ConfigError
from migrate.model.message import CANAL
from migrate.model.place import parse_place
from migrate.model.rowfilter import Comparison

_TABLE = re.compile(r"[^.\x00]{1,64}\.[^\x00\n]{1,64}")
_PASSING = re.compile(r"_migrate_.*|_.*_(gho|ghc|del|new|old)", re.DOTALL)
"""Tables of this service, and of online schema changes under way (gh-ost, pt-online-schema-change)."""
_PLACEHOLDER = re.compile(r"(?<!\$)\{table\}")
SAMPLE_PASSWORDS = frozenset({"", "changeme", "change-me", "password", "secret"})

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,48}$")]
TopicName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,200}$")]
Seconds = Annotated[float, Field(gt=0)]
Positive = Annotated[int, Field(gt=0)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ignored_types=(cached_property,))


class Tls(_Model):
    """TLS to one server. `verify` checks the certificate and the host name; there is no silent plain fall-back."""

    mode: Literal["off", "verify"] = "off"
    ca: Path | None = None


class Server(_Model):
    """How to reach one MySQL or MariaDB server."""

    host: str
    port: int = Field(default=3306, gt=0, lt=65536)
    user: str
    password: SecretStr
    connect_timeout: Seconds = 10.0
    read_timeout: Seconds = 600.0
    tls: Tls = Tls()

    @field_validator("password")
    @classmethod
    def _no_sample_password(cls, value: SecretStr) -> SecretStr:
        if value.get_secret_value().lower() in SAMPLE_PASSWORDS:
            raise ValueError("is empty or a sample password; set a real one, for example by ${ENV}")
        return value


class Source(Server):
    name: Name
    server_id: int | None = Field(default=None, gt=0, lt=2**32)
    """Our replica id towards this source; by default derived from the migration's and the source's names."""
    start: str | None = None
    """Where a publisher that never ran begins: file and position, GTID set, or time; by default where the source is."""

    @field_validator("start", mode="before")
    @classmethod
    def _start_is_a_place(cls, value: object) -> object:
        if isinstance(value, datetime):  # YAML reads an unquoted time itself
            value = value.isoformat()
        if isinstance(value, str):
            parse_place(value)
        return value

    addresses: tuple[str, ...] = ()
    """Where replicas of this server answer, "host" or "host:port", in the order in which they may take its place."""

    @model_validator(mode="after")
    def _addresses_are_apart(self) -> Source:
        for host, port in self.places:
            if self.places.count((host, port)) > 1:
                raise ValueError(f"addresses: {host}:{port} is there twice; host and port are the first one")
        return self

    @property
    def address(self) -> str:
        """Where these settings lead, "host:port"."""
        return f"{self.host}:{self.port}"

    @property
    def places(self) -> tuple[tuple[str, int], ...]:
        """(host, port) of every address, in order."""
        return ((self.host.lower(), self.port), *(parse_address(address, self.port) for address in self.addresses))

    def at(self, address: str) -> Source:
        """This source at another of its addresses ("host:port"); itself when that is none of them."""
        for host, port in self.places[1:]:
            if address == f"{host}:{port}":
                return self.model_copy(update={"host": host, "port": port, "addresses": ()})
        return self


class State(Server):
    database: Name = "migrate_state"

    @property
    def shadow(self) -> str:
        """The database beside it in which statements of the sources' logs are tried on empty copies."""
        return f"{self.database}_shadow"


class Target(Server):
    name: Name


class Database(_Model):
    """Where a database named in a sharding rule really is."""

    target: Name
    database: str = Field(min_length=1, max_length=64)


class Kafka(_Model):
    bootstrap: str
    topic: TopicName | None = None
    topics: dict[TopicName, tuple[str, ...]] = Field(default_factory=dict)
    """Further topics, each with the tables (database.table, or patterns) that go there instead of the first one."""
    group: str | None = None
    partitions: Positive = 4
    replication: Positive = 1
    retention_hours: Positive = 168
    max_message_bytes: int = Field(default=1_000_000, ge=10_000)
    security: dict[str, str] = Field(default_factory=dict)
    """librdkafka's security.*, sasl.* and ssl.* options."""

    @field_validator("security")
    @classmethod
    def _only_security(cls, value: dict[str, str]) -> dict[str, str]:
        for key in value:
            if not key.startswith(("security.", "sasl.", "ssl.")):
                raise ValueError(f"'{key}' is not a security.*, sasl.* or ssl.* option")
        return value


class RowCondition(_Model):
    """One condition on a table's rows: a column, and exactly one comparison."""

    column: str
    is_: Any = Field(default=None, alias="is")
    is_not: Any = None
    in_: tuple[Any, ...] = Field(default=(), alias="in")
    at_least: Any = None
    above: Any = None
    at_most: Any = None
    below: Any = None

    @model_validator(mode="after")
    def _one_comparison(self) -> RowCondition:
        if len(self.model_fields_set - {"column"}) != 1:
            tests = ", ".join(Comparison)
            raise ValueError(f"column '{self.column}' needs exactly one of {tests}")
        if self.test is Comparison.IN and not self.in_:
            raise ValueError(f"column '{self.column}': the list of 'in' is empty")
        return self

    @property
    def test(self) -> Comparison:
        (name,) = self.model_fields_set - {"column"}
        return Comparison(name.rstrip("_"))

    @property
    def values(self) -> tuple[object, ...]:
        (name,) = self.model_fields_set - {"column"}
        value = getattr(self, name)
        return value if self.test is Comparison.IN else (value,)


class TableSettings(_Model):
    name: str
    """database.table; with * and ? a pattern for every table of that kind that `migrate init` finds."""
    exclude: tuple[str, ...] = ()
    """Names or patterns that the pattern leaves out."""
    source: Name | None = None
    key: tuple[str, ...] | None = None
    ddl: Literal["stop", "ignore"] = "stop"
    """What a statement in the source's log that may change this table does to the publisher."""
    rows: tuple[RowCondition, ...] = ()
    """Only rows that meet all of these belong to the migration."""
    sharding: dict[str, Any]

    @field_validator("name")
    @classmethod
    def _database_and_table(cls, value: str) -> str:
        if not _TABLE.fullmatch(value):
            raise ValueError(f"{value!r} is not written as database.table")
        return value

    @model_validator(mode="after")
    def _excludes_from_a_pattern(self) -> TableSettings:
        if self.exclude and not self.is_pattern:
            raise ValueError(f"{self.name} is one table; 'exclude' belongs to a pattern")
        return self

    @property
    def is_pattern(self) -> bool:
        return "*" in self.name or "?" in self.name

    def matches(self, database: str, table: str) -> bool:
        """Whether the pattern takes a table of this name, letter for letter but for * and ?.

        Never one of this service, nor the passing ones of an online schema change (`_t_gho`, `_t_new` and so on).
        """
        name = f"{database}.{table}"
        if _PASSING.fullmatch(table):
            return False
        return _like(self.name, name) and not any(_like(left_out, name) for left_out in self.exclude)

    def for_table(self, database: str, table: str) -> TableSettings:
        """The settings of one table that the pattern takes; `{table}` in its sharding rule is the table's name."""
        sharding = _with_table(self.sharding, table)
        return self.model_copy(update={"name": f"{database}.{table}", "exclude": (), "sharding": sharding})

    @property
    def database(self) -> str:
        return self.name.split(".", 1)[0]

    @property
    def table(self) -> str:
        return self.name.split(".", 1)[1]


class Publish(_Model):
    flush_seconds: Seconds = 1.0
    heartbeat_seconds: Seconds = 1.0
    position_store: Literal["database", "file", "memory"] = "database"
    position_directory: Path | None = None
    """With `file`: where the position files are; by default `positions` below `run_dir`."""
    transaction_rows: Positive = 1024
    batch_rows: Positive = 1024
    """With `batch_seconds`, whole transactions go together up to so many rows; a transaction is never cut by it."""
    batch_seconds: float = Field(default=0.0, ge=0)
    """How long a transaction may wait for others to go with it; 0: each goes at once."""
    outstanding_bytes: Positive = 64 * 1024 * 1024
    oversized: Literal["stop", "park"] = "stop"
    """A row that makes a message above kafka.max_message_bytes: stop, or go on without it and name it in the status."""


class Failover(_Model):
    back_seconds: Annotated[int, Field(ge=0)] = 60
    """Without GTID: how far before the last delivered event's time the search in the new server's log goes."""
    down_seconds: Seconds = 60.0
    """With several addresses: how long the present one may be down before the next is tried."""


class Consume(_Model):
    merge_interval_seconds: Seconds = 15.0
    poll_messages: Positive = 500
    queue_bytes: Positive = 64 * 1024 * 1024
    lookup_keys: Positive = 200
    write_rows: Positive = 1000
    idle_seconds: Seconds = 5.0
    retry_seconds: Seconds = 1.0
    retry_max_seconds: Seconds = 30.0
    refused_attempts: Positive = 5


class Commit(_Model):
    idle_seconds: Seconds = 5.0
    cleanup_interval_seconds: Seconds = 300.0
    cleanup_age_seconds: Seconds = 300.0


class Delay(_Model):
    tiers_seconds: tuple[Seconds, ...] = Field(default=(600.0, 1800.0), min_length=1, max_length=8)


class Copy(_Model):
    master: str = "local[*]"
    chunk_rows: Positive = 10_000
    write_rows: Positive = 1000
    chunks_at_once: Positive = 8


class Verify(_Model):
    master: str = "local[*]"
    chunk_rows: Positive = 20_000
    recheck_seconds: Seconds = 5.0
    rechecks: int = Field(default=6, ge=0)
    """Together longer than a merge interval, so that a row the stream has not come to is no difference."""
    max_named: Positive = 100


class Lease(_Model):
    seconds: Annotated[float, Field(ge=2)] = 15.0


class Logging(_Model):
    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    format: Literal["console", "json"] = "console"
    log_sql: bool = False


class Settings(_Model):
    """The whole config file of one migration."""

    name: Name
    state: State
    sources: tuple[Source, ...] = Field(min_length=1)
    targets: tuple[Target, ...] = Field(min_length=1)
    databases: dict[str, Database]
    kafka: Kafka
    tables: tuple[TableSettings, ...] = Field(min_length=1)
    publish: Publish = Publish()
    failover: Failover = Failover()
    consume: Consume = Consume()
    commit: Commit = Commit()
    delay: Delay = Delay()
    copy_: Copy = Field(default=Copy(), alias="copy")
    verify: Verify = Verify()
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
        for table in self.tables:
            if table.source is None and len(sources) > 1:
                raise ValueError(f"tables: {table.name} needs 'source', one of {', '.join(sorted(sources))}")
            if table.source is not None and table.source not in sources:
                raise ValueError(f"tables: {table.name}: there is no source named '{table.source}'")
        for name in sources - {self.source_of(table) for table in self.tables}:
            raise ValueError(f"sources: '{name}' has no table under 'tables'")
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
        taking = (topic for topic, patterns in self.kafka.topics.items() if any(_like(one, name) for one in patterns))
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


def _like(pattern: str, name: str) -> bool:
    parts = (".*" if sign == "*" else "." if sign == "?" else re.escape(sign) for sign in pattern)
    return re.fullmatch("".join(parts), name, re.DOTALL) is not None


def _with_table(value: Any, table: str) -> Any:
    """A sharding rule with `{table}` replaced in every text; `${table}` is an expression and stays."""
    if isinstance(value, dict):
        return {key: _with_table(item, table) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_table(item, table) for item in value]
    return _PLACEHOLDER.sub(lambda _found: table, value) if isinstance(value, str) else value


def _unique(where: str, names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{where}: '{name}' is there twice")


def load(path: Path, env: Mapping[str, str] | None = None) -> Settings:
    """Read and validate the config file.

    Args: the YAML file, and the environment that `${NAME}` is looked up in.
    Raises: ConfigError, one line for each mistake, naming the key.
    """
    settings, _ = load_with_text(path, env)
    return settings


def load_with_text(path: Path, env: Mapping[str, str] | None = None) -> tuple[Settings, str]:
    """As `load`, with the text of the file as written (secrets still as `${NAME}`)."""
    raw, text = config_text.read(path)
    return parse(raw, os.environ if env is None else env, str(path)), text


def parse(raw: Mapping[str, Any], env: Mapping[str, str], where: str = "config") -> Settings:
    """Validate settings that are already a mapping. Raises ConfigError."""
    expanded = config_text.expand(raw, env)
    try:
        return Settings.model_validate(expanded)
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
        lines = [_line(detail, raw) for detail in details if not _follows(detail, details)]
        hint = f"in {where}; config/example.yaml shows every key"
        raise ConfigError("; ".join(lines), hint=hint) from None


def _follows(detail: Any, details: list[Any]) -> bool:
    """A list is also called too short when one of its items is wrong."""
    loc = detail["loc"]
    deeper = (other["loc"] for other in details if len(other["loc"]) > len(loc))
    return detail["type"] == "too_short" and any(other[: len(loc)] == loc for other in deeper)


def _line(detail: Any, raw: Mapping[str, Any]) -> str:
    key = ".".join(str(part) for part in detail["loc"])
    kind = detail["type"]
    if kind == "extra_forbidden":
        return f"unknown key '{key}'"
    if kind == "missing":
        return f"missing key '{key}'"
    message = str(detail["msg"]).removeprefix("Value error, ")
    return f"'{key}': {message}{_written(raw, detail['loc'])}" if key else message


def _written(raw: Any, loc: tuple[str | int, ...]) -> str:
    """The value as the file has it: what the environment gave is not shown, nor anything that may be a secret."""
    if "password" in loc or "security" in loc:
        return ""
    for part in loc:
        try:
            raw = raw[part]
        except (KeyError, IndexError, TypeError):
            return ""
    return f" (is {raw!r})" if isinstance(raw, str | int | float) else ""
