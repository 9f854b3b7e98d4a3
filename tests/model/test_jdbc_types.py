"""Columns' types in Canal's messages have the numbers that Canal gives them."""

import pytest

from migrate.model.jdbc_types import jdbc_type


@pytest.mark.parametrize(
    ("column_type", "number"),
    [
        ("tinyint(1)", -6),
        ("tinyint(3) unsigned", 5),
        ("smallint", 5),
        ("smallint unsigned", 4),
        ("mediumint(8) unsigned zerofill", 4),
        ("int", 4),
        ("int(10) unsigned", -5),
        ("bigint(20)", -5),
        ("bigint(20) unsigned zerofill", 3),
        ("decimal(10,2) unsigned", 3),
        ("float unsigned", 7),
        ("double(10,3)", 8),
        ("bit(1)", -7),
        ("year(4)", 12),
        ("date", 91),
        ("time(6)", 92),
        ("datetime(3)", 93),
        ("timestamp", 93),
        ("char(3)", 1),
        ("varchar(20)", 12),
        ("json", 12),
        ("longtext", 2005),
        ("varbinary(16)", 2004),
        ("tinyblob", 2004),
        ("multipolygon", 2004),
        ("enum('int','unsigned','a)')", 4),
        ("set('unsigned (x)')", -7),
        ("inet6", 1111),
        ("vector(3)", 1111),
        ("", 1111),
    ],
)
def test_a_type_has_canals_number(column_type: str, number: int) -> None:
    assert jdbc_type(column_type) == number
