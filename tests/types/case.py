"""A column type and its values, and how the servers are asked about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

BOTH = ("mariadb", "mysql")
MARIADB = ("mariadb",)
MYSQL = ("mysql",)
LABELS = ("minimum", "maximum", "zero", "empty", "odd", "null")


class Value(NamedTuple):
    label: str
    sql: str


@dataclass(frozen=True)
class Case:
    """A column type and values for it."""

    name: str
    type: str
    labelled: tuple[Value, ...]
    select: str = "CAST({0} AS CHAR)"  # {0} is the quoted column
    read: Callable[[str], str] = str
    flavours: tuple[str, ...] = BOTH
    exact: str = "HEX(CAST({0} AS BINARY))"

    @property
    def values(self) -> tuple[str, ...]:
        return tuple(value.sql for value in self.labelled)


def values(
    *odd: str,
    minimum: str | Iterable[str] = (),
    maximum: str | Iterable[str] = (),
    zero: str | Iterable[str] = (),
    empty: str | Iterable[str] = (),
) -> tuple[Value, ...]:
    labelled = {"minimum": minimum, "maximum": maximum, "zero": zero, "empty": empty, "odd": odd}
    return tuple(
        Value(label, sql) for label, given in labelled.items() for sql in ([given] if isinstance(given, str) else given)
    )


def latin1_of_hex(text: str) -> str:
    return bytes.fromhex(text).decode("latin-1")


def repr_of_double(text: str) -> str:
    return repr(float(text))


AS_DOUBLE = "CAST({0} * 1e0 AS CHAR)"
"""The shortest digits that read back as the same double; CHECKSUM TABLE sees the bytes themselves."""


def number_case(type_: str, minimum: int, maximum: int, *odd: int) -> Case:
    given = values(*map(str, odd), minimum=str(minimum), maximum=str(maximum), zero="0")
    return Case(type_, type_, given, "CAST({0} + 0 AS CHAR)")


def index_case(name: str, type_: str, given: tuple[Value, ...]) -> Case:
    """ENUM, SET and BIT. Not SET + 0, which is a double."""
    return Case(name, type_, given, "CAST(CAST({0} AS UNSIGNED) AS CHAR)", exact="CAST({0} AS UNSIGNED)")


def bytes_case(name: str, type_: str, given: tuple[Value, ...], flavours: tuple[str, ...] = BOTH) -> Case:
    return Case(name, type_, given, "HEX({0})", latin1_of_hex, flavours, "HEX({0})")


def text_case(name: str, type_: str, given: tuple[Value, ...], flavours: tuple[str, ...] = BOTH) -> Case:
    return Case(name, type_, given, "{0}", str, flavours, "HEX({0})")


def full(*odd: str, full: str, length: int) -> tuple[Value, ...]:
    """For text: one character, the longest, the digit zero, nothing, and what else."""
    return values(*odd, minimum="'a'", maximum=f"REPEAT({full}, {length})", zero="'0'", empty="''")
