"""Every type that may be in a key, alone and at both ends of a composite one, with keys that are neighbours.

A statement that names a key means this one, by an index or without, one at a time and many.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from migrate.chunks.keyrange import condition
from migrate.chunks.planner import Planner
from migrate.chunks.sessions import forget
from migrate.model.change import Key
from migrate.model.table import Column
from migrate.model.table import Kind as ColumnKind
from migrate.mysql import keys as key_conditions
from migrate.mysql.connection import Connection
from migrate.mysql.keys import Condition, above, among, equal, order, up_to
from migrate.target.ledger import key_hashes
from migrate.target.refresh import SourceRows
from migrate.target.rows import PlaceWriter
from migrate.verify import lookup
from migrate.verify.difference import Kind
from sandbox.stack import Sandbox
from tests.keys.cases import CASES, KeyCase
from tests.keys.laid import PAGE, Laid, key_texts, lay, sides, verified

_PAGE = 3
_side = key_conditions.side


@pytest.fixture(scope="module")
def databases(box: Sandbox) -> Iterator[tuple[Connection, str, str]]:
    with sides(box) as found:
        yield found
        forget()


@pytest.fixture(scope="module", params=[False, True], ids=["alone", "composite"])
def composite(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.type[:60])
def case(request: pytest.FixtureRequest, box: Sandbox) -> KeyCase:
    found: KeyCase = request.param
    if box.flavour not in found.flavours:
        pytest.skip("the other flavour's type")
    return found


@pytest.fixture(scope="module")
def laid(box: Sandbox, databases: tuple[Connection, str, str], case: KeyCase, composite: bool) -> Laid:
    return lay(box, *databases, case, composite=composite)


@pytest.fixture
def restored(laid: Laid) -> Laid:
    laid.restore()
    return laid


def test_a_condition_means_these_keys_and_no_others(laid: Laid) -> None:
    """Without an index: every condition judged of every row. By the index: what each finds."""
    one, table, keys = laid.one, laid.table, laid.keys
    assert key_texts(one, table, f"ORDER BY {order(table)}") == [*keys]
    assert key_texts(one, table, f"ORDER BY {order(table, descending=True)}") == [*reversed(keys)]
    every = range(len(keys))
    wanted: list[tuple[Condition, range]] = []
    for number, key in enumerate(keys):
        wanted += [
            (equal(table.key_columns, key), range(number, number + 1)),
            (among(table, [key]), range(number, number + 1)),
            (above(table, key), range(number + 1, len(keys))),
            (up_to(table, key), range(number + 1)),
        ]
    wanted += [(among(table, keys[part.start :: 2]), every[part.start :: 2]) for part in (range(0), range(1, 2))]
    sums = ", ".join(f"GROUP_CONCAT(IF({sql}, n, NULL) ORDER BY n)" for (sql, _), _ in wanted)
    arguments = [value for (_, values), _ in wanted for value in values]
    (judged,) = one.query(f"SELECT {sums} FROM t IGNORE INDEX (PRIMARY)", arguments)
    chosen = " UNION ALL ".join(
        f"(SELECT {index}, n FROM t FORCE INDEX (PRIMARY) WHERE {sql})" for index, ((sql, _), _) in enumerate(wanted)
    )
    found: list[list[int]] = [[] for _ in wanted]
    for index, number in one.query(chosen, arguments):
        found[int(index)].append(int(number))
    for index, ((sql, _), numbers) in enumerate(wanted):
        assert judged[index] == (",".join(map(str, numbers)) or None), f"without an index: {sql}"
        assert sorted(found[index]) == [*numbers], f"by the index: {sql}"


def test_rows_are_found_written_and_deleted_one_at_a_time_and_many(restored: Laid) -> None:
    laid, table, keys = restored, restored.table, restored.keys
    size = len(keys) if table.key_is_exact else 1  # else the server says which keys are one, a key at a time
    writer, one = PlaceWriter(table, "t", lookup_keys=size), laid.one
    odd, last = [*range(1, len(keys), 2)], len(keys) - 1
    with one.transaction():
        writer.delete(one, [keys[number] for number in odd])
    assert laid.values() == dict.fromkeys(range(0, len(keys), 2), 0)
    with one.transaction():
        present = {key for key in keys if key in writer.present(one, [key])}
        assert present == {*keys[::2]}
        if table.key_is_exact:
            assert writer.present(one, keys) == present
        writer.insert(one, [laid.row(number, "1") for number in odd])
        writer.update(one, [laid.row(number, "2") for number in range(0, len(keys), 2)])
    assert laid.values() == {number: 1 if number % 2 else 2 for number in range(len(keys))}
    with one.transaction():
        writer.update(one, [laid.row(last, "3")])
        assert writer.delete(one, [keys[0]]) == 1
        assert writer.delete(one, [keys[0]]) == 0
    assert laid.values() == {number: 3 if number == last else 1 if number % 2 else 2 for number in range(1, len(keys))}


def test_each_key_is_read_at_the_source_and_noted_as_itself(restored: Laid, case: KeyCase) -> None:
    laid, table, keys = restored, restored.table, restored.keys
    with closing(SourceRows(laid.settings)) as rows:
        read = rows.read(laid.planned, keys)
        assert {key: row and row["n"] for key, row in read.items()} == {key: str(at) for at, key in enumerate(keys)}
    hashes = key_hashes(laid.one, table, keys)
    assert len({*hashes}) == len(keys)
    for ours, theirs in case.same:
        first, second = ((text,) if len(table.key) == 1 else (text, "1", keys[0][2]) for text in (ours, theirs))
        assert len({*key_hashes(laid.one, table, [first, second])}) == 1
        writer = PlaceWriter(table, "t", lookup_keys=1)
        with laid.one.transaction():
            assert bool(writer.present(laid.one, [second])) is (first in keys)


def test_pages_have_each_row_once(laid: Laid) -> None:
    planner = Planner(laid.one, laid.table, _PAGE)
    pages = [*planner.copied(0, None, planner.last_key())]
    assert [page.high for page in pages] == [*laid.keys[_PAGE - 1 :: _PAGE], laid.keys[-1]][: len(pages)]
    held: list[Key] = []
    for page in pages:
        where, arguments = condition(laid.table, page.low, page.high)
        held += [laid.keys[row[0]] for row in laid.one.query(f"SELECT n FROM t WHERE {where} ORDER BY n", arguments)]
    assert held == [*laid.keys]


def test_a_row_that_is_wrong_is_named_and_no_other(restored: Laid) -> None:
    """Changed, missing, and there although the source has none: each by hand, by the row's number."""
    laid, keys = restored, restored.keys
    middle = len(keys) // 2
    changed, missing, extra = (number % len(keys) for number in (middle, middle + 1, middle - 1))
    clean = verified(laid)
    assert (clean.clean, clean.unaccounted, clean.rows) == (True, (), len(keys))
    laid.one.query("UPDATE t SET v = 9 WHERE n = %s", [changed])
    laid.one.query("DELETE FROM t WHERE n = %s", [missing])
    laid.one.query(f"DELETE FROM {laid.source}.t WHERE n = %s", [extra])
    try:
        found = verified(laid)
    finally:
        laid.one.query(f"INSERT INTO {laid.source}.t SELECT * FROM t WHERE n = %s", [extra])
    wrong = {keys[changed]: Kind.DIFFERENT, keys[missing]: Kind.MISSING, keys[extra]: Kind.EXTRA}
    assert {one.key: one.kind for one in found.named} == wrong
    assert (found.differences, found.unaccounted) == (3, ())


def test_a_row_that_verification_is_blind_to_certifies_nothing(restored: Laid, monkeypatch: pytest.MonkeyPatch) -> None:
    """On both sides alike: no range has the row, then no look-up by key finds it. Counts taken another way tell."""
    laid, rows = restored, len(restored.keys)
    hidden = rows // 2
    if rows > PAGE:  # else one chunk without bounds has them all
        with monkeypatch.context() as blind:
            blind.setattr(key_conditions, "side", lambda column: f"IF(n = {hidden}, NULL, {_number_or(column)})")
            found = verified(laid)
        assert (found.rows, found.target_rows, found.named) == (rows - 1, rows - 1, ())
        assert sum(f"has {rows} rows, and {rows - 1} by ranges" in told for told in found.unaccounted) == 2
        assert not found.clean
    laid.one.query("UPDATE t SET v = 9 WHERE n = %s", [hidden])
    monkeypatch.setattr(lookup, "among", lambda table, keys: ("1 = 0", []))
    found = verified(laid)
    assert [told for told in found.unaccounted if "is not found by its key" in told]
    assert not found.clean


def _number_or(column: Column) -> str:
    """How a key column is compared, within an expression: which would have an ENUM's or SET's label, not its number."""
    return f"{_side(column)} + 0" if column.kind in (ColumnKind.ENUM, ColumnKind.SET) else _side(column)
