"""Rows as literals: the same text as the driver makes of parameters, whatever the value."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from migrate.model.errors import StopError
from migrate.model.message import Row
from migrate.model.table import BYTES_KINDS, Column, Kind, Table
from migrate.mysql.values import parameter, placeholder
from migrate.target.literals import RowLiterals, suits
from tests.helpers import int_column, text_column
from tests.target.conftest import TargetSide

NUMBERS = (Kind.INT, Kind.BIT, Kind.ENUM, Kind.SET)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
SPECIAL = st.text("'\"\\\0\n\r\x1a%s€é`", max_size=8)
JSONS = st.sampled_from(['{"a": [1, "it\'s"]}', "null", '"\\\\n"', '[\n1.50, \r"2024-02-29"]', '{"é": \t7}'])


def column(kind: Kind) -> Column:
    charset, collation = ("gbk", "gbk_bin") if kind is Kind.RAWTEXT else (None, None)
    return Column(f"c_{kind}", "whatever(7)", kind, charset, collation)


COLUMNS = (text_column("id"), *(column(kind) for kind in Kind))
TABLE = Table("s", "shop", "t", COLUMNS, ("id",))


def texts(kind: Kind) -> st.SearchStrategy[str | None]:
    if kind in NUMBERS:
        return st.none() | st.integers(0, 2**64 - 1).map(str)
    if kind in BYTES_KINDS:
        return st.none() | st.binary(max_size=12).map(lambda raw: raw.decode("latin-1"))
    return st.none() | (JSONS if kind is Kind.JSON else TEXTS | SPECIAL)


ROWS = st.fixed_dictionaries({each.name: texts(each.kind) for each in COLUMNS})


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(row=ROWS)
def test_a_row_is_written_as_the_driver_writes_its_parameters(side: TargetSide, row: dict[str, str | None]) -> None:
    assert suits(side.one)
    marks = ",".join(placeholder(each) for each in TABLE.stored)
    values = [parameter(each)(row[each.name]) for each in TABLE.stored]
    with side.one.raw.cursor() as cursor:
        text = RowLiterals(TABLE, side.one).text(row)
        assert _quotes_bare(text) == _quotes_bare(cursor.mogrify(f"({marks})", values))


def _quotes_bare(sql: str) -> str:
    """Between apostrophes a quotation mark is the same with a backslash before it and without."""
    return re.sub(r"\\(.)", lambda pair: '"' if pair[1] == '"' else pair[0], sql, flags=re.DOTALL)


@pytest.mark.parametrize("value", ["1,2", "", "None", "1 OR 1", "0x10", "1.5", "²"])
@pytest.mark.parametrize("numbers", [1, 2, 3])
def test_what_is_no_whole_number_is_refused(side: TargetSide, value: str, numbers: int) -> None:
    columns = tuple(int_column(f"c{at}") for at in range(numbers))
    literals = RowLiterals(Table("s", "shop", "t", columns, ("c0",)), side.one)
    for at in range(numbers):
        row: Row = {f"c{one}": value if one == at else "7" for one in range(numbers)}
        with pytest.raises(StopError, match=f"column c{at} .* not a number"):
            literals.text(row)


@pytest.mark.parametrize("name", ["a'b", 'a"b', "a\\b", "a{b}", "a\nb", "])", "é`x"])
def test_a_column_may_have_any_name(side: TargetSide, name: str) -> None:
    table = Table("s", "shop", "t", (int_column("id"), text_column(name)), ("id",))
    assert RowLiterals(table, side.one).text({"id": "7", name: "x"}) == "(7,'x')"
    assert RowLiterals(table, side.one).text({"id": "7", name: "it's"}) == "(7,'it\\'s')"
    with pytest.raises(KeyError):
        RowLiterals(table, side.one).text({"id": "7"})


def test_a_session_in_which_a_backslash_is_a_character_gets_parameters(side: TargetSide) -> None:
    mode = side.two.one("SELECT @@SESSION.sql_mode")
    assert mode is not None
    side.two.query("SET SESSION sql_mode = CONCAT(@@SESSION.sql_mode, ',NO_BACKSLASH_ESCAPES')")
    try:
        assert not suits(side.two)
    finally:
        side.two.query("SET SESSION sql_mode = %s", [mode[0]])
    assert suits(side.two)
