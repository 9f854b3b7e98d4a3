"""`migrate new`: looks at the servers and their tables, and proposes a config file for `migrate preflight`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import yaml

from migrate.commands.new_config_channels import Channels
from migrate.commands.new_config_text import ConfigText, ProposedServer, ProposedTable, config_text
from migrate.commands.proposed_rule import Nodes, proposed_rule
from migrate.kafka.admin import brokers
from migrate.model.address import parse_address
from migrate.model.errors import ConfigError, MigrateError
from migrate.model.secrets import refuse_sample
from migrate.model.table import Table
from migrate.mysql.catalog import base_tables
from migrate.mysql.connection import Connection, connect
from migrate.mysql.quoting import table as full_name
from migrate.preflight.schema import tables as preflight_tables
from migrate.settings import Server, Settings, TableSettings, parse
from migrate.settings.tables import is_pattern
from migrate.sharding.rule import node

_ACCOUNT = re.compile(r"([^@:$]+)(?::\$\{([A-Za-z_][A-Za-z0-9_]*)\})?@(.+)")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REPLICAS = 3
_LONGEST = 64
"""Characters of a name of a database or a table."""
Password = Callable[[str], str]
"""From the name of an environment variable to what is in it; raises ConfigError where it is not set."""
SOURCE, TARGET = "SOURCE_PASSWORD", "TARGET_PASSWORD"
FORM = "user@host:port, or user:${VARIABLE}@host:port where its password is in that environment variable"


@dataclass(frozen=True, slots=True)
class Account:
    """A server with the account there: never with its password, but with the variable that has it."""

    user: str
    host: str
    port: int
    variable: str

    @classmethod
    def read(cls, text: str, option: str, variable: str) -> Account:
        """variable: where the text names none. Raises ConfigError, which never shows what may be a password."""
        match = _ACCOUNT.fullmatch(text)
        if match is None:
            shown = f"'{text}'" if "@" not in text or ":" not in text.split("@")[0] else "what was given"
            raise ConfigError(f"{option}: {shown} is not written as user@host:port", hint=f"write {FORM}")
        try:
            host, port = parse_address(match[3], 3306)
        except ValueError as error:
            raise ConfigError(f"{option}: {error}", hint=f"write {FORM}") from None
        return cls(match[1], host, port, match[2] or variable)

    def proposed(self, channels: Channels, name: str = "") -> ProposedServer:
        command = channels.command(self.host, self.port, self.user)
        return ProposedServer(name, self.host, self.port, self.user, self.variable, channels.tls, command)

    def settings(self, password: Password, channels: Channels) -> Server:
        """Raises ConfigError."""
        where: dict[str, Any] = {"host": self.host, "port": self.port, "user": self.user, "tls": channels.tls}
        if channels.password_command:
            return Server.model_validate(
                {**where, "password_command": channels.command(self.host, self.port, self.user)}
            )
        secret = password(self.variable)
        try:
            refuse_sample(secret)
        except ValueError as error:
            raise ConfigError(f"environment variable {self.variable}: {error}") from None
        return Server.model_validate({**where, "password": secret})


@dataclass(frozen=True, slots=True)
class Answers:
    """What a person said. tables: names, or patterns. columns: those to shard by, by table. whole: tables, or patterns,
    that are not sharded. databases, tables_each: shard databases in all, and shard tables in each. shard_from: rows
    below which a table stays whole."""

    name: str
    source: Account
    targets: Sequence[Account]
    state: Account
    bootstrap: str
    tables: Sequence[str]
    columns: Mapping[str, str] = field(default_factory=dict)
    whole: Sequence[str] = ()
    databases: int = 4
    tables_each: int = 4
    shard_from: int = 10_000
    channels: Channels = field(default_factory=Channels)


@dataclass(frozen=True, slots=True)
class NewConfig:
    text: str
    tables: Sequence[ProposedTable]
    variables: Sequence[str]
    """Environment variables that the config takes its passwords from."""


def tables_of(source: Account, password: Password, channels: Channels) -> list[str]:
    """Tables that the source shows to this account, as database.table. Raises MigrateError."""
    with closing(connect(source.settings(password, channels), "source 'main'")) as connection:
        return sorted(f"{database}.{table}" for database, table in base_tables(connection))


def new_config(answers: Answers, password: Password) -> NewConfig:
    """Look at every server and every table, and write a config for them. Raises MigrateError."""
    channels = answers.channels
    connect(answers.source.settings(password, channels), "source 'main'").close()
    for number, target in enumerate(answers.targets):
        connect(target.settings(password, channels), f"target 't{number}'").close()
    connect(answers.state.settings(password, channels), "state server").close()
    kafka = channels.kafka(answers.bootstrap, {name: password(name) for name in channels.variables})
    replication = min(_REPLICAS, brokers(kafka))
    layout = _Layout(answers)
    with closing(connect(answers.source.settings(password, channels), "source 'main'")) as connection:
        proposed = [_proposed(connection, answers, layout, *one) for one in _chosen(connection, answers)]
    accounts = () if channels.password_command else (answers.source, *answers.targets, answers.state)
    variables = list(dict.fromkeys([*(one.variable for one in accounts), *channels.variables]))
    text = config_text(
        ConfigText(
            name=answers.name,
            state=answers.state.proposed(channels),
            source=answers.source.proposed(channels, "main"),
            targets=[target.proposed(channels, f"t{number}") for number, target in enumerate(answers.targets)],
            databases=layout.used,
            bootstrap=answers.bootstrap,
            replication=replication,
            kafka_security=channels.kafka_security,
            tables=proposed,
        )
    )
    _checked(text, {name: password(name) for name in variables})
    return NewConfig(text, proposed, variables)


def _checked(text: str, environment: Mapping[str, str]) -> Settings:
    """What was written is read as it will be. Raises ConfigError."""
    return parse(yaml.safe_load(text), environment, "the new config")


class _Layout:
    """Which databases there are, and on which target each is; those that no table uses are not written."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self.used: dict[str, tuple[str, str]] = {}  # name in rules: target, name at the target
        self._prefixes: dict[str, str] = {}

    def use(self, names: Iterable[str]) -> None:
        for name in names:
            number = int(name.rpartition("_")[2])
            self.used[name] = (f"t{number % len(self._answers.targets)}", name)

    def database(self, source: str, number: int) -> str:
        """The name, in rules, of the shard database `number` of a database of the source."""
        prefix = self._prefixes.get(source)
        if prefix is None:
            plain = _PLAIN.fullmatch(source) and len(source) <= _LONGEST - 4
            prefix = self._prefixes[source] = source if plain else f"db{len(self._prefixes)}"
        return f"{prefix}_{number}"

    def nodes(self, table: Table) -> Nodes:
        """Shard tables numbered across the databases, so that one column chooses both."""
        each, count = self._answers.tables_each, self._answers.tables_each * self._answers.databases
        plain = _PLAIN.fullmatch(table.name) is not None
        texts: list[str] = []
        for number in range(self._answers.databases):
            database, first = self.database(table.database, number), number * each
            if plain:
                texts.append(f"{database}.{table.name}_" + (f"${{{first}..{first + each - 1}}}"))
            else:
                texts += [node(database, f"{table.name}_{one}") for one in range(first, first + each)]
        return Nodes(tuple(texts), count, plain)

    def fits(self, table: Table) -> bool:
        most = self._answers.tables_each * self._answers.databases - 1
        return len(f"{table.name}_{most}") <= _LONGEST


def _chosen(connection: Connection, answers: Answers) -> list[tuple[str, str]]:
    """Tables that the names and patterns take. Raises ConfigError for one that takes none."""
    there = sorted(base_tables(connection))
    found: dict[tuple[str, str], None] = {}
    for wanted in answers.tables:
        some = [one for one in there if _takes(wanted, one)]
        if not some:
            like = "like " if is_pattern(wanted) else ""
            raise ConfigError(
                f"the source has no table {like}{wanted} that {answers.source.user} sees",
                hint="write database.table; * stands for any letters, ? for one; docs/grants.md has the grants",
            )
        found.update(dict.fromkeys(some))
    for asked in (*answers.columns, *answers.whole):
        if not any(_takes(asked, one) for one in found):
            raise ConfigError(f"{asked} is none of the tables to move", hint="name it with --table too")
    return list(found)


def _takes(wanted: str, table: tuple[str, str]) -> bool:
    """Raises ConfigError for what is no name."""
    try:
        settings = TableSettings(name=wanted, sharding={})
    except ValueError:
        raise ConfigError(f"'{wanted}' is not written as database.table") from None
    return settings.matches(*table) if settings.is_pattern else (settings.database, settings.table) == table


def _proposed(connection: Connection, answers: Answers, layout: _Layout, database: str, name: str) -> ProposedTable:
    full = f"{database}.{name}"
    try:
        table, results = preflight_tables.check(connection, "main", TableSettings(name=full, sharding={}))
    except MigrateError as error:
        return ProposedTable(full, left_out=error.message)
    if table is None:
        return ProposedTable(full, left_out=results[0].message)
    why = _whole(connection, answers, layout, table)
    if not why:
        rule = proposed_rule(connection, table, layout.nodes(table), _column(answers, full))
        if rule is not None:
            layout.use(layout.database(database, number) for number in range(answers.databases))
            return ProposedTable(full, sharding=rule.spec, rule=rule)
        why = "it has no column that can be sharded by"
    place = layout.database(database, 0)
    layout.use([place])
    return ProposedTable(full, sharding={"nodes": node(place, name)}, why_whole=why)


def _column(answers: Answers, full: str) -> str | None:
    return answers.columns.get(full)


def _whole(connection: Connection, answers: Answers, layout: _Layout, table: Table) -> str:
    """Why a table is not sharded; "" where it is."""
    if any(_takes(one, (table.database, table.name)) for one in answers.whole):
        return "as was asked for"
    if answers.databases * answers.tables_each == 1:
        return "there is one shard table"
    if not layout.fits(table):
        return f"a number behind its name would make more than {_LONGEST} characters"
    if _column(answers, table.full_name) is not None or answers.shard_from == 0:
        return ""
    some = f"SELECT 1 FROM {full_name(table.database, table.name)} LIMIT {answers.shard_from}"
    ((rows,),) = connection.query(f"SELECT COUNT(*) FROM ({some}) AS some")
    return f"it has {int(rows):,} rows" if int(rows) < answers.shard_from else ""
