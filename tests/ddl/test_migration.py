"""A statement over the table of a migration: its target tables, and its source table while the migration reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrate.ddl import runner
from migrate.ddl.levels import Algorithm, Allowance, Lock
from migrate.ddl.plan import Plan, planned
from migrate.ddl.runner import Limits, Runner, RunReport
from migrate.ddl.servers import of_settings
from migrate.ddl.shards import WhichSide, of_migration
from migrate.ddl.statement import read
from migrate.model.errors import ConfigError, PreflightError
from migrate.settings import parse
from migrate.state import cutover, finished, switch
from migrate.state.cutover import Outcome, SwitchDirection
from migrate.state.ddl import Goal
from migrate.state.switch import Side, Writes
from sandbox.stack import Sandbox
from tests.copy.setup import Laid, lay, spread

CREATE = "CREATE TABLE {t} (id BIGINT NOT NULL PRIMARY KEY, v VARCHAR(20) NOT NULL, w VARCHAR(20) NULL) CHARSET utf8mb4"


def plan(
    laid: Laid,
    sql: str,
    sides: WhichSide = WhichSide.BOTH,
    policy: str | dict[str, str] = "stop",
    *,
    loss: bool = False,
) -> Plan:
    (table,) = laid.raw["tables"]
    settings = parse({**laid.raw, "tables": [{**table, "ddl": policy}]}, {})
    logical = read(sql)
    wanted = of_migration(settings, laid.state(), logical, sides)
    bound = Allowance(Algorithm.COPY, Lock.EXCLUSIVE)
    return planned(of_settings(settings), logical, wanted, bound, allow_data_loss=loss)


def told(found: Plan) -> str:
    return "; ".join(problem.what for problem in found.problems)


def sides(found: Plan) -> list[Side]:
    return [one.shard.side for one in found.shards]


def test_both_sides_are_altered_the_standby_side_first_and_what_the_streams_cannot_follow_is_refused(
    box: Sandbox, tmp_path: Path
) -> None:
    laid = lay(box, tmp_path, CREATE, spread("id", "t"), fill=["INSERT INTO {t} VALUES (1, 'a', NULL)"])
    add, drop = "ALTER TABLE t ADD COLUMN note INT NOT NULL DEFAULT 1", "ALTER TABLE t DROP COLUMN w"
    assert "the publisher stops at this statement" in told(plan(laid, add))
    assert told(plan(laid, add, WhichSide.TARGETS)) == ""
    assert "brings this statement to the target tables itself" in told(plan(laid, add, policy="apply"))
    assert told(plan(laid, add, WhichSide.SOURCES, "apply")) == ""
    assert told(plan(laid, "CREATE INDEX by_v ON t (v)")) == ""
    assert "one side after the other" in told(plan(laid, drop, policy="ignore", loss=True))
    assert told(plan(laid, drop, WhichSide.SOURCES, "ignore", loss=True)) == ""
    assert "column id says where a row belongs" in told(plan(laid, "ALTER TABLE t MODIFY id INT NOT NULL", loss=True))
    assert "would stop its streams" in told(plan(laid, "TRUNCATE TABLE t", loss=True))
    emptied = {"truncate": "apply"}
    for side in WhichSide:
        said = told(plan(laid, "TRUNCATE TABLE t", side, emptied, loss=True))
        assert said == "" if side is WhichSide.SOURCES else "would stop its streams" in said
    policy, by_source = (
        "set `ddl: {truncate: apply}` for the table",
        "run it with --side sources, and the publisher empties",
    )
    for truncate, ways in (("stop", (policy, by_source)), (emptied, (by_source,))):
        hint = plan(laid, "TRUNCATE TABLE t", policy=truncate, loss=True).problems[0].hint
        assert [way in hint for way in (policy, by_source)] == [way in ways for way in (policy, by_source)]
    assert "loses every row of the table" in told(plan(laid, "TRUNCATE TABLE t", WhichSide.SOURCES, emptied))
    assert "would stop its streams" in told(plan(laid, "DROP TABLE t", WhichSide.SOURCES, emptied, loss=True))
    order = "its key, or which keys are unique, decides the order of its changes"
    # Lost: the migration, or after a switch the way back.
    for clauses in ("ADD UNIQUE KEY u (v)", "DROP PRIMARY KEY, ADD PRIMARY KEY (v, id)", "DROP PRIMARY KEY"):
        for side in WhichSide:
            said = told(plan(laid, f"ALTER TABLE t {clauses}", side, "ignore", loss=True))
            assert order in said or "it has its key no more" in said, (clauses, side)
    assert order in told(plan(laid, "CREATE UNIQUE INDEX u ON t (v)"))
    assert "in no log" in told(plan(laid, "ALTER TABLE t DROP PARTITION p0", policy="ignore", loss=True))
    rename = "ALTER TABLE t RENAME COLUMN w TO x"  # lost: partitions stood still at messages that name w
    assert "messages that name column w" in told(plan(laid, rename, policy="ignore"))
    assert told(plan(laid, rename, WhichSide.TARGETS, "ignore")) == ""
    # Lost: the values of the rows that were there; both sides had made their own.
    own = "gives the rows that are there other values at the sources than at the targets"
    moment = "ALTER TABLE t ADD COLUMN at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP"
    for side in WhichSide:
        said = told(plan(laid, moment, side, "ignore")).replace("()", "").lower()
        assert f"column `at` default current_timestamp {own}" in said
    assert told(plan(laid, "ALTER TABLE t ADD COLUMN at DATETIME ON UPDATE CURRENT_TIMESTAMP", policy="ignore")) == ""
    with pytest.raises(ConfigError, match="no table 'other'"):
        plan(laid, "ALTER TABLE other ADD COLUMN n INT")
    found = plan(laid, add.replace("TABLE t", f"TABLE {laid.source}.t"), policy="ignore")
    assert sides(found) == [Side.TARGET] * 8 + [Side.SOURCE]
    servers = of_settings(laid.settings)
    with runner.held(servers, laid.state()) as lease:
        number = runner.begin(servers, laid.state(), found)
        work = Runner(servers, laid.state(), lease.still_ours, Limits(threads=0), lambda _row: None, lambda _line: None)
        assert work.go(number, Goal.NEW).reached == 9
    assert laid.source_rows() == [(1, "a", None, 1)]
    assert all(rows == [] for rows in laid.target_rows("note").values())
    name = laid.settings.name
    with laid.state().begin() as connection:
        switch.put(connection, name, Side.TARGET, Writes.OPEN)
        run = cutover.begin(connection, name, SwitchDirection.TO_SOURCES)
    with pytest.raises(PreflightError, match="is not ended"), runner.held(servers, laid.state()):
        pass  # lost: the way to give writes back: the lease of it was taken for as long as the statements took
    with laid.state().begin() as connection:
        cutover.came_to(connection, name, run, Outcome.ABORTED)
    assert sides(plan(laid, "CREATE INDEX by_v ON t (v)")) == [Side.SOURCE] + [Side.TARGET] * 8
    for side in (WhichSide.BOTH, WhichSide.TARGETS):  # lost: the way back, until `ddl: ignore` was set
        again = add.replace("note", "more")
        assert "the publishers of the reverse stream stop at this statement" in told(plan(laid, again, side, "apply"))
        assert told(plan(laid, again, side, "ignore")) == ""
    assert told(plan(laid, add.replace("note", "more"), WhichSide.SOURCES, "apply")) == ""
    stopped = told(plan(laid, "TRUNCATE TABLE t", WhichSide.SOURCES, {"truncate": "apply"}, loss=True))
    assert "would stop its streams" in stopped  # no stream brings it to the targets now
    way = plan(laid, "TRUNCATE TABLE t", WhichSide.SOURCES, {"truncate": "apply"}, loss=True).problems[0].hint
    assert way == "delete the rows by DELETE, which the reverse stream follows; or finish the migration first"
    after_switch = plan(laid, "ALTER TABLE t DROP COLUMN w", policy="ignore", loss=True)
    assert [one.hint.split(",")[0] for one in after_switch.problems] == ["--side targets"]  # the active side first
    with laid.state().begin() as connection:
        finished.mark(connection, name, {})
    assert sides(plan(laid, "CREATE INDEX by_v ON t (v)")) == [Side.TARGET] * 8
    # Lost: the way out that was told, "finish this one first": what no stream follows was refused behind the end too.
    for free in ("ALTER TABLE t ADD UNIQUE KEY u (v)", "ALTER TABLE t DROP COLUMN w", "TRUNCATE TABLE t", moment):
        assert told(plan(laid, free, loss=True)) == "", free
    of_key = plan(laid, "ALTER TABLE t MODIFY id INT NOT NULL", loss=True).problems[0]
    assert "column id says where a row belongs" in of_key.what
    assert "name the same shard tables by --nodes" in of_key.hint
    with pytest.raises(PreflightError, match="is finished and reads its sources no more"):
        plan(laid, "CREATE INDEX by_v ON t (v)", WhichSide.SOURCES)


def test_periods_that_a_stream_would_stop_at_are_refused(mariadb_box: Sandbox, tmp_path: Path) -> None:
    made = CREATE.replace(
        " NULL)", " NULL, x DATE NOT NULL, y DATE NOT NULL, PERIOD FOR p (x, y), CONSTRAINT c CHECK (v > ''))"
    )
    assert made != CREATE
    laid = lay(mariadb_box, tmp_path, made, spread("id", "t"))
    for clause in ("DROP PERIOD FOR p", "DROP CONSTRAINT c"):
        assert "the publisher stops at this" in told(plan(laid, f"ALTER TABLE t {clause}", WhichSide.SOURCES))
        assert told(plan(laid, f"ALTER TABLE t {clause}", WhichSide.SOURCES, "ignore")) == ""
    assert told(plan(laid, "ALTER TABLE t DROP PERIOD FOR p", WhichSide.TARGETS)) == ""
    overlaps = told(plan(laid, "ALTER TABLE t ADD UNIQUE KEY o (w, p WITHOUT OVERLAPS)", policy="ignore"))
    assert "WITHOUT OVERLAPS) excludes rows whose periods overlap" in overlaps
    versioned = told(plan(laid, "ALTER TABLE t ADD SYSTEM VERSIONING", policy="ignore"))
    assert "a table that is system-versioned is not migrated" in versioned


@pytest.mark.long
def test_an_undo_that_loses_values_stops_between_the_sides(box: Sandbox, tmp_path: Path) -> None:
    """Lost: each partition with a message that names the column: it came to targets without it. The undo dropped the
    column at both sides without a drain between.
    """
    laid = lay(box, tmp_path, CREATE, spread("id", "t"), fill=["INSERT INTO {t} VALUES (1, 'a', NULL)"])
    servers, said = of_settings(laid.settings), list[str]()
    found = plan(laid, "ALTER TABLE t ADD COLUMN note INT NOT NULL DEFAULT 1", policy="ignore")
    with runner.held(servers, laid.state()) as lease:
        number = runner.begin(servers, laid.state(), found)

        def go(goal: Goal) -> RunReport:
            limits = Limits(threads=0)
            return Runner(servers, laid.state(), lease.still_ours, limits, lambda _row: None, said.append).go(
                number, goal
            )

        assert go(Goal.NEW).reached == 9
        half = go(Goal.OLD)
        assert (half.paused, half.reached) == (True, 1)
        assert "`migrate drain`" in said[-1]
        assert laid.source_rows() == [(1, "a", None)]
        assert all(rows == [] for rows in laid.target_rows("note").values())  # the targets have the column still
        whole = go(Goal.OLD)
    assert (whole.paused, whole.reached) == (False, 9)
