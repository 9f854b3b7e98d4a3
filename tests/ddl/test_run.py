"""A statement over four shard tables at two servers: run, paused, stopped, killed at every step, resumed, undone."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any

import pytest
import sqlalchemy as sa

from migrate.ddl import runner
from migrate.model.errors import PreflightError, ServerError, StopError
from migrate.settings import State
from migrate.state.ddl import Goal
from sandbox.stack import Sandbox
from tests.ddl.support import ADD, ANY, NEW, OLD, Shards, shards
from tests.flow.launcher import stop_at
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
    with pytest.raises(ServerError, match=r"3 of 4 tables are new.*uplicate entry"):
        made.run(plan)
    assert sorted(made.stages()) == ["failed", "new", "new", "new"]
    server.execute(f"UPDATE {table} SET v = id", database=database_)
    assert made.go().reached == 4
    assert made.go(Goal.OLD).reached == 4


def test_a_table_that_somebody_altered_meanwhile_stops_the_run_by_its_name(made: Shards) -> None:
    plan = made.plan()
    (server, database_), *_ = made.places
    server.execute("ALTER TABLE orders_1 ADD COLUMN mine INT", database=database_)
    with pytest.raises(StopError, match=r"orders_1 is neither as before.*has `mine` int"):
        made.run(plan, stop_after=9)
    server.execute("ALTER TABLE orders_1 DROP COLUMN mine", database=database_)
    assert made.go().reached == 4
    server.execute("ALTER TABLE orders_0 ADD COLUMN mine INT", database=database_)
    with pytest.raises(StopError, match="orders_0 is neither"):
        made.go(Goal.OLD)


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
        with pytest.raises(ServerError, match=r"[Ll]ock wait timeout"):
            made.run(plan, attempts=1)
        assert made.columns()[0] == OLD[0]
        threading.Timer(1.5, other.rollback).start()
        assert made.go().reached == 4


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


POINTS = [
    (when, where, call)
    for where, call in (
        ("migrate.state.ddl:create", 1),
        ("migrate.state.ddl:begin", 2),
        ("migrate.ddl.step:send", 2),
        ("migrate.state.ddl:end", 2),
        ("migrate.state.ddl:finish", 1),
    )
    for when in ("before", "after")
]
"""Around each write of the journal, and around the statement; "after" is before the commit of what was written."""


def killed(when: str, where: str, call: int, work: Callable[[], Any]) -> None:
    """In a process of its own, which ends with SIGKILL there."""

    def child() -> None:
        stop_at(when, where, call)
        work()

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL, (when, where, process.exitcode)


def test_a_run_that_is_killed_anywhere_ends_all_new_or_all_old(
    box: Sandbox, state: sa.Engine, state_settings: State
) -> None:
    with ExitStack() as stack:
        cases = []
        for goal in (Goal.NEW, Goal.OLD):
            for point in POINTS:
                made = stack.enter_context(shards(box, state, state_settings))
                plan = made.plan()
                state.dispose()  # no session is shared with the child
                killed(*point, lambda made=made, plan=plan: made.run(plan))
                cases.append((point, goal, made))
        for point, goal, made in cases:  # by now the leases of those that were killed first are over
            until(lambda made=made: free(made), "the lease")
            if point == ("before", "migrate.state.ddl:create", 1) or point == ("after", "migrate.state.ddl:create", 1):
                assert made.columns() == OLD, point
                continue
            report = made.go(goal)
            assert (made.columns(), report.run.finished is None) == (NEW if goal is Goal.NEW else OLD, False), point


def free(made: Shards) -> bool:
    """Whether nobody holds the lease of a run."""
    with made.state.connect() as connection:
        sql = sa.text("SELECT COUNT(*) FROM lease WHERE migration = :name AND expires >= NOW(6)")
        return connection.scalar(sql, {"name": made.servers.name}) == 0


def test_an_undo_that_is_killed_anywhere_is_resumed(box: Sandbox, state: sa.Engine, state_settings: State) -> None:
    points = [point for point in POINTS if "create" not in point[1]]
    with ExitStack() as stack:
        cases = []
        for point in points:
            made = stack.enter_context(shards(box, state, state_settings))
            made.run(made.plan())
            state.dispose()
            killed(*point, lambda made=made: made.go(Goal.OLD))
            cases.append((point, made))
        for point, made in cases:
            until(lambda made=made: free(made), "the lease")
            assert (made.go().reached, made.columns()) == (4, OLD), point


def test_a_statement_whose_client_was_killed_is_waited_for_before_an_undo_judges(made: Shards) -> None:
    """Else the table looks old, is left as it is, and becomes new when the statement ends."""
    plan, (server, database_) = made.plan(), made.places[0]
    made.state.dispose()
    with closing(server.connect(database_)) as other, other.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("SELECT * FROM orders_0")
        process = multiprocessing.get_context("fork").Process(target=lambda: made.run(plan, lock_wait=60))
        process.start()
        waiting = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting for table metadata%'"
        until(lambda: server.query(waiting)[0][0] > 0, "the statement to wait for the lock")
        os.kill(process.pid or 0, signal.SIGKILL)
        process.join()
        until(lambda: free(made), "the lease")
        threading.Timer(1.5, other.rollback).start()
        report = made.go(Goal.OLD)
    assert (report.reached, made.columns()) == (4, OLD)


def test_a_bound_refuses_what_takes_more(made: Shards) -> None:
    with pytest.raises(PreflightError, match="COPY") as refused:
        made.run(made.plan("ALTER TABLE orders MODIFY v CHAR(30) NOT NULL", type(ANY)(), allow_data_loss=True))
    assert "--algorithm copy --lock shared" in refused.value.hint


def test_one_run_at_a_time(made: Shards) -> None:
    with runner.held(made.servers, made.state):
        with pytest.raises(PreflightError, match="another DDL run"):
            made.run(made.plan())
