"""What the reverse stream compares: a row at another shard than the forward rule's is a difference there too, or a
rollback would say of both streams that everything is equal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from migrate.chunks.sessions import Sessions, forget
from migrate.cutover.reverse_settings import reversed_settings
from migrate.model.change import Key
from migrate.model.chunk import Chunk
from migrate.mysql import catalog
from migrate.mysql.connection import connect
from migrate.mysql.quoting import quote
from migrate.settings import Settings
from migrate.target.routing import Plan, PlannedTable
from migrate.verify.chunk_check import CheckJob, compare_chunk
from migrate.verify.difference import Kind, Verdict, judge
from migrate.verify.lookup import look_up
from migrate.verify.recheck import describe
from migrate.verify.repair import mendable
from sandbox.stack import Sandbox
from tests.copy.setup import Laid, lay, spread

EVERYTHING = Chunk(0, None, None)
IN_SERVER = {
    "nodes": "ds_${0..3}.t_${0..1}",
    "database": {"column": "user_id", "algorithm": "MOD", "props": {"sharding-count": 4}},
    "table": {"column": "user_id", "algorithm": "HASH_MOD", "props": {"sharding-count": 2}},
}
CREATE = "CREATE TABLE {t} (id INT PRIMARY KEY, user_id INT, v VARCHAR(20))"
ROWS = {1: 1, 2: 2, 9: 9, 70: 70}
"""Ids, each with its owner."""


@dataclass
class Backwards:
    """The reverse stream of a laid table, of which both sides have the same rows, each at its place."""

    laid: Laid
    settings: Settings
    tables: tuple[PlannedTable, ...]

    def home(self, owner: int) -> int:
        return self.laid.table.rule.route_many([[str(owner)]])[0]

    def at_shard(self, index: int, statement: str) -> None:
        with closing(self.laid.connect(index)) as connection:
            connection.execute(statement.replace("{t}", quote(self.laid.table.places[index].table)))

    def at_source(self, statement: str) -> None:
        self.laid.box.source.execute(statement.replace("{t}", "t"), database=self.laid.source)

    def suspects(self) -> list[Key]:
        return list(compare_chunk(CheckJob(self.settings, self.tables), EVERYTHING).suspects.keys)

    def verdicts(self, *keys: int) -> dict[Key, Verdict | None]:
        with closing(Sessions(self.settings)) as sessions:
            found = look_up(sessions, self.tables, [(str(key),) for key in keys])
            return {key: judge(seen) for key, seen in found.items()}

    def told(self, key: int, verdict: Verdict) -> str:
        with closing(Sessions(self.settings)) as sessions:
            return describe(sessions, self.tables[0], (str(key),), verdict).detail


@pytest.fixture(params=["computed by the server", "computed here"])
def backwards(request: pytest.FixtureRequest, box: Sandbox, tmp_path: Path) -> Iterator[Backwards]:
    sharding: dict[str, Any] = IN_SERVER if request.param == "computed by the server" else spread("user_id", "t")
    fill = [f"INSERT INTO {{t}} VALUES {', '.join(f'({key}, {owner}, {key})' for key, owner in ROWS.items())}"]
    laid = lay(box, tmp_path, CREATE, sharding, fill=fill)
    settings = reversed_settings(laid.settings, laid.plan)
    tables = {}
    for one in settings.tables:
        name = settings.source_of(one)
        with closing(connect(settings.source(name), name)) as connection:
            tables[name, one.database, one.table] = catalog.load_table(connection, name, one.database, one.table)
    plan = Plan(settings, tables)
    first, *_ = plan.tables.values()
    made = Backwards(laid, settings, tuple(plan.members(first)))
    for key, owner in ROWS.items():
        made.at_shard(made.home(owner), f"INSERT INTO {{t}} VALUES ({key}, {owner}, {key})")
    assert (laid.table.conditions[0] is None) is (request.param == "computed here")
    yield made
    forget()


def test_a_row_at_another_shard_is_misplaced_for_the_reverse_stream_too(backwards: Backwards) -> None:
    assert backwards.suspects() == []
    assert backwards.verdicts(*ROWS) == {(str(key),): None for key in ROWS}
    backwards.at_shard(backwards.home(9), "UPDATE {t} SET user_id = 10 WHERE id = 9")
    backwards.at_source("UPDATE {t} SET user_id = 10 WHERE id = 9")  # as the reverse stream brings it
    assert backwards.suspects() == [("9",)]
    (verdict,) = [found for found in backwards.verdicts(*ROWS).values() if found is not None]
    assert verdict.kind is Kind.MISPLACED
    here, there = (backwards.laid.table.places[backwards.home(owner)] for owner in (9, 10))
    assert backwards.told(9, verdict) == f"is in {here}, belongs in {there} by `sharding`"
    assert mendable({("9",): verdict}) == [], "a refresh writes at the source alone"
    backwards.at_source("DELETE FROM {t} WHERE id = 1")
    assert sorted(backwards.suspects()) == [("1",), ("9",)], "where the sums differ, it is named with the others"


def test_a_row_that_no_shard_takes_is_misplaced_for_the_reverse_stream(backwards: Backwards) -> None:
    backwards.at_shard(0, "INSERT INTO {t} VALUES (5, NULL, 'x')")
    backwards.at_source("INSERT INTO {t} VALUES (5, NULL, 'x')")
    assert backwards.suspects() == [("5",)]
    (verdict,) = backwards.verdicts(5).values()
    assert verdict is not None
    assert verdict.kind is Kind.MISPLACED
    here = backwards.laid.table.places[0]
    assert backwards.told(5, verdict).startswith(f"is in {here}, belongs in no place: ")


def test_rows_at_their_shards_that_differ_or_lack_are_named_as_they_were(backwards: Backwards) -> None:
    backwards.at_source("DELETE FROM {t} WHERE id = 1")
    backwards.at_source("UPDATE {t} SET v = 'x' WHERE id = 2")
    backwards.at_source("INSERT INTO {t} VALUES (6, 6, 'x')")
    assert sorted(backwards.suspects()) == [("1",), ("2",), ("6",)]
    kinds = {key[0]: found and found.kind for key, found in backwards.verdicts(1, 2, 6, 70).items()}
    assert kinds == {"1": Kind.MISSING, "2": Kind.DIFFERENT, "6": Kind.EXTRA, "70": None}
