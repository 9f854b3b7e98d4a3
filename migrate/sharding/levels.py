"""One level of a rule, `database:` or `table:`, as the config file has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from migrate.model.errors import ConfigError
from migrate.sharding.class_based import is_complex, way_out

CLASS_BASED = "CLASS_BASED"
INLINES = ("INLINE", "COMPLEX_INLINE")
ALGORITHMS = ("MOD", "HASH_MOD", "VOLUME_RANGE", "BOUNDARY_RANGE", "AUTO_INTERVAL", "INTERVAL", *INLINES, CLASS_BASED)
SPEC_KEYS = ("nodes", "database", "table", "broadcast")
_LEVEL_KEYS = ("column", "columns", "algorithm", "props", "value-type", "value-types", "examples")
INLINE_KEYS = ("algorithm-expression", "allow-range-query-with-inline-sharding", "sharding-columns")


@dataclass(frozen=True, slots=True)
class Level:
    """One of `database:` and `table:` as written."""

    name: str
    key: str
    columns: tuple[str, ...]  # several for COMPLEX_INLINE, and a class of that kind, alone
    algorithm: str
    props: Mapping[str, object]
    value_types: Mapping[str, str]  # by column, in lower case
    examples: Sequence[Sequence[str]] = ()  # of CLASS_BASED: a value of each column, and the name that is chosen

    def value_type(self, column: str) -> str | None:
        return self.value_types.get(column.lower())


def known(mapping: Mapping[str, object], keys: Sequence[str], where: str) -> None:
    unknown = next((key for key in mapping if key not in keys), None)
    if unknown is not None:
        raise ConfigError(f"{where}.{unknown} is not a known key", hint="known: " + ", ".join(keys))


def level_of(spec: Mapping[str, object], name: str, where: str) -> Level | None:
    written, key = spec.get(name), f"{where}.{name}"
    if written is None:
        return None
    if not isinstance(written, Mapping):
        raise ConfigError(f"{key} must be a mapping of {', '.join(_LEVEL_KEYS)}")
    known(written, _LEVEL_KEYS, key)
    algorithm = written.get("algorithm")
    if not isinstance(algorithm, str) or algorithm.upper() not in ALGORITHMS:
        raise ConfigError(
            f"{key}.algorithm: {algorithm!r} is not supported",
            hint=way_out(str(algorithm), "one of " + ", ".join(ALGORITHMS)),
        )
    props = written.get("props") or {}
    if not isinstance(props, Mapping):
        raise ConfigError(f"{key}.props must be a mapping")
    kind = algorithm.upper()
    columns = _columns(written, key, kind == "COMPLEX_INLINE" or (kind == CLASS_BASED and is_complex(props)))
    examples = _examples(written, key, kind, len(columns))
    return Level(name, key, columns, kind, props, _value_types(written, columns, key), examples)


def _examples(written: Mapping[str, object], key: str, kind: str, columns: int) -> list[list[str]]:
    given = written.get("examples", [])
    if given and kind != CLASS_BASED:
        raise ConfigError(f"{key}.examples goes with CLASS_BASED, and it is {kind}")
    if not isinstance(given, list) or not all(isinstance(one, list) and len(one) == columns + 1 for one in given):
        raise ConfigError(f"{key}.examples is a list of lists: a value of each column, and the name that is chosen")
    return [[str(part) for part in one] for one in given]


def _columns(written: Mapping[str, object], key: str, several: bool) -> tuple[str, ...]:
    if several != ("columns" in written) or (several and "column" in written):
        wanted = "a complex strategy takes columns: [a, b]" if several else "columns: is for a complex strategy"
        raise ConfigError(f"{key}.column is missing or not a text", hint=wanted)
    columns = written["columns"] if several else [written.get("column")]
    if not isinstance(columns, list) or not columns or not all(isinstance(each, str) and each for each in columns):
        raise ConfigError(f"{key}.{'columns is not a list of names' if several else 'column is missing or not a text'}")
    if len({each.lower() for each in columns}) < len(columns):
        raise ConfigError(f"{key}.columns has a column twice")
    return tuple(columns)


def _value_types(written: Mapping[str, object], columns: Sequence[str], key: str) -> dict[str, str]:
    """Java types by column, in lower case: `value-type` is that of the one column, `value-types` are by name."""
    value_type, types = written.get("value-type"), written.get("value-types", {})
    if value_type is not None and (not isinstance(value_type, str) or len(columns) > 1):
        raise ConfigError(f"{key}.value-type must be the name of a Java type, of one column")
    if not isinstance(types, Mapping) or not all(isinstance(each, str) for pair in types.items() for each in pair):
        raise ConfigError(f"{key}.value-types gives Java types by column")
    by_column = {str(column).lower(): str(type_) for column, type_ in types.items()}
    unknown = next((column for column in by_column if column not in [each.lower() for each in columns]), None)
    if unknown is not None:
        raise ConfigError(f"{key}.value-types has '{unknown}', which is not among the columns")
    return by_column if value_type is None else {columns[0].lower(): value_type}
