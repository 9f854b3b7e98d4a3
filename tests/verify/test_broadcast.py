"""A table with a row at every node, compared with its source node by node, in both directions, on real servers.

Costs 3 s: a laid table on each of both servers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from migrate.chunks.mark import ChunkMark
from migrate.chunks.sessions import Sessions, forget
from migrate.copy.attempts import Attempt
from migrate.copy.tasks import CopyJob, WriteChunk, read_chunk
from migrate.cutover.reverse_settings import reversed_settings
from migrate.model.chunk import Chunk
from migrate.mysql import catalog
from migrate.mysql.connection import connect
from migrate.settings import Settings
from migrate.state import phase
from migrate.state.chunks import CopyCounts
from migrate.state.phase import Phase, TablePhase
from migrate.target.routing import Plan, PlannedTable
from migrate.verify import lookup, quick_modes
from migrate.verify.chunk_check import CheckJob, compare_chunk
from migrate.verify.difference import Kind, judge
from migrate.verify.generated import with_generated
from migrate.verify.lookup import BlindSpot, look_up
from migrate.verify.quick_modes import Mode
from migrate.verify.recheck import describe
from migrate.verify.repair import mendable
from migrate.verify.row_counts import unaccounted
from migrate.verify.scope import unlike_by_now
from sandbox.stack import Sandbox
from tests.copy.setup import Laid, lay

EVERYTHING = Chunk(0, None, None)
CREATE = (
    "CREATE TABLE {t} (id INT PRIMARY KEY, v VARCHAR(20), w INT AS (CHAR_LENGTH(v)) STORED, UNIQUE KEY by_value (v))"
)
Told = dict[str, tuple[str, str]]


@dataclass
class Compared:
    """One side against the other: of the stream from the source, or of the reverse one."""

    settings: Settings
    table: PlannedTable

    def found(self) -> Told:
        """Kind and detail of each key that differs, by a comparison as a whole and a look at each."""
        checked = compare_chunk(CheckJob(self.settings, (self.table,)), EVERYTHING)
        with closing(Sessions(self.settings)) as sessions:
            seen = look_up(sessions, [self.table], list(checked.suspects.keys))
            verdicts = {key: one for key, it in seen.items() if (one := judge(it)) is not None}
            assert verdicts.keys() == checked.suspects.keys.keys()
            told = [describe(sessions, self.table, key, one) for key, one in verdicts.items()]
        return {one.key[0]: (one.kind.value, one.detail) for one in told}

    def mendable(self, *keys: str) -> list[str]:
        with closing(Sessions(self.settings)) as sessions:
            seen = look_up(sessions, [self.table], [(key,) for key in keys])
        verdicts = {key: one for key, it in seen.items() if (one := judge(it)) is not None}
        return [key[0] for key in mendable(verdicts)]

    def counted(self) -> tuple[int, int, list[str]]:
        checked = compare_chunk(CheckJob(self.settings, (self.table,)), EVERYTHING)
        with closing(Sessions(self.settings)) as sessions:
            return (
                checked.rows,
                checked.target_rows,
                unaccounted(sessions, [self.table], checked.rows, checked.target_rows, 100),
            )


@dataclass
class Both:
    laid: Laid
    forward: Compared
    reverse: Compared

    def at_node(self, index: int, *statements: str) -> None:
        with closing(self.laid.connect(index)) as connection:
            for statement in statements:
                connection.execute(statement)

    def at_source(self, statement: str) -> None:
        self.laid.box.source.execute(statement, database=self.laid.source)


def _with_generated(settings: Settings, planned: PlannedTable) -> Compared:
    with closing(Sessions(settings)) as sessions:
        return Compared(settings, with_generated(sessions, planned))


@pytest.fixture
def both(box: Sandbox, tmp_path: Path) -> Iterator[Both]:
    laid = lay(box, tmp_path, CREATE, {"broadcast": "ds_${0..1}.t"}, fill=["INSERT INTO {t} (id, v) VALUES (1, 'a')"])
    for index in range(2):
        with closing(laid.connect(index)) as connection:
            connection.execute("INSERT INTO t (id, v) VALUES (1, 'a')")
    settings = reversed_settings(laid.settings, laid.plan)
    tables = {}
    for one in settings.tables:
        name = settings.source_of(one)
        with closing(connect(settings.source(name), name)) as connection:
            tables[name, one.database, one.table] = catalog.load_table(connection, name, one.database, one.table)
    first, _ = Plan(settings, tables).tables.values()
    yield Both(laid, _with_generated(laid.settings, laid.table), _with_generated(settings, first))
    forget()


def test_every_node_is_compared_as_a_whole_and_what_differs_names_the_node(both: Both) -> None:
    first, second = map(str, both.laid.table.places)
    assert (both.forward.found(), both.forward.counted()) == ({}, (1, 2, []))
    both.at_source("INSERT INTO t (id, v) VALUES (2, 'b'), (3, 'c'), (4, 'd')")
    both.at_node(0, "INSERT INTO t (id, v) VALUES (2, 'b'), (3, 'x')")
    both.at_node(1, "INSERT INTO t (id, v) VALUES (4, 'd'), (9, 'z')", "UPDATE t SET v = 'y' WHERE id = 1")
    assert both.forward.found() == {
        "1": ("different", f"in {second}: v"),
        "2": ("missing", f"is not in {second}"),
        "3": ("different", f"is not in {second}; in {first}: v"),
        "4": ("missing", f"is not in {first}"),
        "9": ("extra", f"is in {second}, not at the source"),
    }
    assert both.forward.mendable("1", "2", "3", "4", "9") == ["1", "2", "3", "4", "9"]
    assert both.forward.counted()[:2] == (4, 6)


def test_two_nodes_that_lack_the_same_row_do_not_cancel_each_other_out(both: Both) -> None:
    """Lost if the nodes were summed up: the digests of two equal rows are nothing."""
    both.at_node(0, "INSERT INTO t (id, v) VALUES (7, 'z')")
    both.at_node(1, "INSERT INTO t (id, v) VALUES (7, 'z')")
    assert both.forward.found()["7"][0] == "extra"


def test_the_reverse_stream_compares_every_node_and_a_person_makes_them_alike(both: Both) -> None:
    (second,) = both.reverse.table.mirrors
    name, first = "/".join((second[0], ".".join(second[1:]))), both.reverse.table.table
    assert (both.reverse.found(), both.reverse.counted()) == ({}, (1, 1, []))
    both.at_node(1, "INSERT INTO t (id, v) VALUES (5, 'e')", "UPDATE t SET v = 'y' WHERE id = 1")
    both.at_node(0, "INSERT INTO t (id, v) VALUES (6, 'f')")
    told = f"{name}: not as at the first node, {first.source}/{first.full_name}"
    assert both.reverse.found() == {
        "1": ("different", told),
        "5": ("extra", told),
        "6": ("missing", f"belongs in {both.reverse.table.places[0]}"),
    }
    both.at_source("INSERT INTO t (id, v) VALUES (6, 'f')")  # as the stream brings it
    assert both.reverse.found()["6"] == ("missing", told)
    assert both.reverse.mendable("1", "5", "6") == [], "a refresh writes at the other side"


def test_a_copied_row_is_written_at_every_node_and_where_it_is_already_it_stays(both: Both) -> None:
    both.at_source("INSERT INTO t (id, v) VALUES (2, 'b'), (3, 'c')")
    both.at_node(1, "INSERT INTO t (id, v) VALUES (2, 'newer')")
    attempt = Attempt(Chunk(1, None, None), 1)
    for index in range(2):
        both.at_node(
            index,
            "INSERT INTO _migrate_chunk_fence (migration, source, table_schema, table_name, chunk, attempt, closed)"
            f" VALUES ('{both.laid.settings.name}', 'main', '{both.laid.source}', 't', 1, 1, 0)",
        )
    job = CopyJob(both.laid.settings, both.laid.table)
    writer = WriteChunk(job, attempt)
    for item in read_chunk(job, attempt):
        if isinstance(item, ChunkMark):
            writer.mark(item)
        else:
            for line in item.lines:
                writer.rows(0, (line, 1))
    result = writer.result()
    assert (result.problem, dict(result.places)) == (None, {0: 3, 1: 3})
    assert result.counts == CopyCounts(
        rows_read=3, rows_inserted=3, rows_present=3, bytes_read=result.counts.bytes_read
    )
    assert both.forward.found() == {"2": (Kind.DIFFERENT.value, f"in {both.laid.table.places[1]}: v, w")}
    closed = f"SELECT closed FROM _migrate_chunk_fence WHERE migration = '{both.laid.settings.name}'"
    for index in range(2):
        with closing(both.laid.connect(index)) as connection:
            assert connection.query(closed) == [(1,)]


@pytest.mark.parametrize("mode", [Mode.ORDER, Mode.COUNT])
def test_a_quick_verification_says_in_each_mode_at_how_many_nodes_each_row_is(both: Both, mode: Mode) -> None:
    laid = both.laid
    with laid.state().begin() as connection:
        copied = TablePhase(Phase.COPIED, 1, laid.table.rule_hash)
        phase.put(connection, laid.settings.name, laid.table.table, copied)
    report = quick_modes.run(laid.settings, laid.plan, laid.state(), mode)
    (table,) = report.tables
    assert (table.nodes, table.rows, table.target_rows, report.clean) == (2, 1, 2, True)
    (line,) = report.lines()
    there = ", ".join(f"1 at {place}" for place in laid.table.places)
    told = {Mode.ORDER: "2 at the target in 1 chunk", Mode.COUNT: there}
    assert f", a broadcast table of 2 nodes: 1 row at the source, {told[mode]}, " in line


def test_a_node_with_another_definition_than_the_source_is_no_place_of_a_certificate(both: Both) -> None:
    """Lost: what the numbers of an ENUM stand for, after a rollback that a certificate of such nodes allowed."""
    (second,) = both.reverse.table.mirrors
    both.at_node(1, "ALTER TABLE t MODIFY v VARCHAR(30)")
    with closing(connect(both.reverse.settings.source(second[0]), second[0])) as connection:
        definitions = {second: catalog.load_table(connection, *second)}
    assert unlike_by_now(both.reverse.settings, [both.reverse.table], {}) == {}
    (told,) = unlike_by_now(both.reverse.settings, [both.reverse.table], definitions)[second]
    assert "has other columns than" in told


def test_a_row_of_a_mirror_that_its_key_does_not_find_is_told(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    both.at_node(1, "INSERT INTO t (id, v) VALUES (5, 'e')")
    monkeypatch.setattr(lookup, "among", lambda *_: ("FALSE", []))  # as a key's value that finds nothing
    with closing(Sessions(both.reverse.settings)) as sessions:
        assert look_up(sessions, [both.reverse.table], [("6",)])["6",].source is None
        with pytest.raises(BlindSpot, match=rf"{both.reverse.table.mirrors[0][0]}.*is not found by its key"):
            look_up(sessions, [both.reverse.table], [("5",)])
