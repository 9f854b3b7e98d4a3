"""Values on their way from the source's raw bytes to the target's parameters, a column at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from migrate.model.table import BYTES_KINDS, Column, Kind
from migrate.mysql.values import Parameter, from_server, half_a_character, parameter
from migrate.target.routing import PlannedTable

Raw = Sequence[bytes | None]
_THROUGH_TEXT = frozenset({Kind.FLOAT, Kind.DOUBLE, Kind.JSON})


def carried(planned: PlannedTable) -> tuple[str, ...]:
    """The columns that stand beside a row's line: those of the key, and those that it is routed by, at either side."""
    return tuple(dict.fromkeys((*planned.table.key, *planned.routing)))


def to_parameters(column: Column) -> Callable[[Raw], list[Parameter]]:
    """A function from a column's raw values to what the driver writes.

    The same as `parameter` after `from_server`, without the text in between where that changes nothing.
    """
    if column.kind in BYTES_KINDS:
        return list
    write = parameter(column)
    if column.kind in _THROUGH_TEXT:
        read = from_server(column)
        return lambda values: [write(read(value)) for value in values]
    if write("0") == 0:
        return lambda values: [None if value is None else int(value) for value in values]

    def texts(values: Raw) -> list[Parameter]:
        try:
            return [None if value is None else value.decode() for value in values]
        except UnicodeDecodeError:
            raise half_a_character(column) from None

    return texts


def to_text(column: Column) -> Callable[[Raw], list[str | None]]:
    """A function from a column's raw values to canonical texts."""
    read = from_server(column)
    return lambda values: [read(value) for value in values]


def text_of(column: Column) -> Callable[[Parameter], str]:
    """A function from a key column's parameter back to its canonical text."""
    if column.kind in BYTES_KINDS:
        return lambda value: value.decode("latin-1") if isinstance(value, bytes) else str(value)
    return str
