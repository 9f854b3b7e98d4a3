"""The type matrix from MySQL to MariaDB and back: no false difference, and none that is not found.

What both servers say of a value is compared as `exact` has it, but for floating-point numbers, of which the notation
differs, and JSON, of which the text alone is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from migrate.chunks.chosen_tables import chosen_tables
from migrate.chunks.sessions import Sessions, forget
from migrate.model.change import Key
from migrate.model.chunk import Chunk
from migrate.state import database
from migrate.target.routing import PlannedTable
from migrate.verify.chunk_check import CheckJob, compare_chunk
from migrate.verify.lookup import differing_columns
from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.copy.setup import alike
from tests.types.case import AS_DOUBLE
from tests.types.documents import JSON_EXACT
from tests.types.matrix import Case, cases_of
from tests.types.special import special_tables
from tests.types.ways import SESSION, Rows, Ways, Wide, quoted, streamed, wide_tables

DOUBLE = "{0} * 1e0"
EVERYTHING = Chunk(0, None, None)
NOT_THERE = ("VECTOR", "gb18030", "UUID", "INET", "DECIMAL(38,38)")
"""Of these the other flavour has none (test_mixed.py of the flows)."""


def taken(case: Case) -> bool:
    return not any(name in case.name for name in NOT_THERE)


def asked(case: Case) -> Case:
    """Of a document its text; of a double the number, as a cast of one is cut after 22 characters on MySQL."""
    exact = {JSON_EXACT: "HEX(CAST({0} AS CHAR))", AS_DOUBLE: DOUBLE}
    return replace(case, exact=exact.get(case.exact, case.exact))


def seen(tables: list[Wide], rows: dict[str, Rows]) -> dict[tuple[str, int, str], object]:
    """Each value by table, key and column; of doubles there is one zero, as MariaDB has it."""
    found: dict[tuple[str, int, str], object] = {}
    for table in tables:
        for key, values in rows[table.name].items():
            for column, value in zip(table.columns, values, strict=False):
                found[table.name, key, column] = value + 0.0 if isinstance(value, float) else value
    return found


@pytest.fixture(scope="module")
def made(crossed: Sandbox, kafka: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ways]:
    """The matrix at the target, by the stream."""
    tables = [*wide_tables([asked(case) for case in cases_of(crossed.flavour) if taken(case)]), *special_tables()]
    with streamed(crossed, kafka, Path(tmp_path_factory.mktemp("mixed")), tables) as ways:
        yield ways


Look = Callable[[], dict[str, list[Key]]]


@pytest.fixture
def world(made: Ways) -> Iterator[tuple[Sessions, dict[str, PlannedTable], Look]]:
    settings = made.settings
    state, sessions = database.engine(settings.state), Sessions(settings)
    planned = {one.table.name: one for one in chosen_tables(settings, state, None)}

    def look() -> dict[str, list[Key]]:
        """The keys that differ, by table."""
        checked = {name: compare_chunk(CheckJob(settings, (one,)), EVERYTHING) for name, one in planned.items()}
        assert all(one.rows > 4 for one in checked.values())
        return {name: list(one.suspects.keys) for name, one in checked.items() if one.suspects.keys}

    yield sessions, planned, look
    forget()
    sessions.close()
    state.dispose()


def test_the_stream_and_the_copy_bring_what_the_source_holds_and_nothing_is_called_different(
    made: Ways, world: tuple[Sessions, dict[str, PlannedTable], Look]
) -> None:
    (sessions, planned, look), tables = world, list(made.tables)
    truth = seen(tables, {table.name: made.truth(table) for table in tables})
    assert len(truth) > 5000
    for copies in (False, True):
        if copies:
            made.copy()
        found = seen(tables, {table.name: made.found(table) for table in tables})
        assert {key: (value, found.get(key)) for key, value in truth.items() if value != found.get(key)} == {}
        assert found.keys() == truth.keys()
        assert look() == {}
        assert all(alike(sessions, one) for one in planned.values())


def test_a_value_that_is_another_is_found_with_its_column(
    made: Ways, world: tuple[Sessions, dict[str, PlannedTable], Look]
) -> None:
    """In each column one row of the target gets another row's value; they stay so."""
    sessions, planned, look = world
    tables = [table for table in made.tables if "ON UPDATE" not in table.create]
    truth = seen(tables, {table.name: made.truth(table) for table in tables})
    changed: dict[tuple[str, int], list[str]] = {}
    for table in tables:
        updates = []
        for number, column in enumerate(table.columns):
            values = {key: truth[table.name, key, column] for key in range(1, table.rows)}
            key = 1 + number % (table.rows - 1)
            other = next((one for one, value in values.items() if value != values[key]), None)
            if other is not None and values[other] is not None:
                changed.setdefault((table.name, key), []).append(column)
                name = quoted(column)
                of_other = f"SELECT {name} FROM {table.name} WHERE {quoted(table.key)} = {other}"
                updates.append(
                    f"UPDATE {table.name} SET {name} = (SELECT * FROM ({of_other}) AS one)"
                    f" WHERE {quoted(table.key)} = {key}"
                )
        made.box.targets[0].execute(*SESSION, *updates, database=made.target)
    found = {(name, int(key[0])) for name, keys in look().items() for key in keys}
    assert found == changed.keys()
    assert sum(map(len, changed.values())) > 200
    for (name, number), columns in changed.items():
        assert differing_columns(sessions, planned[name], (str(number),), 0) == columns
