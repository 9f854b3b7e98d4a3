"""The sharding rule of one table, built from its `sharding:` part of the config file.

rule = build_rule(spec, "orders", {"user_id": "bigint"})
rule.route({"user_id": "42"})              # Place("ds_2", "orders_2")
rule.route_many([["42", "7"]])             # [10, 7], indexes into rule.places
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from migrate.model.errors import ConfigError
from migrate.sharding.algorithms import Algorithm, Numbering, build_algorithm
from migrate.sharding.columns import ValueReader, value_reader
from migrate.sharding.in_server import of_algorithm, of_inline
from migrate.sharding.inline import compile_inline, expand_nodes
from migrate.sharding.javatypes import JavaError, JavaType, to_units
from migrate.sharding.places import Choice, Place, TableRule

__all__ = ["ALGORITHMS", "Place", "TableRule", "build_rule", "node"]

ALGORITHMS = ("MOD", "HASH_MOD", "VOLUME_RANGE", "BOUNDARY_RANGE", "INLINE")
_SPEC_KEYS = ("nodes", "database", "table")
_LEVEL_KEYS = ("column", "algorithm", "props", "value-type")
_INLINE_KEYS = ("algorithm-expression", "allow-range-query-with-inline-sharding")
_QUOTED_NODE = re.compile(r"\s*([^\s.`]+)\.`((?:[^`]|``)+)`\s*", re.S)
_PLAIN_NAME = re.compile(r"[^\s.,`'\"{}$<>]+")
_HOW_TO_QUOTE = (
    "write a table's name with dots, commas, quotes, braces or $ in backquotes, each as an item of its own in the list:"
    " ['ds_0.`a.b`', …]"
)


def build_rule(spec: Mapping[str, object], table: str, column_types: Mapping[str, str]) -> TableRule:
    """The rule of the logical table `table`, written as `orders` or `shop.orders`.

    `spec` is the mapping under `sharding:` (docs/sharding.md); `column_types` has for each column of the
    table its type as columns.type_text() gives it. Raises ConfigError naming the key that is wrong.
    """
    return _Builder(spec, table, column_types).build()


@dataclass(frozen=True, slots=True)
class _Level:
    """One of `database:` and `table:` as written."""

    name: str
    key: str
    column: str
    algorithm: str
    props: Mapping[str, object]
    value_type: str | None


class _Builder:
    def __init__(self, spec: Mapping[str, object], table: str, column_types: Mapping[str, str]) -> None:
        self._made_by = (build_rule, (spec, table, column_types))
        self._table = table
        self._key = f"table '{table}': sharding"
        self._types = {name.lower(): (name, type_) for name, type_ in column_types.items()}
        self._notes: list[str] = []
        _known(spec, _SPEC_KEYS, self._key)
        self._places = _places(spec.get("nodes"), f"{self._key}.nodes")
        self._databases = list(dict.fromkeys(place.database for place in self._places))
        self._tables = list(dict.fromkeys(place.table for place in self._places))
        self._levels = {
            name: level for name in ("database", "table") if (level := _level(spec, name, self._key)) is not None
        }

    def build(self) -> TableRule:
        self._check_levels()
        readers = self._readers()
        columns = tuple(reader.column for reader in readers)
        choices = tuple(
            self._choice(level, readers, columns.index(self._column(level)[0])) for level in self._levels.values()
        )
        cells, width = self._cells()
        places, notes = tuple(self._places), tuple(self._notes)
        return TableRule(self._table, columns, places, notes, readers, choices, cells, width, self._made_by)

    def _check_levels(self) -> None:
        """Without an algorithm, ShardingSphere takes every database or table there is; a row needs one."""
        if "database" not in self._levels and len(self._tables) < len(self._places):
            raise ConfigError(
                f"{self._key}.database is missing, and tables of one name are in several databases",
                hint="say by which column and algorithm the database is chosen",
            )
        if "table" not in self._levels and len(self._databases) < len(self._places):
            raise ConfigError(
                f"{self._key}.table is missing, and a database has several tables",
                hint="say by which column and algorithm the table is chosen",
            )
        if not self._levels and len(self._places) > 1:
            raise ConfigError(f"{self._key}: {len(self._places)} nodes, and neither database nor table to choose")

    def _cells(self) -> tuple[dict[int, int], int]:
        """Place by picked names: database alone, table alone, or database * width + table."""
        database = {name: index for index, name in enumerate(self._databases)}
        table = {name: index for index, name in enumerate(self._tables)}
        width = len(table)
        cells: dict[int, int] = {}
        for index, place in enumerate(self._places):
            if len(self._levels) == 2:
                cells[database[place.database] * width + table[place.table]] = index
            elif "database" in self._levels:
                cells[database[place.database]] = index
            else:
                cells[table[place.table]] = index
        return cells, width

    def _column(self, level: _Level) -> tuple[str, str]:
        """The column's name as the table spells it, and its type."""
        found = self._types.get(level.column.lower())
        if found is None:
            raise ConfigError(
                f"{level.key}.column: table '{self._table}' has no column '{level.column}'",
                hint=f"its columns: {', '.join(name for name, _ in self._types.values())}",
            )
        return found

    def _readers(self) -> tuple[ValueReader, ...]:
        chosen: dict[str, tuple[str, _Level]] = {}
        for level in self._levels.values():
            name, type_ = self._column(level)
            other = chosen[name][1] if name in chosen else None
            if other is None or other.value_type is None:
                chosen[name] = (type_, level)
            elif level.value_type not in (None, other.value_type):
                raise ConfigError(
                    f"{level.key}.value-type: column '{name}' has another one at {other.key}",
                    hint="the application passes one type for a column",
                )
        return tuple(value_reader(name, type_, level.value_type, level.key) for name, (type_, level) in chosen.items())

    def _choice(self, level: _Level, readers: Sequence[ValueReader], position: int) -> Choice:
        reader = readers[position]
        names = self._databases if level.name == "database" else self._tables
        if level.algorithm == "INLINE":
            bucket, name = self._inline(level, reader.java)
            in_server = of_inline(str(level.props["algorithm-expression"]), self._bound_name(level), reader)
        else:
            algorithm = build_algorithm(level.algorithm, level.props, level.key)
            logical = self._table.rsplit(".", 1)[-1] if level.name == "table" else ""
            numbering = Numbering.of(names, logical)
            self._check_buckets(level, algorithm, numbering, names)
            bucket, name = _function(level, algorithm, reader.java), _namer(algorithm, numbering)
            in_server = of_algorithm(algorithm, reader)
        self._note_type(level, reader)
        ordinals = _Ordinals(name, names, tell=level.algorithm != "INLINE")
        return Choice(level.name, level.algorithm, position, bucket, ordinals, in_server)

    def _bound_name(self, level: _Level) -> str:
        """ShardingSphere names the variable as the database's strategy spells the column, if both use it."""
        database = self._levels.get("database")
        if database is not None and database.column.lower() == level.column.lower():
            return database.column
        return level.column

    def _inline(self, level: _Level, java: JavaType) -> tuple[Callable[[Any], Any], Callable[[Any], str]]:
        key = f"{level.key}.props"
        _known(level.props, _INLINE_KEYS, key)
        expression = level.props.get("algorithm-expression")
        if not isinstance(expression, str) or not expression.strip():
            raise ConfigError(f"{key}.algorithm-expression is missing or not a text")
        try:
            return compile_inline(expression, self._bound_name(level), java)
        except ConfigError as error:
            message = f"{key}.algorithm-expression: {error.message}"
            raise ConfigError(message, hint=error.hint) from None

    def _check_buckets(self, level: _Level, algorithm: Algorithm, numbering: Numbering, names: list[str]) -> None:
        known = set(names)
        if algorithm.complete:
            for bucket in range(min(algorithm.buckets, len(names) + 1)):
                name = numbering.name(algorithm.suffix(bucket))
                if name not in known:
                    raise ConfigError(
                        f"{level.key}: {level.algorithm} gives '{name}', and no {level.name} of that name is "
                        "among the nodes",
                        hint="names are the first node's without its number, and the algorithm's number",
                    )
        unused = [name for name in names if not _reached(name, algorithm, numbering)]
        if unused:
            self._notes.append(f"{level.key}: {level.algorithm} never gives {', '.join(unused[:5])}")
        if level.name == "database" or "database" in self._levels:
            self._notes.append(
                f"{level.key}: ShardingSphere 5.5 takes {level.algorithm} in autoTables only, and refuses it "
                "in the strategies of tables; INLINE works there"
            )

    def _note_type(self, level: _Level, reader: ValueReader) -> None:
        if not reader.assumed or level.algorithm not in ("HASH_MOD", "INLINE"):
            return
        signed = "unsigned" not in self._column(level)[1].lower()
        which = {
            JavaType.INTEGER: "negative values" if signed else "",
            JavaType.LONG: "negative values" if signed else "",
            JavaType.BIG_INTEGER: "values from 2^32 on" if level.algorithm == "HASH_MOD" else "large values",
            JavaType.BIG_DECIMAL: "any value",
        }.get(reader.java, "")
        if which and (level.algorithm == "HASH_MOD" or reader.java not in (JavaType.INTEGER, JavaType.LONG)):
            self._notes.append(
                f"{level.key}: column '{reader.column}' is taken as Java's {reader.java}; an application "
                f"that passes another type may find {which} elsewhere (set value-type)"
            )


def _known(mapping: Mapping[str, object], keys: Sequence[str], where: str) -> None:
    unknown = next((key for key in mapping if key not in keys), None)
    if unknown is not None:
        raise ConfigError(f"{where}.{unknown} is not a known key", hint="known: " + ", ".join(keys))


def _level(spec: Mapping[str, object], name: str, where: str) -> _Level | None:
    written, key = spec.get(name), f"{where}.{name}"
    if written is None:
        return None
    if not isinstance(written, Mapping):
        raise ConfigError(f"{key} must be a mapping of {', '.join(_LEVEL_KEYS)}")
    _known(written, _LEVEL_KEYS, key)
    column, algorithm = written.get("column"), written.get("algorithm")
    if not isinstance(column, str) or not column:
        raise ConfigError(f"{key}.column is missing or not a text")
    if not isinstance(algorithm, str) or algorithm.upper() not in ALGORITHMS:
        raise ConfigError(
            f"{key}.algorithm: {algorithm!r} is not supported",
            hint="one of " + ", ".join(ALGORITHMS),
        )
    props = written.get("props") or {}
    if not isinstance(props, Mapping):
        raise ConfigError(f"{key}.props must be a mapping")
    value_type = written.get("value-type")
    if value_type is not None and not isinstance(value_type, str):
        raise ConfigError(f"{key}.value-type must be the name of a Java type")
    return _Level(name, key, column, algorithm.upper(), props, value_type)


def _places(nodes: object, key: str) -> list[Place]:
    items = [nodes] if isinstance(nodes, str) else nodes
    if not isinstance(items, list) or not items or not all(isinstance(item, str) for item in items):
        raise ConfigError(f"{key} must be a text such as ds_${{0..1}}.t_${{0..3}}, or a list of such texts")
    places: list[Place] = []
    seen = set()
    for place in (place for item in items for place in _expanded(item, key)):
        name = str(place)
        if name.lower() in seen:  # ShardingSphere takes names that differ in case only as one
            raise ConfigError(f"{key}: {name} is there twice")
        seen.add(name.lower())
        places.append(place)
    if not places:
        raise ConfigError(f"{key} is empty")
    return places


def node(database: str, table: str) -> str:
    """A text under `nodes` that stands for one table."""
    if _PLAIN_NAME.fullmatch(table):
        return f"{database}.{table}"
    doubled = table.replace("`", "``")
    return f"{database}.`{doubled}`"


def _expanded(item: str, key: str) -> list[Place]:
    """The places of one text under `nodes`: an inline expression, or one table whose name is quoted."""
    if quoted := _QUOTED_NODE.fullmatch(item):
        return [Place(quoted[1], quoted[2].replace("``", "`"))]
    try:
        names = expand_nodes(item)
    except ConfigError as error:
        raise ConfigError(f"{key}: {error.message}", hint=error.hint or _HOW_TO_QUOTE) from None
    places = []
    for name in names:
        parts = name.split(".")
        if len(parts) != 2 or "`" in name or not all(part and part == part.strip() for part in parts):
            raise ConfigError(f"{key}: '{name}' is not written as database.table", hint=_HOW_TO_QUOTE)
        places.append(Place(*parts))
    return places


def _reached(name: str, algorithm: Algorithm, numbering: Numbering) -> bool:
    digits = name.removeprefix(numbering.prefix)
    if not (digits.isascii() and digits.isdecimal()) or int(digits) >= algorithm.buckets:
        return False
    return numbering.name(algorithm.suffix(int(digits))) == name


def _function(level: _Level, algorithm: Algorithm, java: JavaType) -> Callable[[Any], int]:
    try:
        return algorithm.bucket(java)
    except ConfigError as error:
        message = f"{level.key}: {error.message}"
        raise ConfigError(message, hint="see value-type in docs/sharding.md") from None


def _namer(algorithm: Algorithm, numbering: Numbering) -> Callable[[int], str]:
    return lambda bucket: numbering.name(algorithm.suffix(bucket))


class _Ordinals(dict[Any, int]):
    """From a bucket to the number of its name, filled when asked; it stays as small as `names`."""

    def __init__(self, name: Callable[[Any], str], names: list[str], tell: bool) -> None:
        super().__init__()
        self._name, self._tell = name, tell
        self._ordinals = {to_units(each): index for index, each in enumerate(names)}

    def __missing__(self, bucket: Any) -> int:
        name = self._name(bucket)
        ordinal = self._ordinals.get(name)
        if ordinal is None:  # an expression's name may hold the value, which no message may show
            raise JavaError(f"it gives {name if self._tell else 'a name'}, which is not among the nodes")
        self[bucket] = ordinal
        return ordinal
