"""The merger on real targets: what it says of a refusal, what it tries again, and whom it makes way for."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from migrate.merge.fold import Fold
from migrate.merge.merger import Merged, Merger
from migrate.model.coordinate import Coordinate
from migrate.model.errors import MigrateError, OwnershipLost, ServerError, StopError
from migrate.model.message import Message, Received
from migrate.state.record import Partition
from migrate.target.place import Aftermath, AppliedCounts, PlaceStep
from migrate.target.reached import Claim, StateBehind
from migrate.target.refresh import refresh_message
from sandbox.stack import Sandbox
from tests.helpers import SHARDING, address, make_settings, plain_table, plan_of, service_tables, unique
from tests.waiting import until

PARTITION = Partition("m", "topic", 0)


class NoDelays:
    def send(self, partition: Partition, database: str, left: Aftermath) -> None:
        raise AssertionError("every copy is closed")


class Side:
    """shop.t over two databases, one on each target server."""

    def __init__(self, box: Sandbox) -> None:
        self.box = box
        self.names = [unique("merge"), unique("merge")]
        self.stop = threading.Event()
        settings = make_settings(
            targets=[{"name": f"t{number}", **address(server)} for number, server in enumerate(box.targets)],
            databases={f"ds_{number}": {"target": f"t{number}", "database": self.names[number]} for number in (0, 1)},
            consume={"retry_seconds": 0.05, "retry_max_seconds": 0.1, "refused_attempts": 2},
        )
        self.plan = plan_of(plain_table(), settings=settings)
        closed = (
            "INSERT INTO _migrate_chunk_fence (migration, source, table_schema, table_name, chunk, attempt, closed)"
        )
        for server, name in zip(box.targets, self.names, strict=True):
            server.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
            server.execute(*service_tables("m"), database=name)
            for table in ("t_0", "t_1"):
                server.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, shard INT, v VARCHAR(5))", database=name)
            server.execute(f"{closed} VALUES ('m', 's', 'shop', 't', -1, 1, 1)", database=name)

    def merger(self, epoch: int = 1) -> Merger:
        made = Merger(self.plan, NoDelays(), self.stop)  # type: ignore[arg-type]
        made.take(Claim(PARTITION, epoch, "h"), {}, {})
        return made

    def rows(self, database: int, table: str = "t_0") -> list[tuple[object, ...]]:
        return list(self.box.targets[database].query(f"SELECT id, v FROM {self.names[database]}.{table} ORDER BY id"))

    def fence(self, database: int) -> tuple[object, ...]:
        sql = f"SELECT epoch, tx, ordinal FROM {self.names[database]}._migrate_fence WHERE source = 's'"
        return self.box.targets[database].query(sql)[0]

    def drop(self) -> None:
        for server, name in zip(self.box.targets, self.names, strict=True):
            server.execute(f"DROP DATABASE {name}")


@pytest.fixture
def side(mariadb_box: Sandbox) -> Iterator[Side]:
    made = Side(mariadb_box)
    yield made
    made.drop()


def test_a_row_that_was_read_before_a_switch_and_a_rollback_is_not_written_behind_them(
    mariadb_box: Sandbox,
) -> None:
    """Lost: the refresh wrote the old row over the one that the application had acknowledged meanwhile."""
    side = Side(mariadb_box)
    source, shop = mariadb_box.source, unique("shop")
    try:
        source.execute(f"CREATE DATABASE {shop}")
        renamed = replace(plain_table(), database=shop)
        source.execute("CREATE TABLE t (id INT PRIMARY KEY, shard INT, v VARCHAR(5))", database=shop)
        source.execute("INSERT INTO t VALUES (1, 0, 'old')", database=shop)
        tables = [{"name": f"{shop}.t", "sharding": SHARDING}]
        made = make_settings(sources=[{"name": "s", **address(source)}], tables=tables)
        settings = side.plan.settings.model_copy(update={"sources": made.sources, "tables": made.tables})
        items = [Received(PARTITION, 0, 10, refresh_message(renamed, [("1",)]))]
        plan = plan_of(renamed, settings=settings)
        with closing(Merger(plan, NoDelays(), side.stop)) as merger:  # type: ignore[arg-type]
            merger.take(Claim(PARTITION, 1, "h"), {}, {})
            with closing(source.connect(shop, autocommit=False)) as writer, writer.cursor() as cursor:
                cursor.execute("SELECT * FROM t WHERE id = 1 FOR UPDATE")
                with running(lambda: merger.merge(items)) as result:
                    waits = (
                        "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE '%% LOCK IN SHARE MODE'"
                    )
                    until(lambda: source.query(waits)[0][0] == 1)
                    for number, name in enumerate(side.names):
                        changed = "UPDATE _migrate_role SET version = version + 2"
                        side.box.targets[number].execute(changed, database=name)
                    writer.rollback()
                    result()
            assert side.rows(0) == [], "nothing was written"
            merged = merger.merge(items)
            assert merged.failed == {}
            assert side.rows(0) == [(1, "old")]
    finally:
        source.execute(f"DROP DATABASE {shop}")
        side.drop()


def batch(
    *rows: tuple[str, str, str], transaction: int = 10, first: int = 0, partition: Partition = PARTITION
) -> list[Received]:
    """One insert for each (id, shard, v)."""
    return [
        Received(
            partition,
            first + number,
            10,
            Message(
                database="shop",
                table="t",
                type="INSERT",
                data=({"id": key, "shard": shard, "v": value},),
                source="s",
                incarnation=1,
                file=1,
                transaction=transaction,
                rows=(2 * number,),
            ),
        )
        for number, (key, shard, value) in enumerate(rows)
    ]


def refused(merger: Merger, items: list[Received]) -> MigrateError:
    """Why nothing of a batch is consumed."""
    merged = merger.merge(items)
    assert merged.consumed == []
    return merged.failed[PARTITION]


@contextmanager
def running(action: Callable[[], Merged]) -> Iterator[Callable[[], AppliedCounts]]:
    """The action in a thread; the value waits for its outcome."""
    outcome: list[AppliedCounts | BaseException] = []

    def run() -> None:
        try:
            outcome.append(action().written)
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()

    def result() -> AppliedCounts:
        thread.join(30)
        (found,) = outcome
        if isinstance(found, BaseException):
            raise found
        return found

    yield result
    thread.join(30)


def test_a_batch_goes_to_all_databases_and_is_consumed(side: Side) -> None:
    with closing(side.merger()) as merger:
        merged = merger.merge(batch(("1", "0", "a"), ("2", "1", "b"), ("3", "2", "c"), first=40))
    (consumed,) = merged.consumed
    assert (merged.written, merged.failed) == (AppliedCounts(inserted=3), {})
    assert (consumed.end, consumed.rows, consumed.highest) == (43, 3, {"s": Coordinate(1, 1, 10, 4)})
    assert (side.rows(0), side.rows(0, "t_1"), side.rows(1)) == ([(1, "a")], [(3, "c")], [(2, "b")])
    assert side.fence(0) == side.fence(1) == (1, 10, 4)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (("7", "1", "too long"), "Data too long for column 'v'"),
        (("many", "1", "a"), "column id (int(11)): int value is not a number"),
        (("99999999999", "1", "a"), "Out of range value for column 'id'"),
    ],
)
def test_a_refused_change_is_named_with_place_table_key_coordinate_and_the_servers_words(
    side: Side, row: tuple[str, str, str], told: str
) -> None:
    with closing(side.merger()) as merger:
        error = refused(merger, batch(("1", "0", "a"), ("2", "1", "b"), row))
    place = f"t1/{side.names[1]}.t_0"
    assert isinstance(error, StopError)
    assert error.message.startswith(f'{place}: the target refuses shop.t key ["{row[0]}"] at (1, 1, 10, 4): {told}')
    assert "tried again by itself" in error.hint
    assert side.rows(1) == []
    assert side.fence(1) == (1, 0, 0)


def test_a_warning_is_named_too_and_rolled_back(side: Side) -> None:
    side.box.targets[1].execute("ALTER TABLE t_0 MODIFY v DECIMAL(4,2)", database=side.names[1])
    with closing(side.merger()) as merger:
        error = refused(merger, batch(("1", "1", "1.00"), ("2", "1", "1.005")))
    assert re.search(r'shop\.t key \["2"\] at \(1, 1, 10, 2\): .*the server warned: .*1265', error.message)
    assert side.rows(1) == []


def test_a_missing_target_table_is_told(side: Side) -> None:
    side.box.targets[1].execute("DROP TABLE t_0", database=side.names[1])
    with closing(side.merger()) as merger:
        error = refused(merger, batch(("1", "1", "a")))
    assert re.search(r"t_0: the target refuses shop\.t key .* doesn't exist \(error 1146\)", error.message)


def test_a_part_that_was_written_is_not_written_again_after_a_crash(side: Side) -> None:
    rows = [("1", "0", "a"), ("2", "1", "too long")]
    with closing(side.merger()) as merger:
        refused(merger, batch(*rows))
    assert (side.rows(0), side.rows(1)) == ([(1, "a")], [])
    side.box.targets[0].execute("UPDATE t_0 SET v = 'mark'", database=side.names[0])
    side.box.targets[1].execute("ALTER TABLE t_0 MODIFY v VARCHAR(50)", database=side.names[1])
    with closing(side.merger(2)) as merger:
        merger.merge(batch(*rows))
    assert (side.rows(0), side.rows(1)) == ([(1, "mark")], [(2, "too long")])


def test_a_locked_row_is_waited_for_and_the_write_tried_again_in_place(side: Side) -> None:
    """The row arrives without a restart."""
    database = side.plan.used_databases[1]
    with closing(side.merger()) as merger:
        merger.merge(batch(("1", "1", "a")))
        with merger._targets.lanes[database.target].one() as pool:
            first = pool.get(database)
        first.query("SET SESSION innodb_lock_wait_timeout = 1")
        with closing(side.box.targets[1].connect(side.names[1], autocommit=False)) as other, other.cursor() as cursor:
            cursor.execute("SELECT * FROM t_0 FOR UPDATE")
            with running(lambda: merger.merge(batch(("1", "1", "b"), transaction=20))) as result:
                until(lambda: not first.open)  # the lock wait timed out, and the session was given up
                other.rollback()
                assert result() == AppliedCounts(updated=1)
    assert side.rows(1) == [(1, "b")]


def test_a_killed_session_is_opened_again(side: Side) -> None:
    with closing(side.merger()) as merger:
        database = side.plan.used_databases[1]
        with merger._targets.lanes[database.target].one() as pool:
            row = pool.get(database).one("SELECT CONNECTION_ID()")
        assert row is not None
        side.box.targets[1].execute(f"KILL {row[0]}")
        assert merger.merge(batch(("1", "0", "a"), ("2", "1", "b"))).written == AppliedCounts(inserted=2)


def test_a_read_only_target_is_waited_for(side: Side) -> None:
    """The other target goes on meanwhile."""
    server = side.box.targets[1]
    user = unique("writer")[:30]
    server.execute(
        f"CREATE USER {user}@'127.0.0.1' IDENTIFIED BY 'canary-pw'",
        f"GRANT ALL ON {side.names[1]}.* TO {user}@'127.0.0.1'",
    )
    settings = side.plan.settings
    targets = (
        settings.targets[0],
        settings.targets[1].model_copy(update={"user": user, "password": SecretStr("canary-pw")}),
    )
    side.plan = plan_of(plain_table(), settings=settings.model_copy(update={"targets": targets}))
    try:
        with closing(side.merger()) as merger:
            server.execute("SET GLOBAL read_only = 1")
            with running(lambda: merger.merge(batch(("1", "0", "a"), ("2", "1", "b")))) as result:
                until(lambda: side.rows(0) == [(1, "a")])
                assert side.rows(1) == []
                server.execute("SET GLOBAL read_only = 0")
                assert result() == AppliedCounts(inserted=2)
    finally:
        server.execute("SET GLOBAL read_only = 0", f"DROP USER {user}@'127.0.0.1'")


def test_asked_to_stop_it_gives_up_waiting(side: Side) -> None:
    with closing(side.merger()) as merger:
        merger.merge(batch(("1", "1", "a")))
        side.box.targets[1].execute("ALTER TABLE t_0 ADD UNIQUE (v)", database=side.names[1])
        side.stop.set()
        with pytest.raises(ServerError, match="stopped while a write was being tried again"):
            merger.merge(batch(("2", "1", "a"), transaction=20))


def test_a_duplicate_that_does_not_go_away_stops(side: Side) -> None:
    side.box.targets[1].execute("ALTER TABLE t_0 ADD UNIQUE (v)", database=side.names[1])
    with closing(side.merger()) as merger:
        merger.merge(batch(("1", "1", "a")))
        error = refused(merger, batch(("2", "1", "a"), transaction=20))
    assert 'key ["2"] at (1, 1, 20, 0): error 1062 (duplicate entry) for key' in error.message


def test_after_another_process_took_the_partition_nothing_more_is_written(side: Side) -> None:
    with closing(side.merger(1)) as old, closing(side.merger(2)) as new:
        assert isinstance(refused(old, batch(("1", "0", "old"))), OwnershipLost)
        new.merge(batch(("1", "0", "new")))
        assert side.rows(0) == [(1, "new")]
        with pytest.raises(StateBehind):
            old.take(Claim(PARTITION, 1, "h"), {}, {})


def test_a_partition_that_was_dropped_is_not_merged(side: Side) -> None:
    with closing(side.merger()) as merger:
        merger.drop(PARTITION)
        with pytest.raises(KeyError):
            merger.merge(batch(("1", "0", "a")))


OTHER = Partition("m", "topic", 1)


def test_partitions_share_a_transaction_in_each_database(side: Side) -> None:
    with closing(side.merger()) as merger:
        merger.take(Claim(OTHER, 1, "h"), {}, {})
        merged = merger.merge([*batch(("1", "0", "a")), *batch(("2", "0", "b"), partition=OTHER)])
    sql = f"SELECT COUNT(DISTINCT partition_no), SUM(writes) FROM {side.names[0]}._migrate_fence WHERE source = 's'"
    assert side.box.targets[0].query(sql) == ((2, 2),)
    assert (merged.written, merged.failed, side.rows(0)) == (AppliedCounts(inserted=2), {}, [(1, "a"), (2, "b")])


def test_a_refused_change_stops_its_own_partition_only(side: Side) -> None:
    with closing(side.merger()) as merger:
        merger.take(Claim(OTHER, 1, "h"), {}, {})
        merged = merger.merge([*batch(("1", "0", "too long")), *batch(("2", "0", "b"), partition=OTHER)])
        assert [done.partition for done in merged.consumed] == [OTHER]
        assert merged.failed.keys() == {PARTITION}
        assert side.rows(0) == [(2, "b")]
        side.box.targets[0].execute("ALTER TABLE t_0 MODIFY v VARCHAR(50)", database=side.names[0])
        assert merger.merge(batch(("1", "0", "too long"))).failed == {}
    assert side.rows(0) == [(1, "too long"), (2, "b")]


def test_a_lost_partition_leaves_the_others_alone(side: Side) -> None:
    with closing(side.merger()) as old, closing(Merger(side.plan, NoDelays(), side.stop)) as new:  # type: ignore[arg-type]
        old.take(Claim(OTHER, 1, "h"), {}, {})
        new.take(Claim(OTHER, 2, "h"), {}, {})
        merged = old.merge([*batch(("1", "0", "a")), *batch(("2", "0", "old"), partition=OTHER)])
        assert [done.partition for done in merged.consumed] == [PARTITION]
        assert isinstance(merged.failed[OTHER], OwnershipLost)
    assert side.rows(0) == [(1, "a")]


@pytest.mark.parametrize("where", ["fold", "write"])
def test_a_defect_stops_the_partition_that_meets_it_by_table_key_and_coordinate_and_no_other(
    side: Side, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Lost: the consumer, and all of its partitions, at each start anew, by a KeyError of one row."""

    owner, name = (Fold, "add") if where == "fold" else (PlaceStep, "apply")
    whole: Callable[..., object] = getattr(owner, name)

    def broken(*arguments: Any) -> object:
        for change in arguments[2] if where == "fold" else arguments[1]:
            row = change.after if where == "fold" else change.row
            if row is not None and row["v"] == "bad":
                raise KeyError(row["v"])
        return whole(*arguments)

    monkeypatch.setattr(owner, name, broken)
    with closing(side.merger()) as merger:
        merger.take(Claim(OTHER, 1, "h"), {}, {})
        with capture_logs() as logs:
            merged = merger.merge([*batch(("1", "0", "a")), *batch(("2", "0", "bad"), partition=OTHER)])
        assert ([done.partition for done in merged.consumed], side.rows(0)) == ([PARTITION], [(1, "a")])
        (error,) = merged.failed.values()
        assert (list(merged.failed), isinstance(error, StopError)) == ([OTHER], True)
        assert 'shop.t key ["2"] at (1, 1, 10, 0): a defect of this program: KeyError at' in error.message
        assert ("bad" not in str(error), [line["event"] for line in logs][-1]) == (True, "a defect")
        monkeypatch.undo()
        assert merger.merge(batch(("2", "0", "bad"), partition=OTHER)).failed == {}
    assert side.rows(0) == [(1, "a"), (2, "bad")]


def test_many_databases_of_a_server_share_the_sessions_that_are_allowed(mariadb_box: Sandbox) -> None:
    server, count, names = mariadb_box.targets[0], 12, [unique("lane") for _ in range(12)]
    columns = {"column": "shard", "algorithm": "MOD", "props": {"sharding-count": count}}
    settings = make_settings(
        targets=[{"name": "t0", **address(server)}],
        databases={f"ds_{number}": {"target": "t0", "database": name} for number, name in enumerate(names)},
        tables=[{"name": "shop.t", "sharding": {"nodes": f"ds_${{0..{count - 1}}}.t_0", "database": columns}}],
        connections={"per_server": 3},
        copy={"chunks_at_once": 1},
    )
    plan, stop = plan_of(plain_table(), settings=settings), threading.Event()
    try:
        for name in names:
            server.execute(f"CREATE DATABASE {name}")
            server.execute(*service_tables("m"), database=name)
            server.execute("CREATE TABLE t_0 (id INT PRIMARY KEY, shard INT, v VARCHAR(5))", database=name)
        server.execute("FLUSH STATUS")
        before = int(server.query("SHOW GLOBAL STATUS LIKE 'Threads_connected'")[0][1]) - 1
        with closing(Merger(plan, NoDelays(), stop)) as merger:  # type: ignore[arg-type]
            merger.take(Claim(PARTITION, 1, "h"), {}, {})
            rows = [(str(number), str(number % count), "v") for number in range(240)]
            assert merger.merge(batch(*rows)).written == AppliedCounts(inserted=240)
        most = int(server.query("SHOW GLOBAL STATUS LIKE 'Max_used_connections'")[0][1]) - before
        assert most <= 3 + 1  # and the one that asks
        counts = [server.query(f"SELECT COUNT(*), MIN(shard), MAX(shard) FROM {name}.t_0")[0] for name in names]
        assert counts == [(20, number, number) for number in range(count)]
    finally:
        server.execute(*(f"DROP DATABASE IF EXISTS {name}" for name in names))


def test_a_change_that_meets_a_defect_and_is_set_aside_holds_nothing_up(
    side: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Aside:
        def reason(self, _id: object, key: tuple[str, ...]) -> str | None:
            return "a test" if key == ("2",) else None

    whole = PlaceStep.apply

    def broken(step: PlaceStep, intents: Any) -> AppliedCounts:
        if any(intent.key == ("2",) for intent in intents):
            raise ZeroDivisionError
        return whole(step, intents)

    monkeypatch.setattr(PlaceStep, "apply", broken)
    with closing(Merger(side.plan, NoDelays(), side.stop, skips=Aside())) as merger:  # type: ignore[arg-type]
        merger.take(Claim(PARTITION, 1, "h"), {}, {})
        assert merger.merge(batch(("1", "0", "a"), ("2", "0", "b"), ("3", "0", "c"))).failed == {}
    assert side.rows(0) == [(1, "a"), (3, "c")]
    parked = side.box.targets[0].query(f"SELECT key_text, reason FROM {side.names[0]}._migrate_parked")
    assert list(parked) == [('["2"]', "a test")]
