"""Row conditions: which rows of a table belong to the migration.

A condition has one meaning in two places: here, on the texts of a row image, and in the server, on its columns
(`migrate.mysql.rowfilter`). So it knows only comparisons that both make alike: numbers by value, dates by their
digits, text by its bytes and only for equality.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any

from migrate.model.errors import ConfigError
from migrate.model.labels import labels_of
from migrate.model.table import Column, Kind, Table

_NUMBERS = frozenset({Kind.INT, Kind.BIT, Kind.YEAR, Kind.DECIMAL})
_DATES = frozenset({Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP})
_ZERO_AS_NULL = frozenset({Kind.DATE, Kind.DATETIME})
"""Both servers take a zero date for NULL in `IS NULL` where the column is NOT NULL (MySQL manual, "Comparison Functions
and Operators", IS NULL)."""
_YEARS = frozenset({0, *range(1901, 2156)})
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?)?")
_FRACTION = re.compile(r"\((\d)\)")

Value = int | Decimal | str | None


class Comparison(StrEnum):
    """How a column is compared. With a NULL in the column only `IS null` holds, as in SQL."""

    IS = "is"
    IS_NOT = "is_not"
    IN = "in"
    AT_LEAST = "at_least"
    ABOVE = "above"
    AT_MOST = "at_most"
    BELOW = "below"


_EQUALITY = frozenset({Comparison.IS, Comparison.IS_NOT, Comparison.IN})
_COMPARE: dict[Comparison, Callable[[Any, Any], bool]] = {
    Comparison.AT_LEAST: lambda mine, given: bool(mine >= given),
    Comparison.ABOVE: lambda mine, given: bool(mine > given),
    Comparison.AT_MOST: lambda mine, given: bool(mine <= given),
    Comparison.BELOW: lambda mine, given: bool(mine < given),
}


@dataclass(frozen=True, slots=True)
class Condition:
    """One comparison of a column; values as `read_value` gives them, several only for IN."""

    column: Column
    test: Comparison
    values: tuple[Value, ...]

    def holds(self, text: str | None) -> bool:
        """Whether it holds for the column's canonical text."""
        if None in self.values:
            return (text is None) is (self.test is Comparison.IS)
        if text is None:
            return False
        mine = _number(text) if self.column.kind in _NUMBERS else int(text) if self.column.kind is Kind.ENUM else text
        if self.test in _EQUALITY:
            return (mine in self.values) is not (self.test is Comparison.IS_NOT)
        return _COMPARE[self.test](mine, self.values[0])


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Conditions that must all hold for a row."""

    conditions: tuple[Condition, ...]

    def keeps(self, row: Mapping[str, str | None]) -> bool:
        """Whether a row image (column name to canonical text, all columns) belongs to the migration."""
        return all(condition.holds(row[condition.column.name]) for condition in self.conditions)


def make_filter(table: Table, wanted: Iterable[tuple[str, Comparison, Iterable[object]]]) -> RowFilter | None:
    """The filter of a table from (column, test, values) as configured; None without conditions.

    Raises: ConfigError that names table and column for one that cannot be judged alike everywhere.
    """
    conditions = []
    for name, test, values in wanted:
        column = table.by_name.get(name)
        if column is None:
            raise ConfigError(f"tables: {table.full_name}: rows: there is no column '{name}'")
        try:
            conditions.append(Condition(column, test, tuple(_read(column, test, value) for value in values)))
        except ValueError as error:
            raise ConfigError(f"tables: {table.full_name}: rows: {column.titled} {error}") from None
    return RowFilter(tuple(conditions)) if conditions else None


def _read(column: Column, test: Comparison, given: object) -> Value:
    """A configured value in the form it is compared in. Raises ValueError."""
    if given is None:
        if test not in (Comparison.IS, Comparison.IS_NOT):
            raise ValueError("can only be compared with null by 'is' or 'is_not'")
        if test is Comparison.IS and column.kind in _ZERO_AS_NULL and not column.nullable:
            raise ValueError(
                "cannot be NULL, and servers find zero dates there by IS NULL; write '0000-00-00' for these"
            )
        return None
    if isinstance(given, bool):
        raise ValueError("is compared with a truth value; write 0 or 1")
    text = str(given)
    if column.kind is Kind.YEAR:
        return _read_year(text)
    if column.kind in _NUMBERS:
        return _read_number(text)
    if column.kind in _DATES:
        return _read_moment(column, text)
    if test not in _EQUALITY or column.kind not in (Kind.TEXT, Kind.ENUM, Kind.UUID):
        ordered = "; only numbers and dates have an order here" if test not in _EQUALITY else ""
        raise ValueError(f"cannot be compared by '{test}'{ordered}")
    if column.kind is Kind.ENUM:
        return _read_label(column, text)
    return text.lower() if column.kind is Kind.UUID else text


def _number(text: str) -> int | Decimal:
    return Decimal(text) if "." in text else int(text)


def _read_number(text: str) -> int | Decimal:
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise ValueError(f"is compared with {text!r}, which is no number") from None
    if not number.is_finite():
        raise ValueError(f"is compared with {text!r}, which is no number")
    return int(number) if number == number.to_integral_value() else number


def _read_year(text: str) -> int | Decimal:
    """Servers take 70 for 1970, in some of their comparisons."""
    number = _read_number(text)
    if number not in _YEARS:
        raise ValueError(f"is compared with {text!r}, which is no year of it; write 1901 to 2155, or 0")
    return number


def _read_moment(column: Column, text: str) -> str:
    """The date with as many digits as the column's texts have, so that texts compare as moments do."""
    if column.kind is Kind.DATE:
        if not _DATE.fullmatch(text):
            raise ValueError(f"is compared with {text!r}, which is not written as 2024-12-31")
        return text
    found = _MOMENT.fullmatch(text)
    digits = _FRACTION.search(column.type)
    places = int(digits[1]) if digits else 0
    if found is None or len(found[3] or "") > places:
        raise ValueError(f"is compared with {text!r}, which is not written as 2024-12-31 or 2024-12-31 23:59:59")
    fraction = "." + (found[3] or "").ljust(places, "0") if places else ""
    return f"{found[1]} {found[2] or '00:00:00'}{fraction}"


def _read_label(column: Column, text: str) -> int:
    """The index of an ENUM's value, which is what its canonical text says."""
    labels = labels_of(column.type)
    if text not in labels:
        raise ValueError(f"has no value {text!r}")
    return labels.index(text) + 1
