"""A run and an undo over four shard tables, killed around every write of the journal and around the statement: the next
process ends them all new or all old."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from itertools import product
from typing import Any

import sqlalchemy as sa

from migrate.settings import State
from migrate.state.ddl import Goal
from sandbox.stack import Sandbox
from tests.ddl.support import NEW, OLD, Shards, shards
from tests.flow.launcher import stop_at
from tests.waiting import until

CREATE, AIM, BEGIN, END, FINISH = (f"migrate.state.ddl:{name}" for name in ("create", "aim", "begin", "end", "finish"))
SEND = "migrate.ddl.step:send"
POINTS = tuple(
    (when, where, call)
    for where, call in ((AIM, 1), (BEGIN, 2), (SEND, 2), (END, 3), (FINISH, 1))
    for when in ("before", "after")
)
"""When, where and at which call a run or an undo is killed. "after" a write of the journal is before its commit; what
is behind the commit is before the next one."""


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
        for point, goal in product(POINTS, (Goal.NEW, Goal.OLD)):
            made = stack.enter_context(shards(box, state, state_settings))
            plan = made.plan()
            state.dispose()  # no session is shared with the child
            killed(*point, partial(made.run, plan))
            cases.append((point, goal, made))
        for point, goal, made in cases:  # by now the leases of those that were killed first are over
            until(partial(free, made), "the lease")
            report = made.go(goal)
            assert (made.columns(), report.reached) == (NEW if goal is Goal.NEW else OLD, 4), (point, goal)
            assert report.run.finished is not None, (point, goal)


def test_a_run_that_is_killed_before_it_is_written_down_was_none(made: Shards) -> None:
    plan = made.plan()
    made.state.dispose()
    killed("after", CREATE, 1, lambda: made.run(plan))
    until(lambda: free(made), "the lease")
    assert made.columns() == OLD
    assert made.run(made.plan()).run.number == 1


def free(made: Shards) -> bool:
    """Whether nobody holds the lease of a run."""
    with made.state.connect() as connection:
        sql = sa.text("SELECT COUNT(*) FROM lease WHERE migration = :name AND expires >= NOW(6)")
        return bool(connection.scalar(sql, {"name": made.servers.name}) == 0)


def test_an_undo_that_is_killed_anywhere_is_resumed(box: Sandbox, state: sa.Engine, state_settings: State) -> None:
    with ExitStack() as stack:
        cases = []
        for point in POINTS:
            made = stack.enter_context(shards(box, state, state_settings))
            made.run(made.plan())
            state.dispose()
            killed(*point, partial(made.go, Goal.OLD))
            cases.append((point, made))
        for point, made in cases:
            until(partial(free, made), "the lease")
            aimed, columns = (Goal.NEW, NEW) if point[1] == AIM else (Goal.OLD, OLD)  # the undo is not noted before AIM
            report = made.go()
            assert (report.reached, made.columns()) == (4, columns), point
            assert (report.run.goal, report.run.finished is None) == (aimed, False), point


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
        release = threading.Timer(1.5, other.rollback)
        release.start()
        report = made.go(Goal.OLD)
        release.join()
    assert (report.reached, made.columns()) == (4, OLD)
