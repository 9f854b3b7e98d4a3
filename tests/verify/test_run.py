"""The check of a table goes on in another process wherever the first one ended, to the same outcome; without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from migrate.chunks.sessions import Sessions, forget
from migrate.model.change import Key
from migrate.mysql.quoting import quote
from migrate.verify.chunk_check import CheckJob, check_chunk
from migrate.verify.difference import Kind
from migrate.verify.table_check import TableCheck
from migrate.verify.verified import TableVerified
from sandbox.stack import Sandbox
from tests.copy.setup import Laid, lay, spread

CREATE = "CREATE TABLE {t} (id BIGINT, part VARCHAR(20), v INT, PRIMARY KEY (part, id))"
PARTS = ("a", "b'\"\\", "ü€")
ROWS = 60
FILL = [
    "INSERT INTO {t} VALUES " + ", ".join(f"({number}, '{part}', {number})" for number in range(ROWS))
    for part in ("a", "b\\'\"\\\\", "ü€")
]
LOST: Key = ("a", "3")
"""In the first chunk; the key in the order of its index."""


@pytest.fixture
def laid(box: Sandbox, tmp_path: Path) -> Laid:
    extra = {"verify": {"chunk_rows": 10, "rechecks": 1, "recheck_seconds": 0.01}}
    laid = lay(box, tmp_path, CREATE, spread("id", "t"), fill=FILL, extra=extra)
    rows = laid.source_rows()
    by_place: dict[int, list[tuple[object, ...]]] = {}
    homes = laid.table.rule.route_many([[str(row[0]) for row in rows]])
    for row, home in zip(rows, homes, strict=True):
        by_place.setdefault(home, []).append(row)
    for index, mine in by_place.items():
        marks = ", ".join(["(%s, %s, %s)"] * len(mine))
        with closing(laid.connect(index)) as connection:
            name = quote(laid.table.places[index].table)
            connection.execute(f"INSERT INTO {name} VALUES {marks}", [value for row in mine for value in row])
    assert sum(map(len, laid.target_rows().values())) == ROWS * len(PARTS)
    return laid


def do(laid: Laid, number: int, statement: str) -> None:
    home = laid.table.rule.route_many([[str(number)]])[0]
    with closing(laid.connect(home)) as connection:
        connection.execute(statement.replace("{t}", quote(laid.table.places[home].table)))


@pytest.fixture
def sessions(laid: Laid) -> Iterator[Sessions]:
    with closing(Sessions(laid.settings)) as found:
        yield found
    forget()


def compared(laid: Laid, sessions: Sessions, before: str | None, waves: int | None) -> tuple[TableCheck, list[int]]:
    """A check that goes on from what was kept, after so many waves, with one more out; and the chunks it compared."""
    job, check, numbers = CheckJob(laid.settings, (laid.table,)), TableCheck(laid.settings, (laid.table,), sessions), []
    if before is not None:
        check.load(json.loads(before))
    while waves is None or waves > 0:
        if not (wave := check.wave(2)):
            break
        check.settle([check_chunk(job, chunk) for chunk in wave])
        numbers += [chunk.number for chunk in wave]
        waves = None if waves is None else waves - 1
    if waves is not None:
        check.wave(2)
    return check, numbers


def outcome(check: TableCheck) -> TableVerified:
    return replace(check.finish(), seconds=0)


def test_wherever_it_ended_the_outcome_is_that_of_a_whole_run(laid: Laid, sessions: Sessions) -> None:
    """With differences in the first and the last chunk, among keys that are no plain words."""
    do(laid, 3, "DELETE FROM {t} WHERE part = 'a' AND id = 3")
    do(laid, 59, "UPDATE {t} SET v = 0 WHERE part = 'ü€' AND id = 59")
    check, numbers = compared(laid, sessions, None, None)
    whole = outcome(check)
    assert numbers == list(range(19))  # the last one has no rows, and no upper bound
    assert [(one.key, one.kind) for one in whole.named] == [(LOST, Kind.MISSING), (("ü€", "59"), Kind.DIFFERENT)]
    for waves in range(11):
        first, done = compared(laid, sessions, None, waves)
        check, rest = compared(laid, sessions, json.dumps(first.dump()), None)
        assert sorted(done + rest) == numbers
        assert len(rest) == max(0, 19 - 2 * waves)
        assert outcome(check) == whole, waves


def test_what_differed_before_and_agrees_by_now_is_no_difference(laid: Laid, sessions: Sessions) -> None:
    do(laid, 3, "DELETE FROM {t} WHERE part = 'a' AND id = 3")
    first, _ = compared(laid, sessions, None, 1)
    assert list(first.suspects) == [LOST]
    do(laid, 3, "INSERT INTO {t} VALUES (3, 'a', 3)")
    check, _ = compared(laid, sessions, json.dumps(first.dump()), None)
    assert list(check.suspects) == [LOST]
    assert outcome(check).clean


def test_chunks_with_too_many_differences_are_counted_alike(
    laid: Laid, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Smaller limits, so that few rows are too many."""
    monkeypatch.setattr("migrate.verify.chunk_check.MAX_SUSPECTS", 3)
    monkeypatch.setattr("migrate.verify.table_check.MAX_CROWDS", 2)
    monkeypatch.setattr("migrate.verify.table_check.MAX_TABLE_SUSPECTS", 7)
    for index, place in enumerate(laid.table.places):
        with closing(laid.connect(index)) as connection:
            connection.execute(f"UPDATE {quote(place.table)} SET v = -1 WHERE id <> 5")
    check, _ = compared(laid, sessions, None, None)
    whole = outcome(check)
    assert (whole.differences, whole.clean) == (len(PARTS) * (ROWS - 1), False)
    for waves in (1, 5, 9):
        first, _ = compared(laid, sessions, None, waves)
        kept = json.dumps(first.dump())
        assert 0 < len(json.loads(kept)["crowds"]) <= 3
        check, _ = compared(laid, sessions, kept, None)
        found = outcome(check)
        assert (found.differences, found.rows, found.chunks) == (whole.differences, whole.rows, whole.chunks)
        assert {one.kind for one in found.named} == {Kind.DIFFERENT}
