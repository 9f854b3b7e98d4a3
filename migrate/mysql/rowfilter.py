"""Row conditions as the server judges them; the same meaning as `migrate.model.rowfilter` has on texts."""

from __future__ import annotations

from decimal import Decimal

from migrate.model.rowfilter import Comparison, Condition, RowFilter, Value
from migrate.model.table import Kind
from migrate.mysql.quoting import quote
from migrate.mysql.values import Parameter, selected

_SIGN = {
    Comparison.IS: "=",
    Comparison.IS_NOT: "<>",
    Comparison.AT_LEAST: ">=",
    Comparison.ABOVE: ">",
    Comparison.AT_MOST: "<=",
    Comparison.BELOW: "<",
}


def and_rows(where: str, arguments: list[Parameter], rows: RowFilter | None) -> tuple[str, list[Parameter]]:
    """A WHERE clause and its parameters, narrowed to the rows that belong to the migration."""
    if rows is None:
        return where, arguments
    parts = [_sql(condition) for condition in rows.conditions]
    texts = [f"({where})", *(sql for sql, _ in parts)]
    return " AND ".join(texts), [*arguments, *(value for _, values in parts for value in values)]


def _sql(condition: Condition) -> tuple[str, list[Parameter]]:
    column, test = condition.column, condition.test
    if None in condition.values:
        return f"{quote(column.name)} IS {'' if test is Comparison.IS else 'NOT '}NULL", []
    side = selected(column)
    if column.kind is Kind.TEXT:
        side = f"CAST({side} AS BINARY)"  # by its bytes: a collation may take two texts for one
    marks = ", ".join(["%s"] * len(condition.values))
    values = [_parameter(column.kind, value) for value in condition.values]
    return f"{side} IN ({marks})" if test is Comparison.IN else f"{side} {_SIGN[test]} {marks}", values


def _parameter(kind: Kind, value: Value) -> Parameter:
    if kind is Kind.TEXT:
        return str(value).encode()
    return value if isinstance(value, int | Decimal) else str(value)  # as a text a number is compared as DOUBLE
