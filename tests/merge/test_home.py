"""Keys of a group whose sources' rule is known, on real servers: where they are asked for, and what becomes of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import pytest

from migrate.merge.merger import Merged, Merger
from migrate.model.message import Message, Received
from migrate.model.table import TableId
from migrate.mysql.foreign_keys import ForeignKey
from migrate.state.migration import Migration, Topic
from migrate.state.record import Partition
from migrate.target.place import Aftermath
from migrate.target.reached import Claim
from migrate.target.refresh import SourcesNow
from migrate.target.roles import SwitchedSince
from sandbox.stack import Sandbox
from tests.helpers import (
    TABLE_WAITERS,
    address,
    globally,
    log_end,
    make_settings,
    plain_table,
    plan_of,
    service_tables,
    unique,
)
from tests.merge.history import KeysAlone
from tests.waiting import until as wait

PARTITION = Partition("m", "topic", 0)
HOME = {
    "nodes": ["shop.t", "shop.u"],
    "table": {
        "column": "shard",
        "algorithm": "INLINE",
        "props": {"algorithm-expression": "${shard % 2 == 0 ? 't' : 'u'}"},
    },
}
COLUMNS = "(id INT PRIMARY KEY, shard {shard}, v VARCHAR(20) NOT NULL)"
GENERATED = "INT AS (CHAR_LENGTH(v)) STORED"
FENCE = "_migrate_chunk_fence (migration, source, table_schema, table_name, chunk, attempt, closed)"


class Kept:
    """What is sent to be looked at again, and the markers that wait."""

    migration = Migration("m", (Topic("topic", "topic", 1),))

    def __init__(self) -> None:
        self.empties: list[object] = []
        self.markers: list[tuple[TableId, Message]] = []

    def put(self, partition: Partition, markers: Sequence[tuple[TableId, Message]], *, copied: bool) -> None:
        self.markers += markers

    def send(self, partition: Partition, database: str, left: Aftermath) -> None:
        self.empties += left.empties


class Home:
    """Tables t and u of one source, into one table: a row belongs to t where `shard` is even."""

    def __init__(
        self, box: Sandbox, key: tuple[str, ...] = ("id",), shard: str = "INT NOT NULL", *, parents: bool = False
    ) -> None:
        """shard: the definition of the column by which a row belongs to a table. parents: rows of a table below
        refer to those of t and u, and theirs to one above, ON DELETE CASCADE."""
        self.source, self.target, made = box.source, box.targets[0], COLUMNS.format(shard=shard)
        self.shop, self.name = unique("shop"), unique("home")
        self.source.execute(f"CREATE DATABASE {self.shop} CHARACTER SET utf8mb4")
        self.target.execute(f"CREATE DATABASE {self.name} CHARACTER SET utf8mb4")
        self.source.execute(*(f"CREATE TABLE {one} {made}" for one in "tu"), database=self.shop)
        self.target.execute(*service_tables("m"), f"CREATE TABLE all_of_them {made}", database=self.name)
        self.copy(closed=1)
        common = {"group": "all", "sharding": {"nodes": "ds.all_of_them"}, "home": HOME}
        settings = make_settings(
            sources=[{"name": "s", **address(self.source)}],
            targets=[{"name": "t0", **address(self.target)}],
            databases={"ds": {"target": "t0", "database": self.name}},
            source_databases={"shop": {"source": "s", "database": self.shop}},
            tables=[
                *({"name": f"{self.shop}.{one}", **common} for one in "tu"),
                *(
                    {"name": f"{self.shop}.{one}", "sharding": {"nodes": f"ds.{one}"}}
                    for one in (("above", "below") if parents else ())
                ),
            ],
            consume={"retry_seconds": 0.05, "retry_max_seconds": 0.1, "refused_attempts": 2},
        )
        plain = plain_table(key=key)
        generated = shard == GENERATED
        columns = tuple(replace(one, generated=generated and one.name == "shard") for one in plain.columns)
        tables = [replace(plain, columns=columns, database=self.shop, name=one) for one in "tu"]
        self.kept = Kept()
        history = waits = None
        if parents:
            tables += [replace(plain, columns=columns, database=self.shop, name=one) for one in ("above", "below")]
            cascade = {"on_delete": "CASCADE"}
            up = {
                ("s", self.shop, one): [ForeignKey("up", ("shard",), (self.shop, "above"), ("id",), **cascade)]
                for one in "tu"
            }
            down = [ForeignKey(one, ("shard",), (self.shop, one), ("id",), **cascade) for one in "tu"]
            history, waits = KeysAlone({**up, ("s", self.shop, "below"): down}), self.kept
        self.asked = 0
        """How often the state was asked for its sources."""

        def sources_now() -> SourcesNow:
            self.asked += 1
            return SourcesNow(settings)

        self.merger = Merger(
            plan_of(*tables, settings=settings),
            self.kept,  # type: ignore[arg-type]
            threading.Event(),
            history,
            sources_now=sources_now,
            waits=waits,  # type: ignore[arg-type]
        )
        self.take()
        self._at = 10

    def take(self) -> None:
        self.merger.drop(PARTITION)
        self.merger.take(Claim(PARTITION, 1, "h"), {}, {})

    def copy(self, *, closed: int) -> None:
        rows = [f"('m', 's', '{self.shop}', '{one}', -1, 1, {closed})" for one in "tu"]
        self.target.execute(f"REPLACE INTO {FENCE} VALUES {', '.join(rows)}", database=self.name)

    def at_source(self, *statements: str) -> None:
        self.source.execute(*statements, database=self.shop)

    def merge(self, *changes: tuple[str, str, Any, Any]) -> Merged:
        """(kind, table, row before, row after), a row as (id, shard, v)."""
        items = []
        for kind, table, before, after in changes:
            self._at += 1
            items.append(Received(PARTITION, self._at, 10, self._message(kind, table, before, after)))
        self._last = items
        return self.merger.merge(items)

    def again(self) -> Merged:
        """What was merged last, as when the partition was stopped."""
        self.take()
        return self.merger.merge(self._last)

    def _message(self, kind: str, table: str, before: Any, after: Any) -> Message:
        names = ("id", "shard", "v")
        row = dict(zip(names, after or before, strict=True))
        old = () if kind != "UPDATE" else ({k: v for k, v in zip(names, before, strict=True) if row[k] != v},)
        return Message(
            database=self.shop, table=table, type=kind, data=(row,), old=old, source="s", incarnation=1, file=1,
            transaction=self._at, rows=(1 if kind == "UPDATE" else 0,), pk_names=("id",),
        )  # fmt: skip

    def rows(self) -> list[tuple[object, ...]]:
        return list(self.target.query(f"SELECT * FROM {self.name}.all_of_them ORDER BY id"))

    def close(self) -> None:
        self.merger.close()
        self.source.execute(f"DROP DATABASE {self.shop}")
        self.target.execute(f"DROP DATABASE {self.name}")


@pytest.fixture
def side(box: Sandbox) -> Iterator[Home]:
    with closing(Home(box)) as made:
        yield made


@contextmanager
def nobody_reads(home: Home, table: str) -> Iterator[None]:
    """Who asks this table waits until the block ends."""
    with closing(home.source.connect(home.shop, autocommit=True)) as connection, connection.cursor() as cursor:
        cursor.execute(f"LOCK TABLES {table} WRITE")
        yield


@pytest.mark.timeout(60)
def test_a_delete_asks_the_table_it_came_from_and_no_other(side: Home) -> None:
    side.merge(("INSERT", "t", None, ("1", "0", "a")), ("INSERT", "t", None, ("2", "0", "b")))
    side.at_source("INSERT INTO t VALUES (2, 2, 'came back')")
    with nobody_reads(side, "u"):
        assert side.merge(("DELETE", "t", ("1", "0", "a"), None), ("DELETE", "t", ("2", "0", "b"), None)).failed == {}
    assert side.rows() == [(2, 2, "came back")]


def test_a_delete_costs_one_look_at_one_table_and_a_batch_of_them_no_more(side: Home) -> None:
    """Lost: the speed of deletes, by a look at each table of the group, and by two questions to the state."""
    keys = [str(key) for key in range(250)]
    side.merge(*(("INSERT", "t", None, (key, "0", "a")) for key in keys))
    with statements(side) as (every, before):
        for key in keys[:5]:
            assert side.merge(("DELETE", "t", (key, "0", "a"), None)).failed == {}
    assert [one.count(f"`{side.shop}`.`t`") for one in every] == [1] * 5, every
    assert side.asked - before == 5
    with statements(side) as (every, before):
        assert side.merge(*(("DELETE", "t", (key, "0", "a"), None) for key in keys[5:])).failed == {}
    assert [one.count(f"`{side.shop}`.`t`") for one in every] == [1] * 2, "200 keys in a statement"
    assert side.asked - before == 1
    assert side.rows() == []


@contextmanager
def statements(home: Home) -> Iterator[tuple[list[str], int]]:
    """What the source is told of the two tables in the block, by its general log, once the block is over; and how often
    the state was asked before."""
    found: list[str] = []
    with globally(home.source, "log_output", "TABLE"), globally(home.source, "general_log", 1):
        home.source.execute("TRUNCATE mysql.general_log")
        yield found, home.asked
        rows = home.source.query(
            f"SELECT CONVERT(argument USING utf8mb4) FROM mysql.general_log"
            f" WHERE command_type IN ('Query', 'Execute') AND argument LIKE '%{home.shop}%' ORDER BY event_time"
        )
    found += [str(argument) for (argument,) in rows if "general_log" not in str(argument)]


def test_a_row_that_was_read_before_a_switch_is_not_written_behind_it_and_is_read_again(mariadb_box: Sandbox) -> None:
    """Costs 2 s."""
    with closing(Home(mariadb_box)) as side, ThreadPoolExecutor(1) as beside:
        side.merge(("INSERT", "t", None, ("1", "0", "a")))
        side.at_source("INSERT INTO t VALUES (1, 2, 'before')")
        with nobody_reads(side, "t"):
            merging = beside.submit(side.merge, ("DELETE", "t", ("1", "0", "a"), None))
            wait(lambda: side.source.query(TABLE_WAITERS)[0][0], "the row to be read")
            side.target.execute("UPDATE _migrate_role SET version = version + 1", database=side.name)
        assert isinstance(merging.result(60).failed[PARTITION], SwitchedSince)
        assert side.rows() == [(1, 0, "a")]
        assert side.again().failed == {}
        assert side.rows() == [(1, 2, "before")]


def test_a_row_that_came_from_another_table_outlives_the_late_delete_of_the_one_it_left(side: Home) -> None:
    """Lost: the delete asked its own table alone, which has the row no more."""
    side.at_source("INSERT INTO u VALUES (1, 1, 'moved')")
    assert side.merge(("INSERT", "u", None, ("1", "1", "moved"))).failed == {}
    assert side.merge(("DELETE", "t", ("1", "0", "a"), None)).failed == {}
    assert side.rows() == [(1, 1, "moved")]


def test_a_late_update_of_the_table_that_a_row_left_does_not_hide_whose_it_is(side: Home) -> None:
    """Lost: the update was written over the other table's row, and the delete behind it asked its own table alone."""
    side.at_source("INSERT INTO u VALUES (1, 1, 'moved')")
    side.merge(("INSERT", "u", None, ("1", "1", "moved")))
    assert side.merge(("UPDATE", "t", ("1", "0", "a"), ("1", "2", "b"))).failed == {}
    assert side.rows() == [(1, 1, "moved")]
    assert side.merge(("DELETE", "t", ("1", "2", "b"), None)).failed == {}
    assert side.rows() == [(1, 1, "moved")]


def test_a_row_that_is_read_again_belongs_where_its_generated_column_says(box: Sandbox) -> None:
    """Lost: it was read without that column, as NULL belongs nowhere, and its partition was stopped for good."""
    with closing(Home(box, shard=GENERATED)) as side:
        side.at_source("INSERT INTO u (id, v) VALUES (1, 'moved')")
        assert side.merge(("INSERT", "u", None, ("1", "5", "moved"))).failed == {}
        assert side.merge(("DELETE", "t", ("1", "4", "left"), None)).failed == {}
        assert side.rows() == [(1, 5, "moved")]


def test_a_row_that_moves_there_and_back_ends_where_it_is(side: Home) -> None:
    side.merge(("INSERT", "t", None, ("1", "0", "a")))
    side.at_source("INSERT INTO t VALUES (1, 0, 'back')")
    for change in (
        ("INSERT", "u", None, ("1", "1", "there")),
        ("DELETE", "t", ("1", "0", "a"), None),
        ("INSERT", "t", None, ("1", "0", "back")),
        ("DELETE", "u", ("1", "1", "there"), None),
    ):
        assert side.merge(change).failed == {}
        assert side.rows() == [(1, 0, "back")], change


def test_while_a_copy_is_open_a_delete_asks_every_table_as_the_ledger_speaks_for_all(side: Home) -> None:
    """Lost: the ledger had an entry of the delete, and the copy took out the row that it had brought of the other."""
    side.copy(closed=0)
    side.at_source("INSERT INTO u VALUES (1, 1, 'not copied yet')")
    assert side.merge(("DELETE", "t", ("1", "0", "a"), None)).failed == {}
    assert side.rows() == [(1, 1, "not copied yet")]
    assert side.target.query(f"SELECT COUNT(*) FROM {side.name}._migrate_ledger")[0][0] == 0


def test_a_row_where_it_does_not_belong_stops_its_partition_until_it_is_moved(side: Home) -> None:
    side.at_source("INSERT INTO t VALUES (1, 1, 'stray')")
    change = ("INSERT", "t", None, ("1", "1", "stray"))
    (error,) = side.merge(change).failed.values()
    told = f"s/{side.shop}.t: by `home` the row belongs in s/{side.shop}.u"
    assert told in error.message
    assert 'key ["1"]' in error.message
    assert side.rows() == []
    side.at_source("DELETE FROM t", "INSERT INTO u VALUES (1, 1, 'home')")
    assert side.merge(change).failed == {}
    assert side.rows() == [(1, 1, "home")]


def test_where_the_key_tells_the_table_a_stray_row_takes_nothing_from_the_one_that_belongs(box: Sandbox) -> None:
    with closing(Home(box, key=("id", "shard"))) as side:
        side.at_source("INSERT INTO u VALUES (1, 1, 'home')")
        side.merge(("INSERT", "u", None, ("1", "1", "home")))
        stray = ("1", "1", "stray")
        assert side.merge(("INSERT", "t", None, stray)).failed == {}
        assert side.rows() == [(1, 1, "home")]
        assert side.merge(("DELETE", "t", stray, None)).failed == {}
        assert side.rows() == [(1, 1, "home")]


def test_a_key_that_two_tables_have_stops_its_partition_at_each_try_until_one_has_it(mariadb_box: Sandbox) -> None:
    """Lost: rows below the one that was deleted at the other source: the first try had written the change, so that the
    second one asked nobody, and their marker was settled while they were there."""
    with closing(Home(mariadb_box, parents=True)) as side:
        side.at_source("INSERT INTO t VALUES (1, 0, 'a')")
        assert side.merge(("INSERT", "t", None, ("1", "0", "a"))).failed == {}
        side.at_source("INSERT INTO u VALUES (1, 1, 'too')", "INSERT INTO u VALUES (3, 1, 'beside')")
        tries = [side.merge(("INSERT", "u", None, ("1", "1", "too")), ("INSERT", "u", None, ("3", "1", "beside")))]
        tries += [side.again(), side.again()]
        for one in tries:
            (error,) = one.failed.values()
            assert "a key may be in only one table of group 'all'" in error.message
            assert "need `key` with the sharding columns, and `home`" in error.hint
        assert (1, 0, "a") in side.rows()
        side.kept.markers.clear()
        side.at_source("DELETE FROM t")
        assert side.again().failed == {}
        assert side.rows() == [(1, 1, "too"), (3, 1, "beside")]
        assert [one.data for _, one in side.kept.markers][-1:] == [({"shard": "1"},)]
        file, pos = log_end(side.source)
        _, last = side.kept.markers[-1]
        assert (last.file, last.transaction) == (int(file.rpartition(".")[2]), pos - 1), "behind the delete"
        assert side.again().consumed, "what is written is written once more, and no worse for it"
        assert side.rows() == [(1, 1, "too"), (3, 1, "beside")]


@pytest.mark.timeout(60)
def test_where_the_key_tells_the_table_no_source_is_asked_at_all(box: Sandbox) -> None:
    with closing(Home(box, key=("id", "shard"))) as side, nobody_reads(side, "u"), nobody_reads(side, "t"):
        side.merge(("INSERT", "t", None, ("1", "0", "a")), ("INSERT", "u", None, ("2", "1", "b")))
        assert side.merge(("DELETE", "t", ("1", "0", "a"), None)).failed == {}
        assert side.rows() == [(2, 1, "b")]
