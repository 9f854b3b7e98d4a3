"""Each kind of difference is planted in a copied table, and found by table and key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from jobs import full_copy, verify
from jobs.verify import VerifyProgress, VerifyResult
from migrate.model.errors import DifferenceFound, PreflightError
from migrate.mysql.quoting import quote
from migrate.settings import parse
from migrate.state import verification
from migrate.verify.difference import Kind
from sandbox.stack import Sandbox
from tests.copy.setup import Laid, lay, spread

ROWS = 1500
KEY = 777
CREATE = "CREATE TABLE {t} (id BIGINT PRIMARY KEY, v VARCHAR(50), w VARCHAR(50))"
NUMBERS = "WITH RECURSIVE seq (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM seq WHERE n < 500)"
FILL = [
    f"INSERT INTO {{t}} {NUMBERS} SELECT n + {start}, CONCAT('v', n + {start}), REPEAT('w', n MOD 9) FROM seq"
    for start in range(0, ROWS, 500)
]


@pytest.fixture(scope="module")
def copied(
    box: Sandbox, tmp_path_factory: pytest.TempPathFactory, spark: object, request: pytest.FixtureRequest
) -> Laid:
    laid = lay(box, tmp_path_factory.mktemp("verify"), CREATE, spread("id", "t"), fill=FILL)
    assert full_copy.run(laid.settings).rows_inserted == ROWS
    return laid


@dataclass(frozen=True)
class Planted:
    kind: Kind
    key: int
    at_home: str = ""  # done where the key belongs
    elsewhere: str = ""  # done in the place after that
    detail: str = ""  # what the difference says


PLANTED = {
    "missing": Planted(Kind.MISSING, KEY, f"DELETE FROM {{t}} WHERE id = {KEY}", detail="belongs in {home}"),
    "missing first key": Planted(Kind.MISSING, 1, "DELETE FROM {t} WHERE id = 1"),
    "missing last key": Planted(Kind.MISSING, ROWS, f"DELETE FROM {{t}} WHERE id = {ROWS}"),
    "one byte": Planted(
        Kind.DIFFERENT, KEY, f"UPDATE {{t}} SET v = 'v77{chr(0x37 + 1)}' WHERE id = {KEY}", detail="in {home}: v"
    ),
    "a trailing space": Planted(
        Kind.DIFFERENT, KEY, f"UPDATE {{t}} SET w = CONCAT(w, ' ') WHERE id = {KEY}", detail="in {home}: w"
    ),
    "NULL for an empty text": Planted(Kind.DIFFERENT, 9, "UPDATE {t} SET w = NULL WHERE id = 9"),
    "extra below the first key": Planted(Kind.EXTRA, 0, "INSERT INTO {t} VALUES (0, 'x', '')"),
    "extra above the last key": Planted(
        Kind.EXTRA, ROWS + 10**12, f"INSERT INTO {{t}} VALUES ({ROWS + 10**12}, 'x', '')", detail="not at the source"
    ),
    "misplaced": Planted(
        Kind.MISPLACED,
        KEY,
        f"DELETE FROM {{t}} WHERE id = {KEY}",
        f"INSERT INTO {{t}} VALUES ({KEY}, 'v{KEY}', '{'w' * (277 % 9)}')",
        "is in {other}, belongs in {home}",
    ),
    "duplicated": Planted(
        Kind.DUPLICATED,
        KEY,
        "",
        f"INSERT INTO {{t}} VALUES ({KEY}, 'v{KEY}', '{'w' * (277 % 9)}')",
        "is in {home}, and in {other} too",
    ),
}


@pytest.fixture
def place_of(copied: Laid) -> Iterator[None]:
    """Puts every place back as it was before the test."""
    kept = copied.target_rows()
    yield
    for index, (place, rows) in enumerate(zip(copied.table.places, kept.values(), strict=True)):
        connection = copied.connect(index)
        connection.query(f"DELETE FROM {quote(place.table)}")
        marks = ", ".join(["(%s, %s, %s)"] * len(rows))
        connection.execute(f"INSERT INTO {quote(place.table)} VALUES {marks}", [value for row in rows for value in row])
        connection.close()


def do(laid: Laid, place: int, statement: str) -> None:
    if statement:
        connection = laid.connect(place)
        connection.execute(statement.replace("{t}", quote(laid.table.places[place].table)))
        connection.close()


def named(result: VerifyResult) -> list[tuple[str, str, Kind]]:
    return [(item.table, item.key[0], item.kind) for table in result.tables for item in table.named]


def test_nothing_changed_is_clean_and_the_outcome_is_kept(copied: Laid) -> None:
    steps: list[VerifyProgress] = []
    result = verify.run(copied.settings, progress=steps.append)
    assert (result.clean, result.total, result.rows, result.in_motion) == (True, 0, ROWS, 0)
    assert {step.suspects for step in steps} == {0}, "sums differed although no row does"
    assert (steps[-1].rows, steps[-1].chunks_done) == (ROWS, 3)
    assert result.tables[0].target_rows == ROWS
    result.raise_first()
    with copied.state().connect() as connection:
        run = verification.latest(connection, copied.settings.name)
        assert run is not None
        assert (run.id, run.tables, run.rows, run.differences) == (result.verification, 1, ROWS, 0)
        assert verification.certificate(connection, run.id) == result.certificate
    (source,) = result.certificate["sources"]
    assert source["before"].startswith("binlog.")


@pytest.mark.usefixtures("place_of")
@pytest.mark.parametrize("planted", PLANTED.values(), ids=list(PLANTED))
def test_a_planted_difference_is_found_by_table_and_key(copied: Laid, planted: Planted) -> None:
    home = copied.table.rule.route_many([[str(planted.key)]])[0]
    other = (home + 1) % len(copied.table.places)
    do(copied, home, planted.at_home)
    do(copied, other, planted.elsewhere)
    result = verify.run(copied.settings)
    table = copied.table.table.full_name
    assert named(result) == [(table, str(planted.key), planted.kind)]
    assert (result.total, result.clean) == (1, False)
    places = {"home": copied.table.places[home], "other": copied.table.places[other]}
    assert planted.detail.format(**places) in result.tables[0].named[0].detail
    assert f"{planted.kind} {planted.key}" in result.summary()
    with pytest.raises(DifferenceFound, match=rf'1 difference; first: {table} key \["{planted.key}"\] {planted.kind}'):
        result.raise_first()
    with copied.state().connect() as connection:
        rows = connection.exec_driver_sql(
            "SELECT table_schema, table_name, key_text, kind FROM verification_difference WHERE verification = %s",
            (result.verification,),
        ).all()
    assert [tuple(row) for row in rows] == [(copied.source, "t", f'["{planted.key}"]', planted.kind.value)]


@pytest.mark.usefixtures("place_of")
def test_two_rows_that_swapped_a_value_of_equal_length_are_both_found(copied: Laid) -> None:
    step = len(copied.table.places)
    home = copied.table.rule.route_many([["100"]])[0]
    swap = f"UPDATE {{t}} SET v = IF(id = 100, 'v{100 + step}', 'v100') WHERE id IN (100, {100 + step})"
    do(copied, home, swap)
    found = named(verify.run(copied.settings))
    table = copied.table.table.full_name
    assert sorted(found) == [(table, "100", Kind.DIFFERENT), (table, str(100 + step), Kind.DIFFERENT)]


@pytest.mark.usefixtures("place_of")
def test_what_catches_up_while_it_is_looked_at_is_no_difference(copied: Laid) -> None:
    """The stream is simulated by the progress call, which comes after the first look at the chunks."""
    home = copied.table.rule.route_many([[str(KEY)]])[0]
    do(copied, home, f"DELETE FROM {{t}} WHERE id = {KEY}")
    seen: list[int] = []

    def catch_up(step: VerifyProgress) -> None:
        if step.suspects and not seen:
            seen.append(step.suspects)
            do(copied, home, f"INSERT INTO {{t}} VALUES ({KEY}, 'v{KEY}', '{'w' * (277 % 9)}')")

    result = verify.run(copied.settings, progress=catch_up)
    assert seen == [1]
    assert (result.total, result.clean) == (0, True)


@pytest.mark.usefixtures("place_of")
def test_many_differences_are_counted_and_some_named(copied: Laid) -> None:
    """A whole place lost its rows, more than a chunk names one by one and more than a table names."""
    raw = {**copied.raw, "verify": {"master": "local[2]", "rechecks": 1, "recheck_seconds": 0.1, "max_named": 5}}
    lost = len(next(iter(copied.target_rows("id").values())))
    do(copied, 0, "DELETE FROM {t}")
    result = verify.run(parse(raw, {}))
    assert (result.total, len(result.tables[0].named)) == (lost, 5)
    assert f"and {lost - 5} more" in result.summary()


def test_places_that_two_tables_share_are_refused(copied: Laid) -> None:
    raw = dict(copied.raw)
    (table,) = raw["tables"]
    raw["sources"] = [*raw["sources"], {**raw["sources"][0], "name": "other"}]
    raw["tables"] = [{**table, "source": "main"}, {**table, "source": "other"}]
    settings = parse(raw, {})
    with copied.state().begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO schema_history"
            " (migration, source, table_schema, table_name, incarnation, file_no, tx, definition)"
            " SELECT migration, 'other', table_schema, table_name, 0, 0, 0, definition FROM schema_history"
            " WHERE migration = %s AND source = 'main'",
            (settings.name,),
        )
    with pytest.raises(PreflightError, match=r"takes rows of main/.*\.t and of other/"):
        verify.run(settings)


@pytest.mark.usefixtures("place_of")
def test_rows_that_a_session_kept_out_of_the_log_are_found(copied: Laid) -> None:
    """`sql_log_bin = 0` at the source: no stream can know of them."""
    name = f"{quote(copied.source)}.t"
    source = copied.box.source
    source.execute(
        "SET SESSION sql_log_bin = 0",
        f"INSERT INTO {name} VALUES ({ROWS + 1}, 'x', '')",
        f"UPDATE {name} SET v = 'y' WHERE id = {KEY}",
        f"DELETE FROM {name} WHERE id = 5",
    )
    try:
        result = verify.run(copied.settings)
    finally:
        source.execute(
            f"DELETE FROM {name} WHERE id = {ROWS + 1}",
            f"UPDATE {name} SET v = 'v{KEY}' WHERE id = {KEY}",
            f"INSERT INTO {name} VALUES (5, 'v5', REPEAT('w', 5))",
        )
    table = copied.table.table.full_name
    expected = [("5", Kind.EXTRA), (str(KEY), Kind.DIFFERENT), (str(ROWS + 1), Kind.MISSING)]
    assert sorted(named(result), key=lambda found: int(found[1])) == [(table, key, kind) for key, kind in expected]
    assert result.total == 3
