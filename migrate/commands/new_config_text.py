"""The text of a new config file: YAML with a comment at what a person should look at. No password is ever in it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from migrate.commands.proposed_rule import ProposedRule

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
"""What YAML takes for something else than a text (yaml.org/type/bool.html)."""


@dataclass(frozen=True, slots=True)
class ProposedServer:
    name: str
    host: str
    port: int
    user: str
    variable: str
    tls: Mapping[str, str] = field(default_factory=dict)
    password_command: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ProposedTable:
    """One table: left out, whole, or sharded; with what a person should know about it."""

    name: str
    sharding: Mapping[str, Any] | None = None
    rule: ProposedRule | None = None
    why_whole: str = ""
    left_out: str = ""

    @property
    def told(self) -> str:
        """One line about it."""
        if self.left_out:
            return f"left out: {self.left_out}"
        rule = self.rule
        if rule is None:
            return f"stays whole: {self.why_whole}"
        if rule.skew is None:
            return f"sharded by {rule.column}; it has no rows yet"
        told = f"sharded by {rule.column}: of {rule.rows:,} rows looked at {rule.fewest:,} to {rule.most:,} in a table"
        return told + (f"; as even: {', '.join(rule.others)}" if rule.others else "")


@dataclass(frozen=True, slots=True)
class ConfigText:
    name: str
    state: ProposedServer
    source: ProposedServer
    targets: Sequence[ProposedServer]
    databases: Mapping[str, tuple[str, str]]
    bootstrap: str
    replication: int
    tables: Sequence[ProposedTable]
    kafka_security: Mapping[str, str] = field(default_factory=dict)


def config_text(wanted: ConfigText) -> str:
    """The file."""
    return "\n".join(_lines(wanted)) + "\n"


def _lines(wanted: ConfigText) -> Iterator[str]:
    yield "# Written by `migrate new`. Next: `migrate preflight`, which checks it and names what must be fixed."
    yield "# config/example.yaml shows every key with its default; passwords come from environment variables."
    yield f"name: {_text(wanted.name)}"
    yield ""
    yield "# Where the service keeps its own state; `migrate init` creates the database."
    yield "state:"
    yield from _server(wanted.state, "  ")
    yield "  database: migrate_state"
    yield ""
    yield "# Read as a replica: log_bin, binlog_format=ROW, binlog_row_image=FULL, and the grants of docs/grants.md."
    yield "sources:"
    yield from _listed(wanted.source)
    yield ""
    yield "targets:"
    for server in wanted.targets:
        yield from _listed(server)
    yield ""
    yield "# Databases as the sharding rules name them, each with its target and its name there."
    yield "databases:"
    for name, (target, database) in wanted.databases.items():
        yield f"  {_text(name)}: {{target: {target}, database: {_text(database)}}}"
    yield ""
    yield "kafka:"
    yield f"  bootstrap: {_text(wanted.bootstrap)}"
    yield "  partitions: 4                  # to raise it later, the migration is paused: docs/operations.md"
    yield f"  replication: {wanted.replication}                 # of each partition; 3 where there are three brokers"
    yield "  retention_hours: 168           # longer than the longest time that the consumer may be behind"
    if wanted.kafka_security:
        yield f"  security: {_mapping(wanted.kafka_security)}"
    yield ""
    yield "# Which shard table a row belongs to, as ShardingSphere has it: docs/sharding.md. The application will use"
    yield "# the same rules; after `migrate init` they are fixed."
    yield "tables:"
    for table in wanted.tables:
        yield from _table(table)


def _listed(server: ProposedServer) -> Iterator[str]:
    yield f"  - name: {_text(server.name)}"
    yield from _server(server, "    ")


def _server(server: ProposedServer, indent: str) -> Iterator[str]:
    yield f"{indent}host: {_text(server.host)}"
    yield f"{indent}port: {server.port}"
    yield f"{indent}user: {_text(server.user)}"
    if server.password_command:
        yield f"{indent}password_command: [{', '.join(_text(one) for one in server.password_command)}]"
    else:
        yield f'{indent}password: "${{{server.variable}}}"'
    if server.tls:
        yield f"{indent}tls: {_mapping(server.tls)}"


def _mapping(options: Mapping[str, str]) -> str:
    """No option's name needs quotes; texts that stand between braces may."""
    return f"{{{', '.join(f'{name}: {_text(value)}' for name, value in options.items())}}}"


def _table(table: ProposedTable) -> Iterator[str]:
    if table.sharding is None:
        yield f"  # {_one_line(table.name)} is {_one_line(table.told)}"
        return
    yield f"  - name: {_text(table.name)}  # {_one_line(table.told)}"
    yield "    sharding:"
    nodes = table.sharding["nodes"]
    if isinstance(nodes, str):
        yield f"      nodes: {_text(nodes)}"
    else:
        yield "      nodes:"
        for one in nodes:
            yield f"        - {_text(one)}"
    if level := table.sharding.get("table"):
        props = ", ".join(f"{key}: {_text(value)}" for key, value in level["props"].items())
        yield f"      table: {{column: {_text(level['column'])}, algorithm: {level['algorithm']}, props: {{{props}}}}}"


def _text(value: object) -> str:
    """A value as YAML reads it back."""
    if not isinstance(value, str):
        return str(value)
    plain = _PLAIN.fullmatch(value) is not None and value.lower() not in _WORDS
    return value if plain else json.dumps(value, ensure_ascii=False)


def _one_line(text: str) -> str:
    return " ".join(text.split())
