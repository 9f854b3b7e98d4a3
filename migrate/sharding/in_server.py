"""Sharding algorithms as SQL: those over whole numbers that a server computes as ShardingSphere does."""

from __future__ import annotations

import re
from dataclasses import dataclass

from migrate.sharding.algorithms import Algorithm, HashMod, Mod
from migrate.sharding.columns import ValueReader
from migrate.sharding.inline import pieces
from migrate.sharding.javatypes import JavaType

_REMAINDER = re.compile(r"\s*(\w+)\s*%\s*([1-9]\d{0,8})\s*")
_MOST = 4096
"""Buckets that a statement lists."""


@dataclass(frozen=True, slots=True)
class InServer:
    """What an algorithm computes, as SQL: the same bucket for every value that the column can hold."""

    expression: str  # with `{0}` for the column
    buckets: range


def of_algorithm(algorithm: Algorithm, reader: ValueReader) -> InServer | None:
    """None for what no server computes."""
    if not reader.whole or algorithm.buckets > _MOST:
        return None
    if isinstance(algorithm, Mod) and not (algorithm.start or algorithm.stop):
        return InServer(_mod(algorithm.count, reader.java), range(algorithm.count))
    if isinstance(algorithm, HashMod) and reader.java is not JavaType.BIG_INTEGER:
        return InServer(_hash_mod(algorithm, reader.java), range(algorithm.count))
    return None


def of_inline(expression: str, column: str, reader: ValueReader) -> InServer | None:
    """Of an expression whose only code is the remainder of the column, `orders_${id % 4}`; None for any other.

    column: as the expression names it. Raises ConfigError for a malformed expression.
    """
    codes = [text for is_code, text in pieces(expression.strip().removeprefix("<GROOVY>")) if is_code]
    found = _REMAINDER.fullmatch(codes[0]) if len(codes) == 1 else None
    if not reader.whole or found is None or found[1] != column or (count := int(found[2])) > _MOST:
        return None
    return InServer(f"MOD({{0}}, {count})", range(1 - count, count))  # negative below zero, as in Groovy


def _mod(count: int, java: JavaType) -> str:
    if java is not JavaType.BIG_INTEGER:
        return f"MOD(MOD({{0}}, {count}) + {count}, {count})"
    lower = -(1 << 64) % count  # from 2^63 on the 64 bits are a negative number
    return f"MOD(MOD({{0}}, {count}) + IF({{0}} < {1 << 63}, 0, {lower}), {count})" if lower else f"MOD({{0}}, {count})"


def _hash_mod(algorithm: HashMod, java: JavaType) -> str:
    count = algorithm.count
    as_integer = f"MOD(ABS({{0}}), {count})"
    if java is JavaType.INTEGER:
        return as_integer
    bits = "((CAST({0} AS UNSIGNED) ^ (CAST({0} AS UNSIGNED) >> 32)) & 4294967295)"
    as_long = f"MOD(IF({bits} < 2147483648, {bits}, 4294967296 - {bits}), {count})"
    return f"IF({{0}} BETWEEN -2147483648 AND 2147483647, {as_integer}, {as_long})" if algorithm.normalized else as_long
