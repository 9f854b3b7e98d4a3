"""The status once a minute: one row for each minute, of the last days alone. Costs 1 s beside its server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from migrate.state import status_history
from migrate.state.status_history import KEPT_MINUTES, StatusSample

SAMPLE = StatusSample("copying", 1.5, 70, 3, 2, "person", "migrate parked list")
_MINUTE = sa.text("SELECT TIMESTAMPDIFF(MINUTE, '1970-01-01', UTC_TIMESTAMP())")


@pytest.fixture
def connection(state: sa.Engine) -> Iterator[sa.Connection]:
    with state.begin() as connection:
        connection.execute(sa.delete(status_history.table))
        yield connection


def put(connection: sa.Connection, migration: str, minute: int, changes: int = 0) -> None:
    """A row as an earlier minute left it."""
    connection.execute(
        sa.text(
            "INSERT INTO status_history VALUES (:migration, :minute, TIMESTAMPADD(MINUTE, :minute, '1970-01-01'),"
            " 'copying', 0, :changes, 0, 0, 'fine', '')"
        ),
        {"migration": migration, "minute": minute, "changes": changes},
    )


def test_a_minute_has_the_first_status_that_was_noted_in_it(connection: sa.Connection) -> None:
    before = int(connection.execute(_MINUTE).scalar_one())
    status_history.note(connection, "shop", SAMPLE)
    status_history.note(connection, "shop", StatusSample("", 9.0, 9, 9, 9, "fine", ""))
    after = int(connection.execute(_MINUTE).scalar_one())
    first, *others = status_history.every(connection, "shop")
    assert first.sample == SAMPLE
    assert before <= first.minute <= after
    assert len(others) <= after - before
    assert status_history.every(connection, "other") == []


def test_rows_of_the_last_days_are_kept_and_older_ones_are_not(connection: sa.Connection) -> None:
    now = int(connection.execute(_MINUTE).scalar_one())
    for minute in (now - KEPT_MINUTES - 1, now - KEPT_MINUTES, now - KEPT_MINUTES + 3, now - 2):
        put(connection, "shop", minute)
        put(connection, "other", minute)
    status_history.note(connection, "shop", SAMPLE)
    kept = [one.minute for one in status_history.every(connection, "shop")]
    assert kept[:2] == [now - KEPT_MINUTES + 3, now - 2]
    assert len(kept) == 3
    assert [one.minute for one in status_history.every(connection, "shop", now - 2)] == kept[2:]
    assert len(status_history.every(connection, "other")) == 4


def test_the_last_minutes_of_each_migration_are_told(connection: sa.Connection) -> None:
    for migration, end in (("shop", 5000), ("other", 90)):
        for minute in range(end - 9, end + 1):
            put(connection, migration, minute, minute)
    found = status_history.latest(connection)
    assert {name: [one.minute for one in rows] for name, rows in found.items()} == {
        "shop": [4998, 4999, 5000],
        "other": [88, 89, 90],
    }
    assert found["shop"][-1].sample.changes == 5000
