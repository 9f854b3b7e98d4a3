"""What a table's columns say about its key."""

from __future__ import annotations

import pytest

from migrate.model.errors import ConfigError, MigrateError
from migrate.model.table import Column, Kind, Table
from tests.helpers import int_column, plain_table, text_column

EXACT = {
    *(Kind.INT, Kind.DECIMAL, Kind.BIT, Kind.ENUM, Kind.SET, Kind.YEAR),
    *(Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME),
    *(Kind.BINARY, Kind.VECTOR, Kind.UUID, Kind.INET),
}


@pytest.mark.parametrize("kind", Kind)
def test_a_key_is_exact_where_different_texts_are_always_different_keys(kind: Kind) -> None:
    column = Column("c", "x", kind, nullable=False)
    assert column.key_is_exact == (kind in EXACT)
    assert Table("s", "d", "t", (column,), ("c",)).one_partition == (kind not in EXACT)


def test_one_inexact_part_makes_the_key_inexact() -> None:
    table = Table("s", "d", "t", (int_column("a"), text_column("b"), int_column("c")), ("a", "b"))
    assert not table.key_is_exact
    assert Table("s", "d", "t", table.columns, ("a", "c")).key_is_exact


def test_further_unique_keys_bind_a_table_to_one_partition() -> None:
    assert not plain_table().one_partition
    assert plain_table(unique_keys=(("v",),)).one_partition


def test_the_key_has_its_own_order_and_generated_columns_are_not_written() -> None:
    columns = (int_column("a"), int_column("g", generated=True), int_column("b"))
    table = Table("s", "d", "t", columns, ("b", "a"))
    assert [column.name for column in table.key_columns] == ["b", "a"]
    assert [column.name for column in table.stored] == ["a", "b"]


def test_errors_know_their_exit_codes_and_show_their_hint() -> None:
    assert str(ConfigError("wrong", hint="mend it")) == "wrong (mend it)"
    codes = {kind.__name__: kind.exit_code for kind in MigrateError.__subclasses__()}
    assert codes == {
        "DifferenceFound": 1,
        "ConfigError": 2,
        "PreflightError": 3,
        "ServerError": 4,
        "StopError": 5,
        "OwnershipLost": 6,
        "CutoverAborted": 7,
    }
