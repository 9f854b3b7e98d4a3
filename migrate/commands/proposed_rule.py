"""A sharding rule for a table, proposed by its own rows: the column and the algorithm that spread them evenly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from migrate.model.errors import ConfigError, MigrateError
from migrate.model.message import Row
from migrate.model.table import Column, Table
from migrate.mysql.connection import Connection
from migrate.mysql.keys import order
from migrate.mysql.quoting import quote
from migrate.mysql.quoting import table as full_name
from migrate.mysql.values import compared, from_server
from migrate.preflight.limits import limited
from migrate.sharding.columns import column_types, type_text, value_reader
from migrate.sharding.javatypes import JavaType
from migrate.sharding.rule import build_rule

SAMPLE = 5_000
"""Rows from each end of the key, as many as preflight looks at."""
_AS_EVEN = 1.1
"""Times the lowest skew: within that, which column it is counts for more."""
_UNEVEN = 1.5
"""A skew from which on the digits of a number are mixed: ids in steps, and ids made of a time and a counter."""
_MIXED = "${((%s as long) * 2654435761L >>> 16) %% %d}"
"""Multiplicative hashing (Knuth, The Art of Computer Programming, volume 3, section 6.4)."""


@dataclass(frozen=True, slots=True)
class Nodes:
    """Where the shard tables of a table are: the text under `nodes`, and how many they are."""

    texts: tuple[str, ...]
    count: int
    expression: bool
    """Whether names of this table may stand in an inline expression."""


@dataclass(frozen=True, slots=True)
class ProposedRule:
    """spec: as it stands under `sharding`. skew: rows of the fullest table over those of an average one; None without
    rows. fewest, most: rows of the sample in a table. others: columns that spread the rows as evenly."""

    spec: dict[str, Any]
    column: str
    rows: int
    skew: float | None
    fewest: int
    most: int
    others: tuple[str, ...] = ()


def proposed_rule(connection: Connection, table: Table, nodes: Nodes, column: str | None = None) -> ProposedRule | None:
    """The rule that spreads a sample of the table's rows best; None where no column can be sharded by.

    column: the one that was chosen, if any. Raises ConfigError where it cannot be sharded by; the driver's error.
    """
    able = [one for one in _preferred(table) if column is None or one.name.lower() == column.lower()]
    if not able:
        if column is None:
            return None
        raise ConfigError(
            f"{table.full_name}: column '{column}' cannot be sharded by",
            hint="choose a column of whole numbers or of text (CHAR, VARCHAR) that is NOT NULL and not generated",
        )
    rows = _sample(connection, table, able)
    plain = [one for column in able if (one := _tried(table, rows, column, _numbered(column, nodes), nodes))]
    best = min((one.skew or 0.0 for one in plain), default=0.0)
    if nodes.expression and (not plain or best > _UNEVEN):
        mixed = [one for column in able if (one := _tried(table, rows, column, _mixed(table, column, nodes), nodes))]
        plain += [one for one in mixed if not plain or (one.skew or 0.0) * _AS_EVEN < best]
        best = min((one.skew or 0.0 for one in plain), default=0.0)
    even = [one for one in plain if (one.skew or 0.0) <= best * _AS_EVEN]
    if not even:
        return None
    first = even[0]
    others = dict.fromkeys(one.column for one in even if one.column != first.column)
    return ProposedRule(first.spec, first.column, first.rows, first.skew, first.fewest, first.most, tuple(others))


def _preferred(table: Table) -> list[Column]:
    """Columns that can be sharded by, those first whose values keep each unique key in one shard table."""
    uniques = (table.key, *table.unique_keys)
    able = [one for one in table.columns if _java(one) is not None and not one.generated and not one.nullable]

    def rank(one: Column) -> tuple[int, bool, bool]:
        outside = sum(one.name not in key for key in uniques)
        return outside, one.name not in table.key, _java(one) is JavaType.STRING

    return sorted(able, key=rank)


def _java(column: Column) -> JavaType | None:
    """The Java type that an application usually passes for it; None for a column that is not proposed."""
    try:
        java = value_reader(column.name, type_text(column), None, column.name).java
    except ConfigError:
        return None
    if java is JavaType.STRING:
        return java if column.type.lower().startswith(("char", "varchar")) else None
    return java if java in (JavaType.INTEGER, JavaType.LONG, JavaType.BIG_INTEGER) else None


def _numbered(column: Column, nodes: Nodes) -> dict[str, Any]:
    algorithm = "HASH_MOD" if _java(column) is JavaType.STRING else "MOD"
    return {"column": column.name, "algorithm": algorithm, "props": {"sharding-count": nodes.count}}


def _mixed(table: Table, column: Column, nodes: Nodes) -> dict[str, Any] | None:
    if _java(column) not in (JavaType.INTEGER, JavaType.LONG):
        return None
    expression = f"{table.name}_{_MIXED % (column.name, nodes.count)}"
    return {"column": column.name, "algorithm": "INLINE", "props": {"algorithm-expression": expression}}


def _tried(
    table: Table, rows: Sequence[Row], column: Column, level: dict[str, Any] | None, nodes: Nodes
) -> ProposedRule | None:
    """What the rule makes of the rows; None where it does not take each of them."""
    if level is None:
        return None
    spec = {"nodes": nodes.texts[0] if len(nodes.texts) == 1 else list(nodes.texts), "table": level}
    try:
        rule = build_rule(spec, table.full_name, column_types(table))
        found = Counter(rule.route_many([[row[name] for row in rows] for name in rule.columns], rows=len(rows)))
    except MigrateError:
        return None
    counts = [found[place] for place in range(nodes.count)]
    skew = max(counts) * nodes.count / len(rows) if rows else None
    return ProposedRule(spec, column.name, len(rows), skew, min(counts), max(counts))


def _sample(connection: Connection, table: Table, columns: Sequence[Column]) -> list[Row]:
    """Rows from both ends of the key, each once."""
    wanted = [table.by_name[name] for name in dict.fromkeys((*table.key, *(one.name for one in columns)))]
    rows: dict[tuple[str | None, ...], Row] = {}
    for row in _of_both_ends(connection, table, wanted):
        rows[tuple(row[name] for name in table.key)] = row
    return [*rows.values()]


def _of_both_ends(connection: Connection, table: Table, columns: Sequence[Column]) -> Iterator[Row]:
    readers = [from_server(one) for one in columns]
    fields, names = ", ".join(map(compared, columns)), ", ".join(quote(one.name) for one in columns)
    for descending in (False, True):
        some = f"SELECT {names} FROM {full_name(table.database, table.name)}"
        some += f" ORDER BY {order(table, descending=descending)} LIMIT {SAMPLE}"
        for values in connection.query(limited(connection, f"SELECT {fields} FROM ({some}) AS sampled")):
            texts = [read(value) for read, value in zip(readers, values, strict=True)]
            yield dict(zip((one.name for one in columns), texts, strict=True))
