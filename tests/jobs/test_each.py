"""One table that cannot be copied keeps no other one from being copied."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jobs.full_copy import TableCopied, each
from migrate.model.errors import OwnershipLost, ServerError, StopError
from migrate.state.chunks import CopyCounts
from migrate.target.routing import PlannedTable
from tests.helpers import plain_table, plan_of

(_PLANNED,) = plan_of(plain_table()).tables.values()
_TABLES = [replace(_PLANNED, table=replace(_PLANNED.table, name=name)) for name in ("a", "b", "c")]


def copying(errors: dict[str, Exception]) -> tuple[list[str], Exception | None]:
    """The tables that were copied where these meet errors, and what is raised."""
    copied: list[str] = []

    def copy(planned: PlannedTable, _done: int) -> TableCopied:
        if planned.table.name in errors:
            raise errors[planned.table.name]
        copied.append(planned.table.name)
        return TableCopied(planned.table.full_name, "s", CopyCounts(), 0, 0.0, 0)

    try:
        each(_TABLES, copy)
    except Exception as error:
        return copied, error
    return copied, None


def test_tables_behind_a_refused_one_are_copied_and_both_are_told() -> None:
    copied, error = copying({"a": StopError("refused", hint="the way out")})
    assert copied == ["b", "c"]
    assert isinstance(error, StopError)
    assert (error.message, error.hint) == ("refused (shop.a; 2 other tables are copied)", "the way out")
    _, error = copying({"a": StopError("refused"), "c": StopError("another")})
    assert "1 other tables are copied; neither are shop.c" in str(error)


def test_a_defect_in_one_table_names_it_and_stops_that_one_only() -> None:
    copied, error = copying({"b": ValueError("'g' is not in list")})
    assert copied == ["a", "c"]
    assert isinstance(error, ValueError)
    assert error.__notes__ == ["while shop.b was copied; 2 other tables are copied"]


@pytest.mark.parametrize("kind", [ServerError, OwnershipLost])
def test_what_concerns_all_tables_ends_the_copy_at_once(kind: type[Exception]) -> None:
    copied, error = copying({"b": kind("away")})
    assert copied == ["a"]
    assert isinstance(error, kind)


def test_nothing_is_raised_where_all_are_copied() -> None:
    assert copying({}) == (["a", "b", "c"], None)
