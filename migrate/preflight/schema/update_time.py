"""The columns of `tables[].update_time`: what they can tell apart. One that tells no order is in no plan."""

from __future__ import annotations

from collections.abc import Iterator

from migrate.model.table import Column, Kind
from migrate.preflight.result import Result, Verdict
from migrate.target.routing import Plan

CHECK = "update_time"


def check(plan: Plan) -> Iterator[Result]:
    """One result for each table that has the filter: a note where it lets older changes through."""
    for planned in plan.tables.values():
        if planned.update_time is None:
            continue
        table = planned.table
        column = table.by_name[planned.update_time]
        told = f"{table.full_name}: {column.titled} tells which row is newer"
        if limits := list(_limits(column)):
            yield Result(CHECK, table.full_name, Verdict.NOTE, f"{told}; {'; '.join(limits)}")
        else:
            yield Result(CHECK, table.full_name, Verdict.PASS, told)


def _limits(column: Column) -> Iterator[str]:
    if column.kind is not Kind.INT and "(" not in column.type:
        yield "it has whole seconds: a change of the same second as the target's row is applied"
    if column.nullable:
        yield "it takes NULL: a change is applied where it or the target's row has none"
