"""Each type of the matrix on the real servers: insert, update, delete, and compare with what they print."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

import pytest
from decode_support import SESSION, RawEvent, both_ways, changes, decoder_cache, recording
from pymysql.cursors import Cursor

from migrate.publish.decode.rows import DecoderCache, Image
from sandbox.database import DatabaseServer
from tests.types.matrix import Case, printed_cases_of

DATABASE = "decode_types"
FLAVOURS = os.environ.get("FLAVOURS", "mariadb,mysql").split(",")


@dataclass
class Outcome:
    """What one table went through: its events, and its rows as the server prints them."""

    decoder: DecoderCache
    events: list[RawEvent]
    inserted: list[Image]
    updated: list[Image]


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest) -> Callable[[str], dict[str, Outcome]]:
    """The outcome of every case of a flavour, by case name; each server is worked through once."""
    made: dict[str, dict[str, Outcome]] = {}

    def of(flavour: str) -> dict[str, Outcome]:
        if flavour not in made:
            made[flavour] = work_through(request.getfixturevalue(f"{flavour}_box").source, printed_cases_of(flavour))
        return made[flavour]

    return of


def work_through(server: DatabaseServer, cases: list[Case]) -> dict[str, Outcome]:
    server.execute(f"DROP DATABASE IF EXISTS {DATABASE}", f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")
    seen = []
    with recording(server, DATABASE) as capture:
        with closing(server.connect(DATABASE, autocommit=False)) as connection, connection.cursor() as cursor:
            for statement in SESSION:
                cursor.execute(statement)
            for number, case in enumerate(cases):
                seen.append(change_every_row(cursor, f"t{number}", case))
                connection.commit()
    cache = decoder_cache(server)
    return {case.name: Outcome(cache, capture.of(f"t{number}"), *seen[number]) for number, case in enumerate(cases)}


def change_every_row(cursor: Cursor, table: str, case: Case) -> tuple[list[Image], list[Image]]:
    """Fill a table of the case's type, update and empty it. Its rows after the inserts and the updates."""
    values = [*case.values, "NULL"]

    def rows() -> list[Image]:
        cursor.execute(f"SELECT id, {case.select.format('v')}, tail FROM {table} ORDER BY id")
        return [
            (str(key), None if value is None else case.read(str(value)), tail) for key, value, tail in cursor.fetchall()
        ]

    cursor.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, v {case.type}, tail VARCHAR(9) NOT NULL)")
    for number, value in enumerate(values):
        cursor.execute(f"INSERT INTO {table} VALUES ({number}, {value}, 'end')")
    inserted = rows()
    for number in range(len(values)):
        cursor.execute(f"UPDATE {table} SET v = {values[number - 1]}, tail = 'changed' WHERE id = {number}")
    updated = rows()
    cursor.execute(f"DELETE FROM {table} ORDER BY id")
    return inserted, updated


@pytest.mark.parametrize(
    ("flavour", "case"),
    [
        pytest.param(flavour, case, id=f"{flavour}-{case.name}")
        for flavour in FLAVOURS
        for case in printed_cases_of(flavour)
    ],
)
def test_a_value_of_each_type_is_decoded_as_the_server_prints_it(
    outcomes: Callable[[str], dict[str, Outcome]], flavour: str, case: Case
) -> None:
    outcome = outcomes(flavour)[case.name]

    assert len(outcome.inserted) == len(case.values) + 1
    assert changes(outcome.decoder, outcome.events) == [
        *((None, row) for row in outcome.inserted),
        *zip(outcome.inserted, outcome.updated, strict=True),
        *((row, None) for row in outcome.updated),
    ]


@pytest.mark.parametrize(
    ("flavour", "case"),
    [
        pytest.param(flavour, case, id=f"{flavour}-{case.name}")
        for flavour in FLAVOURS
        for case in printed_cases_of(flavour)
    ],
)
def test_the_fast_path_writes_the_same_text_for_a_value_of_each_type(
    outcomes: Callable[[str], dict[str, Outcome]], flavour: str, case: Case
) -> None:
    outcome = outcomes(flavour)[case.name]

    for table_map, kind, body in outcome.events:
        fast, slow = both_ways(outcome.decoder.get(table_map), kind, body, key=("id",))
        assert fast is not None
        assert fast == slow
