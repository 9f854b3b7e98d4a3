"""The sharding rule of one table, built from its `sharding:` part of the config file.

rule = build_rule(spec, "orders", {"user_id": "bigint"})
rule.route({"user_id": "42"})              # Place("ds_2", "orders_2")
rule.route_many([["42", "7"]])             # [10, 7], indexes into rule.places
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from migrate.model.errors import ConfigError
from migrate.sharding.algorithms import Algorithm, Numbering, build_algorithm
from migrate.sharding.class_based import ClassBased
from migrate.sharding.columns import ValueReader, value_reader
from migrate.sharding.in_server import of_algorithm, of_inline
from migrate.sharding.inline import compile_inline, expand_nodes
from migrate.sharding.intervals import Interval, build_interval
from migrate.sharding.javatypes import JavaError, JavaType, to_units
from migrate.sharding.levels import ALGORITHMS, CLASS_BASED, INLINE_KEYS, INLINES, SPEC_KEYS, Level, known, level_of
from migrate.sharding.places import Choice, Place, TableRule

__all__ = ["ALGORITHMS", "Place", "TableRule", "build_rule", "node", "places_in", "places_of"]

BROADCAST = "broadcast"
"""The key of the nodes of a table each row of which is at every one."""
_QUOTED_NODE = re.compile(r"\s*([^\s.`]+)\.`((?:[^`]|``)+)`\s*", re.S)
_PLAIN_NAME = re.compile(r"[^\s.,`'\"{}$<>]+")
_HOW_TO_QUOTE = (
    "write a table's name with dots, commas, quotes, braces or $ in backquotes, each as an item of its own in the list:"
    " ['ds_0.`a.b`', …]"
)


def build_rule(
    spec: Mapping[str, object], table: str, column_types: Mapping[str, str], part: str = "sharding"
) -> TableRule:
    """The rule of the logical table `table`, written as `orders` or `shop.orders`.

    `spec` is the mapping under `sharding:` (docs/sharding.md); `column_types` has for each column of the
    table its type as columns.type_text() gives it; `part` is what messages call that mapping. Raises ConfigError naming
    the key that is wrong.
    """
    return _Builder(spec, table, column_types, part).build()


class _Builder:
    def __init__(self, spec: Mapping[str, object], table: str, column_types: Mapping[str, str], part: str) -> None:
        self._made_by = (build_rule, (spec, table, column_types, part))
        self._table = table
        self._key = f"table '{table}': {part}"
        self._types = {name.lower(): (name, type_) for name, type_ in column_types.items()}
        self._notes: list[str] = []
        known(spec, SPEC_KEYS, self._key)
        self._broadcast = BROADCAST in spec
        self._places = places_in(spec, self._key)
        self._databases = list(dict.fromkeys(place.database for place in self._places))
        self._tables = list(dict.fromkeys(place.table for place in self._places))
        self._levels = {
            name: level for name in ("database", "table") if (level := level_of(spec, name, self._key)) is not None
        }

    def build(self) -> TableRule:
        if self._broadcast:
            return TableRule(self._table, (), tuple(self._places), (), (), (), {}, 1, self._made_by, broadcast=True)
        self._check_levels()
        readers = self._readers()
        columns = tuple(reader.column for reader in readers)
        choices = tuple(
            self._choice(level, readers, tuple(columns.index(self._column(level, name)[0]) for name in level.columns))
            for level in self._levels.values()
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

    def _column(self, level: Level, column: str) -> tuple[str, str]:
        """The column's name as the table spells it, and its type."""
        found = self._types.get(column.lower())
        if found is None:
            raise ConfigError(
                f"{level.key}.column: table '{self._table}' has no column '{column}'",
                hint=f"its columns: {', '.join(name for name, _ in self._types.values())}",
            )
        return found

    def _readers(self) -> tuple[ValueReader, ...]:
        chosen: dict[str, tuple[str, Level]] = {}
        for level, column in [(each, column) for each in self._levels.values() for column in each.columns]:
            name, type_ = self._column(level, column)
            other = chosen[name][1] if name in chosen else None
            if other is None or other.value_type(name) is None:
                chosen[name] = (type_, level)
            elif level.value_type(name) not in (None, other.value_type(name)):
                raise ConfigError(
                    f"{level.key}.value-type: column '{name}' has another one at {other.key}",
                    hint="the application passes one type for a column",
                )
        return tuple(
            value_reader(name, type_, level.value_type(name), level.key) for name, (type_, level) in chosen.items()
        )

    def _choice(self, level: Level, readers: Sequence[ValueReader], positions: tuple[int, ...]) -> Choice:
        used = [readers[position] for position in positions]
        reader = used[0]
        names = self._databases if level.name == "database" else self._tables
        in_server = None
        if level.algorithm in INLINES:
            bucket, name = self._inline(level, used)
            if level.algorithm == "INLINE":
                expression = str(level.props["algorithm-expression"])
                in_server = of_inline(expression, self._bound_name(level.columns[0]), reader)
        elif level.algorithm == CLASS_BASED:
            chosen = ClassBased.of(level.props, level.key, names, level.columns)
            chosen.refuse_unlike(level.key, level.examples, used)
            bucket, name = chosen.bucket, str
            self._notes.append(
                f"{level.key}: {chosen.package} decides for {chosen.java_class}: every machine needs it, Spark's too"
            )
        elif level.algorithm == "INTERVAL":
            interval = build_interval(level.props, level.key, names)
            bucket, name = _function(level, interval, reader.java), interval.name
            self._note_intervals(level, interval)
        else:
            algorithm = build_algorithm(level.algorithm, level.props, level.key)
            logical = self._table.rsplit(".", 1)[-1] if level.name == "table" else ""
            numbering = Numbering.of(names, logical)
            self._check_buckets(level, algorithm, numbering, names)
            bucket, name = _function(level, algorithm, reader.java), _namer(algorithm, numbering)
            in_server = of_algorithm(algorithm, reader)
        for each in used:
            self._note_type(level, each)
        ordinals = _Ordinals(name, names, tell=level.algorithm not in (*INLINES, CLASS_BASED))
        return Choice(level.name, level.algorithm, positions, bucket, ordinals, in_server)

    def _bound_name(self, column: str) -> str:
        """ShardingSphere names the variable as the database's strategy spells the column, if both use it."""
        database = self._levels.get("database")
        spelled = {name.lower(): name for name in database.columns} if database else {}
        return spelled.get(column.lower(), column)

    def _inline(
        self, level: Level, readers: Sequence[ValueReader]
    ) -> tuple[Callable[[Any], Any], Callable[[Any], str]]:
        key = f"{level.key}.props"
        known(level.props, INLINE_KEYS if level.algorithm == "COMPLEX_INLINE" else INLINE_KEYS[:2], key)
        expression = level.props.get("algorithm-expression")
        if not isinstance(expression, str) or not expression.strip():
            raise ConfigError(f"{key}.algorithm-expression is missing or not a text")
        counted = [name for name in str(level.props.get("sharding-columns", "")).split(",") if name]
        if counted and len(counted) != len(level.columns):
            raise ConfigError(
                f"{key}.sharding-columns has {len(counted)} columns, and the strategy {len(level.columns)}",
                hint="ShardingSphere refuses every row then",
            )
        bound = [self._bound_name(column) for column in level.columns]
        try:
            return compile_inline(expression, {name: each.java for name, each in zip(bound, readers, strict=True)})
        except ConfigError as error:
            message = f"{key}.algorithm-expression: {error.message}"
            raise ConfigError(message, hint=error.given) from None

    def _check_buckets(self, level: Level, algorithm: Algorithm, numbering: Numbering, names: list[str]) -> None:
        there = set(names)
        if algorithm.complete:
            for bucket in range(min(algorithm.buckets, len(names) + 1)):
                name = numbering.name(algorithm.suffix(bucket))
                if name not in there:
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

    def _note_intervals(self, level: Level, interval: Interval) -> None:
        if "datetime-upper" not in level.props:
            self._notes.append(
                f"{level.key}: without datetime-upper ShardingSphere finds no row after the start of the application; "
                "here such a row goes where an application finds it that starts later"
            )
        elif missing := interval.without_name():
            self._notes.append(f"{level.key}: no {level.name} for {', '.join(missing[:5])}: such a row blocks")

    def _note_type(self, level: Level, reader: ValueReader) -> None:
        if not reader.assumed or level.algorithm not in ("HASH_MOD", *INLINES):
            return
        signed = "unsigned" not in self._column(level, reader.column)[1].lower()
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


def places_in(spec: Mapping[str, object], key: str) -> list[Place]:
    """The shard tables of a rule, in its order. spec: as `build_rule` takes it; key: what messages call it.

    Raises ConfigError, also for what does not go with a row at every node.
    """
    if BROADCAST not in spec:
        return places_of(spec.get("nodes"), f"{key}.nodes")
    if beside := next((name for name in spec if name != BROADCAST), None):
        raise ConfigError(
            f"{key}.{beside} does not go with {key}.{BROADCAST}, by which each row is at every node",
            hint=f"leave one of the two out; the nodes stand under {BROADCAST} itself",
        )
    places = places_of(spec[BROADCAST], f"{key}.{BROADCAST}")
    databases = [place.database for place in places]
    if twice := next((place for place in places if databases.count(place.database) > 1), None):
        raise ConfigError(
            f"{key}.{BROADCAST}: database '{twice.database}' has several nodes",
            hint="a broadcast table is in each database once: name one table of it",
        )
    return places


def places_of(nodes: object, key: str) -> list[Place]:
    """The shard tables that a text under `nodes` stands for, or a list of such texts, in its order.

    key: what messages call it. Raises ConfigError.
    """
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
        raise ConfigError(f"{key}: {error.message}", hint=error.given or _HOW_TO_QUOTE) from None
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


def _function(level: Level, algorithm: Algorithm | Interval, java: JavaType) -> Callable[[Any], int]:
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
