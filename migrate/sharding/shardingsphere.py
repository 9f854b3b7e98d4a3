"""Reads a ShardingSphere 5 rule file as it is, and gives the `sharding:` mapping of a table from it.

Read: the `!SHARDING` rule with tables, autoTables, default strategies and sharding algorithms, and broadcast tables, of
`!BROADCAST` or of `broadcastTables`, which are in each of the data sources: of these the names are read. Passed over:
what does not decide where a row goes (the data sources' connections, key generators and their strategies, auditors,
binding tables, `!SINGLE`, `!READWRITE_SPLITTING`, mode, props). Refused by name: strategies other than `standard`,
`complex` and `none`, algorithms other than those of docs/sharding.md, tables under `!ENCRYPT`, `!SHADOW`, unknown keys.
Source: ShardingSphere-JDBC 5.5.2, YAML configuration of data sharding, and the keys documented after it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from migrate.model.errors import ConfigError
from migrate.sharding.algorithms import build_algorithm
from migrate.sharding.class_based import way_out
from migrate.sharding.inline import expand_nodes
from migrate.sharding.rule import node

_RULE_KEYS = frozenset(
    {"tables", "autoTables", "bindingTables", "broadcastTables", "defaultDatabaseStrategy"}
    | {"defaultTableStrategy", "defaultKeyGenerateStrategy", "defaultAuditStrategy", "defaultShardingColumn"}
    | {"shardingAlgorithms", "keyGenerators", "auditors", "shardingCache"}
    | {"keyGenerateStrategies"}  # documented after 5.5.2: in place of keyGenerateStrategy in each table
)
_TABLE_KEYS = frozenset(
    {"logicTable", "actualDataNodes", "databaseStrategy", "tableStrategy"} | {"keyGenerateStrategy", "auditStrategy"}
)
_AUTO_KEYS = frozenset({"logicTable", "actualDataSources", "shardingStrategy", "keyGenerateStrategy", "auditStrategy"})
_AUTO_ALGORITHMS = ("MOD", "HASH_MOD", "VOLUME_RANGE", "BOUNDARY_RANGE", "AUTO_INTERVAL")
_PASSED_OVER = frozenset(
    {"!SINGLE", "!READWRITE_SPLITTING", "!SQL_PARSER", "!SQL_TRANSLATOR", "!SQL_FEDERATION", "!TRANSACTION"}
    | {"!AUTHORITY", "!GLOBAL_CLOCK", "!LOGGING", "!CACHE", "!MASK", "!SHARDING_CACHE"}
    | {"!DB_DISCOVERY", "!TRAFFIC"}  # of the versions before 5.5
)
_RENAMED_BY = ("!READWRITE_SPLITTING", "!DB_DISCOVERY", "!SHADOW")
"""Rules after which the names that other rules use are those of groups of data sources."""
_PER_TABLE = {
    "!ENCRYPT": "encryption",
    "!SHADOW": "shadow databases",
}
_WAY_OUT = {
    "!ENCRYPT": "a row goes as the source has it, and ShardingSphere would write it encrypted",
    "!SHADOW": "which rows go to the shadow databases is for the application to say",
}
_STANDARD = (*_AUTO_ALGORITHMS, "INLINE", "INTERVAL", "CLASS_BASED")
_MOST_TABLES = 100_000


@dataclass(frozen=True, slots=True)
class _Tagged:
    tag: str
    value: Any


class _Loader(yaml.SafeLoader):
    """SafeLoader that keeps `!TAG` beside its mapping and refuses a key written twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        twice = next((key for index, key in enumerate(keys) if key in keys[:index]), None)
        if twice is not None:
            raise ConfigError(f"the key '{twice}' is there twice", hint=str(node.start_mark).strip())
        return super().construct_mapping(node, deep)


def _tagged(loader: _Loader, suffix: str, node: yaml.Node) -> _Tagged:
    if isinstance(node, yaml.MappingNode):
        return _Tagged("!" + suffix, loader.construct_mapping(node, deep=True))
    return _Tagged("!" + suffix, None)


yaml.add_multi_constructor("!", _tagged, Loader=_Loader)


class RuleFile:
    """A parsed rule file. `name` is how messages call it."""

    def __init__(self, text: str, name: str = "ShardingSphere file") -> None:
        """Raises ConfigError for YAML that cannot be read and for a file without one !SHARDING rule."""
        self._name = name
        self._per_table: dict[str, str] = {}
        self._broadcast: dict[str, str] = {}  # names as they are written, by the same in lower case
        try:
            content = yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader
        except yaml.YAMLError as error:
            raise ConfigError(f"{name} is not YAML: {error}") from None
        except ConfigError as error:
            raise ConfigError(f"{name}: {error.message}", hint=error.given) from None
        self._renamed = False
        whole = content if isinstance(content, dict) else {}
        self._data_sources = whole.get("dataSources")
        self._rule = self._sharding_rule(whole.get("rules"))
        _known(self._rule, _RULE_KEYS, f"{name}: !SHARDING")
        self._note_broadcast(self._rule.get("broadcastTables"), "!SHARDING.broadcastTables")
        self._tables = self._mapping(self._rule.get("tables"), "tables")
        self._auto_tables = self._mapping(self._rule.get("autoTables"), "autoTables")

    @property
    def tables(self) -> tuple[str, ...]:
        """The logical tables of the file."""
        return (*self._tables, *self._auto_tables, *self._broadcast.values())

    def spec(
        self,
        table: str,
        value_types: Mapping[str, str] | None = None,
        examples: Mapping[str, object] | None = None,
        databases: Collection[str] = (),
    ) -> dict[str, object]:
        """The mapping that build_rule() takes, for one logical table (its name in any case).

        `value_types` adds a Java type for a sharding column; `examples` adds them to a level, `database` or `table`,
        that a class decides. `databases` are those of the config: a broadcast table is in each of them where the file
        does not say what its data sources are. Raises ConfigError for a table that is not in the file and for whatever
        is not supported, naming it.
        """
        if table.lower() in self._per_table:
            tag = self._per_table[table.lower()]
            raise ConfigError(
                f"{self._name}: table '{table}' is under {tag} ({_PER_TABLE[tag]}), which is not supported",
                hint=_WAY_OUT[tag].format(table=table),
            )
        plain, auto = _find(self._tables, table), _find(self._auto_tables, table)
        if (name := self._broadcast.get(table.lower())) is not None:
            if plain or auto:
                other = "tables" if plain else "autoTables"
                raise ConfigError(
                    f"{self._name}: table '{name}' is a broadcast table, and under {other}",
                    hint="leave it out of one of the two: what the application does with it is not known",
                )
            where = self._data_source_names() or databases
            spec: dict[str, object] = {"broadcast": [node(one, name) for one in sorted(where)]}
        elif plain is not None:
            spec = self._plain(plain, self._mapping(self._tables[plain], f"tables.{plain}"))
        elif auto is not None:
            spec = self._auto(auto, self._mapping(self._auto_tables[auto], f"autoTables.{auto}"))
        else:
            known = ", ".join(self.tables) or "none"
            raise ConfigError(f"{self._name} has no table '{table}'", hint=f"tables there: {known}")
        return _with_examples(_with_value_types(spec, value_types or {}), examples or {}, f"{self._name}: {table}")

    def _sharding_rule(self, rules: object) -> dict[str, Any]:
        if not isinstance(rules, list):
            raise ConfigError(
                f"{self._name} has no list 'rules'", hint="a ShardingSphere 5 file has rules: - !SHARDING"
            )
        found = []
        for rule in rules:
            tag = rule.tag if isinstance(rule, _Tagged) else None
            self._renamed |= tag in _RENAMED_BY
            if tag == "!SHARDING":
                found.append(self._mapping(rule.value, "!SHARDING"))
            elif tag == "!BROADCAST":
                self._note_broadcast(self._mapping(rule.value, tag).get("tables"), f"{tag}.tables")
            elif tag in _PER_TABLE:
                self._collect(tag, rule.value)
            elif tag not in _PASSED_OVER:
                raise ConfigError(f"{self._name}: a rule {tag or 'without a tag'} is not supported")
        if len(found) > 1 or not (found or self._broadcast):
            raise ConfigError(f"{self._name} has {len(found)} !SHARDING rules instead of one")
        return found[0] if found else {}

    def _note_broadcast(self, tables: object, key: str) -> None:
        if not isinstance(tables, list | None) or not all(isinstance(table, str) for table in tables or ()):
            raise ConfigError(f"{self._name}: {key} must be a list of tables")
        self._broadcast.update((table.lower(), table) for table in tables or ())

    def _data_source_names(self) -> Collection[str]:
        """The data sources that a broadcast table, and a table without nodes, is in; none where the file does not say.
        ShardingSphere takes the table's own name in each of them (its `ShardingTable`)."""
        return () if self._renamed else self._mapping(self._data_sources, "dataSources")

    def _collect(self, tag: str, rule: object) -> None:
        tables = rule.get("tables") if isinstance(rule, dict) else None
        for table in tables or ():
            self._per_table[str(table).lower()] = tag

    def _mapping(self, value: object, key: str) -> dict[str, Any]:
        if value is None:
            return {}
        if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
            raise ConfigError(f"{self._name}: {key} must be a mapping")
        return value

    def _plain(self, table: str, written: dict[str, Any]) -> dict[str, object]:
        key = f"tables.{table}"
        _known(written, _TABLE_KEYS, f"{self._name}: {key}")
        spec: dict[str, object] = {}
        for level, name in (("database", "databaseStrategy"), ("table", "tableStrategy")):
            strategy, where = written.get(name), f"{key}.{name}"
            if _says_nothing(strategy):
                default = f"default{name[0].upper()}{name[1:]}"
                strategy, where = self._rule.get(default), default
            chosen = self._strategy(strategy, where)
            if chosen is not None:
                spec[level] = chosen
        nodes = written.get("actualDataNodes")
        if isinstance(nodes, str):
            return {"nodes": nodes, **spec}
        named = [node(one, table) for one in self._data_source_names()]
        if nodes is not None or "table" in spec or not named:
            raise ConfigError(f"{self._name}: {key}.actualDataNodes is missing", hint="name every node")
        return {"nodes": named, **spec}

    def _auto(self, table: str, written: dict[str, Any]) -> dict[str, object]:
        """Tables numbered from 0, dealt out to the data sources in turn."""
        key = f"autoTables.{table}"
        _known(written, _AUTO_KEYS, f"{self._name}: {key}")
        sources = written.get("actualDataSources")
        if not isinstance(sources, str):
            raise ConfigError(f"{self._name}: {key}.actualDataSources is missing", hint="name every one")
        strategy = self._strategy(written.get("shardingStrategy"), f"{key}.shardingStrategy")
        if strategy is None or strategy["algorithm"] not in _AUTO_ALGORITHMS:
            raise ConfigError(f"{self._name}: {key}.shardingStrategy needs one of {', '.join(_AUTO_ALGORITHMS)}")
        where = f"{self._name}: {key}"
        algorithm = build_algorithm(strategy["algorithm"], strategy["props"], where)
        if algorithm.buckets > _MOST_TABLES:
            raise ConfigError(f"{where} stands for more than {_MOST_TABLES} tables")
        names = expand_nodes(sources)
        nodes = [f"{names[index % len(names)]}.{table}_{index}" for index in range(algorithm.buckets)]
        return {"nodes": nodes, "table": strategy}

    def _strategy(self, strategy: object, key: str) -> dict[str, Any] | None:
        where = f"{self._name}: {key}"
        if _says_nothing(strategy):
            return None
        written = self._mapping(strategy, key)
        if len(written) > 1:
            raise ConfigError(f"{where} has several strategies: {', '.join(written)}")
        kind = next(iter(written), "none")
        if kind == "none":
            return None
        if kind == "complex":
            return self._complex(self._mapping(written[kind], f"{key}.complex"), f"{where}.complex")
        if kind != "standard":
            hint = way_out(kind, "standard, complex and none are")
            raise ConfigError(f"{where}: the strategy '{kind}' is not supported", hint=hint)
        standard = self._mapping(written[kind], f"{key}.standard")
        _known(standard, frozenset({"shardingColumn", "shardingAlgorithmName"}), f"{where}.standard")
        column = standard.get("shardingColumn", self._rule.get("defaultShardingColumn"))
        if not isinstance(column, str):
            raise ConfigError(f"{where}.standard.shardingColumn is missing")
        type_, props = self._algorithm(standard.get("shardingAlgorithmName"), f"{where}.standard", _STANDARD)
        return {"column": column, "algorithm": type_, "props": props}

    def _complex(self, written: dict[str, Any], where: str) -> dict[str, Any]:
        _known(written, frozenset({"shardingColumns", "shardingAlgorithmName"}), where)
        columns = written.get("shardingColumns")
        if not isinstance(columns, str) or not columns.strip():
            raise ConfigError(f"{where}.shardingColumns is missing", hint="several, with commas")
        type_, props = self._algorithm(written.get("shardingAlgorithmName"), where, ("COMPLEX_INLINE", "CLASS_BASED"))
        return {"columns": [name.strip() for name in columns.split(",")], "algorithm": type_, "props": props}

    def _algorithm(self, name: object, where: str, supported: Sequence[str]) -> tuple[str, dict[str, Any]]:
        algorithms = self._mapping(self._rule.get("shardingAlgorithms"), "shardingAlgorithms")
        if name not in algorithms:
            raise ConfigError(f"{where}.shardingAlgorithmName: there is no algorithm '{name}'")
        key = f"shardingAlgorithms.{name}"
        written = self._mapping(algorithms[str(name)], key)
        _known(written, frozenset({"type", "props"}), f"{self._name}: {key}")
        type_ = str(written.get("type")).upper()
        if type_ not in supported:
            kind = where.rpartition(".")[2]
            message = f"{self._name}: {key}.type: the algorithm '{written.get('type')}' is not supported"
            raise ConfigError(message, hint=way_out(type_, f"{kind} takes {', '.join(supported)}"))
        return type_, self._mapping(written.get("props"), f"{key}.props")


def _find(tables: Mapping[str, Any], name: str) -> str | None:
    return next((table for table in tables if table.lower() == name.lower()), None)


def _known(mapping: Mapping[str, Any], keys: frozenset[str], where: str) -> None:
    unknown = next((key for key in mapping if key not in keys), None)
    if unknown is not None:
        raise ConfigError(f"{where}.{unknown} is not a known key", hint="known: " + ", ".join(sorted(keys)))


def _with_value_types(spec: dict[str, object], value_types: Mapping[str, str]) -> dict[str, object]:
    by_column = {column.lower(): type_ for column, type_ in value_types.items()}
    for level in ("database", "table"):
        written = spec.get(level)
        if not isinstance(written, dict):
            continue
        columns = written.get("columns") or [written["column"]]
        types = {column: by_column[column.lower()] for column in columns if column.lower() in by_column}
        if "columns" in written and types:
            spec[level] = {**written, "value-types": types}
        elif types:
            spec[level] = {**written, "value-type": types[written["column"]]}
    return spec


def _with_examples(spec: dict[str, object], examples: Mapping[str, object], where: str) -> dict[str, object]:
    for level, given in examples.items():
        written = spec.get(level)
        if not isinstance(written, dict):
            raise ConfigError(f"{where}: examples.{level}: nothing chooses by it", hint="database, table, or both")
        spec[level] = {**written, "examples": given}
    return spec


def _says_nothing(strategy: object) -> bool:
    """Whether ShardingSphere takes a strategy for left out, so that the default one counts, also where it is written as
    `{}` (its `YamlShardingStrategyConfigurationSwapper`). `none:` without a value is one all the same."""
    return strategy is None or strategy == {}
