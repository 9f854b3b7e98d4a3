"""A statement over four shard tables at two servers: run, paused, stopped, resumed, undone."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest
import sqlalchemy as sa

from migrate.cli.told_ddl import summary
from migrate.ddl import runner
from migrate.ddl.runner import RunReport
from migrate.ddl.unreached import TableRefused
from migrate.model.coordinate import Coordinate
from migrate.model.errors import PreflightError, ServerError, StopError
from migrate.state import ddl as journal
from migrate.state import position
from migrate.state.ddl import Goal
from migrate.state.position import Position
from tests.ddl.support import ADD, ANY, NEW, OLD, Shards
from tests.helpers import sleeping
from tests.waiting import until


def test_a_run_alters_every_table_and_an_undo_takes_it_back(made: Shards) -> None:
    done = made.run(made.plan(), per_server=2)
    assert (made.columns(), done.reached, done.run.finished is not None) == (NEW, 4, True)
    undone = made.go(Goal.OLD)
    assert (made.columns(), undone.reached, made.stages()) == (OLD, 4, ["old"] * 4)


def test_a_plan_changes_nothing_and_says_how_it_is_taken_back(made: Shards) -> None:
    plan = made.plan()
    (server, database_), *_ = made.places
    assert made.columns() == OLD
    assert next(one.undo() for one in plan.shards) == f"ALTER TABLE `{database_}`.`orders_0` DROP COLUMN `note`"
    assert plan.undo_loses == ("the values of column note",)
    assert (plan.shards[0].trial.level.algorithm, plan.problems) == ("INSTANT", [])
    assert server.query("SHOW DATABASES LIKE '%trial%'") == ()


def test_the_first_tables_go_alone_and_the_run_pauses_behind_them(made: Shards) -> None:
    report = made.run(made.plan(), first=1)
    assert (report.paused, made.columns()) == (True, [*NEW[:1], *OLD[1:]])
    assert runner.stopped(report) is None
    with pytest.raises(PreflightError, match="run 1 is not finished"):
        made.run(made.plan("ALTER TABLE orders ADD COLUMN other INT"))
    assert made.go().reached == 4
    assert made.columns() == NEW


def test_a_table_that_the_server_refuses_stops_the_run_and_the_others_stay_old(made: Shards) -> None:
    *_, (server, database_, table) = made.tables()
    server.execute(f"UPDATE {table} SET v = 'a'", database=database_)
    plan = made.plan("ALTER TABLE orders ADD UNIQUE KEY one_v (v)")
    with pytest.raises(TableRefused, match=r"[23] of 4 tables are new.*uplicate entry") as refused:
        made.run(plan)  # which may be over before the other server's last one begins
    assert refused.value.number == 1062
    assert sorted(made.stages()) in (["failed", "new", "new", "new"], ["failed", "new", "new", "waiting"])
    server.execute(f"UPDATE {table} SET v = id", database=database_)
    assert made.go().reached == 4
    assert made.go(Goal.OLD).reached == 4


@pytest.mark.parametrize("most", [1, 2])
def test_a_run_stops_after_as_many_tables_as_may_fail(made: Shards, most: int) -> None:
    (server, database), *_ = made.places
    server.execute("CREATE TABLE orders_2 AS SELECT * FROM orders_1", database=database)
    for number in range(3):
        server.execute(f"UPDATE orders_{number} SET v = 'a'", database=database)
    plan = made.plan("ALTER TABLE orders ADD UNIQUE KEY one_v (v)", nodes="ds_0.orders_${0..2}")
    with pytest.raises(ServerError, match=r"0 of 3 tables are new; .*orders_0: .*uplicate entry"):
        made.run(plan, stop_after=most)
    assert made.stages() == [*["failed"] * most, *["waiting"] * (3 - most)]


def test_a_table_that_somebody_altered_meanwhile_stops_the_run_by_its_name(made: Shards) -> None:
    plan = made.plan()
    (server, database_), *_ = made.places
    server.execute("ALTER TABLE orders_1 ADD COLUMN mine INT", database=database_)
    with pytest.raises(StopError, match=r"orders_1 is neither as before.*has `mine` int"):
        made.run(plan, stop_after=9)
    server.execute("ALTER TABLE orders_1 DROP COLUMN mine", database=database_)
    assert made.go().reached == 4
    server.execute("ALTER TABLE orders_0 ADD COLUMN mine INT", database=database_)
    with pytest.raises(StopError, match="orders_0 is neither") as undoing:
        made.go(Goal.OLD)
    # Lost: the direction. An undo that had stopped was to be taken back by an undo, and both only went on with it.
    on = "`migrate ddl resume` continues the undo"
    assert undoing.value.hint == f"alter it by hand to either definition; then {on}"
    with pytest.raises(PreflightError, match="run 1 is not finished") as another:
        made.run(made.plan(nodes="ds_1.orders_0"))
    assert another.value.hint == on
    assert summary(runner.found(made.servers, made.state)).endswith(f" of 4 tables old; {on}")


def test_the_way_out_of_a_run_is_one_that_is_taken(made: Shards) -> None:
    """Lost: a command. An undo was named where nothing takes the statement back, or was refused without its option."""
    paused = summary(made.run(made.plan(), first=1))
    assert paused.endswith("`migrate ddl resume` continues it, `migrate ddl undo --allow-data-loss` takes it back")
    assert made.go(Goal.OLD).reached == 4
    lossy = made.plan("ALTER TABLE orders DROP COLUMN v", allow_data_loss=True)
    assert summary(made.run(lossy, first=1)).endswith("1 of 4 tables new; `migrate ddl resume` continues it")
    with pytest.raises(PreflightError, match="cannot be undone"):
        made.go(Goal.OLD)
    assert made.go().reached == 4


def test_a_table_that_is_as_before_again_keeps_a_run_from_its_end(made: Shards) -> None:
    """Lost: the statement at a server that came back with less: the run was finished by its journal."""
    made.run(made.plan(), first=2)
    (server, database_), *_ = made.places
    server.execute("ALTER TABLE orders_1 DROP COLUMN note", database=database_)
    with pytest.raises(ServerError, match=r"3 of 4 tables are new; .*orders_1: it is as before again") as again:
        made.go()
    assert not isinstance(again.value, TableRefused)
    assert made.go().reached == 4
    assert made.columns() == NEW


def test_a_table_that_somebody_altered_behind_its_statement_keeps_a_run_from_its_end(made: Shards) -> None:
    """Lost: a shard with a definition of its own behind a run that said that all are new."""
    made.run(made.plan(), first=2)
    (server, database_), *_ = made.places
    server.execute("ALTER TABLE orders_1 ADD COLUMN mine INT", database=database_)
    with pytest.raises(StopError, match=r"orders_1 is neither as before.*has `mine` int"):
        made.go()
    server.execute("ALTER TABLE orders_1 DROP COLUMN mine", database=database_)
    assert made.go().reached == 4
    assert made.columns() == NEW


def test_a_table_that_somebody_altered_as_the_statement_does_counts_as_done(made: Shards) -> None:
    plan = made.plan()
    (server, database_), *_ = made.places
    server.execute(ADD.replace("orders", "orders_1"), database=database_)
    assert made.run(plan).reached == 4


def test_what_loses_data_is_asked_for_and_cannot_be_undone(made: Shards) -> None:
    plan = made.plan("ALTER TABLE orders DROP COLUMN v")
    with pytest.raises(PreflightError, match="loses the values of column v"):
        made.run(plan)
    made.run(made.plan("ALTER TABLE orders DROP COLUMN v", allow_data_loss=True))
    with pytest.raises(PreflightError, match="cannot be undone"):
        made.go(Goal.OLD)


def test_an_undo_that_loses_what_was_written_since_asks_for_it(made: Shards) -> None:
    made.run(made.plan())
    with pytest.raises(PreflightError, match="loses the values of column note"):
        made.go(Goal.OLD, allow_data_loss=False)


def test_a_table_that_is_locked_is_tried_again(made: Shards) -> None:
    plan, (server, database_) = made.plan(), made.places[0]
    with closing(server.connect(database_)) as other, other.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("SELECT * FROM orders_0")
        with pytest.raises(TableRefused, match=r"[Ll]ock wait timeout.*, in each of 1 attempt \(") as refused:
            made.run(plan, attempts=1)
        assert refused.value.number == 1205
        assert made.columns()[0] == OLD[0]
        threading.Timer(1.5, other.rollback).start()
        assert made.go().reached == 4


def test_a_server_with_many_threads_running_is_waited_for_and_the_others_are_not(made: Shards) -> None:
    plan, (server, _), reports = made.plan(), made.places[0], list[RunReport]()
    limit = int(server.query("SHOW GLOBAL STATUS LIKE 'Threads_running'")[0][1]) + 10
    with sleeping(server, limit + 5):
        work = threading.Thread(target=lambda: reports.append(made.run(plan, threads=limit)))
        work.start()
        until(lambda: made.said or reports, "the run to wait")
        assert made.said == [f"waiting: target 't0' has more than {limit} threads running"]
        until(lambda: made.columns()[2:] == NEW[2:], "the other server's tables")
        assert (made.columns()[:2], made.stages()[:2]) == (OLD[:2], ["waiting"] * 2)
    work.join()
    assert ([one.reached for one in reports], made.columns()) == ([4], NEW)


def test_a_truncate_is_told_by_the_number_of_the_table(made: Shards) -> None:
    """Definitions are equal: without the number, resuming would empty the tables again."""
    made.run(made.plan("TRUNCATE TABLE orders", allow_data_loss=True), first=2)
    for server, database_, table in made.tables():
        server.execute(f"INSERT INTO {table} VALUES (9, 9, 'since')", database=database_)
    with made.state.begin() as connection:  # as if it were killed before the outcome was written
        connection.execute(sa.text("UPDATE ddl_shard SET stage = 'begun' WHERE shard = 1"))
    assert made.go().reached == 4
    left = [server.query(f"SELECT COUNT(*) FROM {table}", database=name)[0][0] for server, name, table in made.tables()]
    assert left == [1, 1, 0, 0]


@pytest.mark.parametrize("name", ["orders-0", "or-de rs 0#_"])
def test_a_truncate_finds_the_number_of_a_table_whose_name_is_no_file_name(made: Shards, name: str) -> None:
    for server, database_ in made.places:
        server.execute(f"RENAME TABLE orders_0 TO `{name}`", database=database_)
    plan = made.plan("TRUNCATE TABLE orders", allow_data_loss=True, nodes="ds_${0..1}." + name)
    assert made.run(plan).reached == 2
    assert [one.query(f"SELECT COUNT(*) FROM `{name}`", database=on)[0][0] for one, on in made.places] == [0, 0]


def test_why_no_number_is_found_is_told(made: Shards) -> None:
    server, database_ = made.places[0]
    server.execute("ALTER TABLE orders_0 PARTITION BY HASH (id) PARTITIONS 2", database=database_)
    server.execute("RENAME TABLE orders_1 TO `orders_ö`", database=database_)
    for nodes, why in (("ds_0.orders_0", "each partition is a table to InnoDB"), ("ds_0.orders_ö", "is not ASCII")):
        problems = made.plan("TRUNCATE TABLE orders", allow_data_loss=True, nodes=nodes).problems
        assert [why in one.what for one in problems] == [True], problems


def test_a_table_that_was_rebuilt_before_its_turn_is_truncated_all_the_same(made: Shards) -> None:
    """Lost: nothing, and the run said that all tables are empty: a rebuild gives a table another number too."""
    made.run(made.plan("TRUNCATE TABLE orders", allow_data_loss=True), first=2)
    for server, database_, table in made.tables():
        server.execute(f"INSERT INTO {table} VALUES (9, 9, 'since')", database=database_)
        server.execute(f"ALTER TABLE {table} ENGINE=InnoDB, ALGORITHM=COPY", database=database_)
    with made.state.begin() as connection:  # as if the server had refused the third one at first
        connection.execute(sa.text("UPDATE ddl_shard SET stage = 'failed' WHERE shard = 3"))
    assert made.go().reached == 4
    left = [server.query(f"SELECT COUNT(*) FROM {table}", database=name)[0][0] for server, name, table in made.tables()]
    assert left == [1, 1, 0, 0]


def test_a_truncate_that_a_publisher_left_behind_is_not_resumed(made: Shards) -> None:
    """Lost: rows that came since, once somebody typed what a refused run had said: `migrate ddl resume`."""
    since = Coordinate(1, 4, 700, 0)
    brought = f"{journal.mark('main', since)} TRUNCATE TABLE orders"
    made.run(made.plan(brought, allow_data_loss=True), first=2)
    name = made.servers.name
    for at in (
        Position("main", "", 1, "", 1, 1, "log.000004", 701),
        Position("main", "", 1, "", 1, 2, "log.000001", 4),
    ):
        with made.state.begin() as connection:
            position.save(connection, name, at)
        with pytest.raises(StopError, match=r"run 1 is not continued: the publisher is no longer in front") as error:
            made.go()
        assert "a further run can begin" in error.value.hint
    assert counts(made) == [0, 0, 3, 3]
    assert made.run(made.plan()).run.number == 2

    with made.state.begin() as connection:
        position.save(connection, name, Position("main", "", 1, "", 1, 1, "log.000004", 700))
    made.run(made.plan(brought, allow_data_loss=True), first=1)
    with pytest.raises(PreflightError, match="run 3 is not finished"):
        made.run(made.plan("ALTER TABLE orders ADD COLUMN other INT"))
    assert made.go().reached == 4
    assert counts(made) == [0, 0, 0, 0]


def counts(made: Shards) -> list[int]:
    return [server.query(f"SELECT COUNT(*) FROM {table}", database=name)[0][0] for server, name, table in made.tables()]


def test_a_bound_refuses_what_takes_more(made: Shards) -> None:
    with pytest.raises(PreflightError, match="COPY") as refused:
        made.run(made.plan("ALTER TABLE orders MODIFY v CHAR(30) NOT NULL", type(ANY)(), allow_data_loss=True))
    assert "--algorithm copy --lock shared" in refused.value.hint


def test_one_run_at_a_time(made: Shards) -> None:
    with runner.held(made.servers, made.state):
        with pytest.raises(PreflightError, match="another cutover, DDL run"):
            made.run(made.plan())
