"""Statements that the targets refuse to get (`ddl: apply`): the publisher ends with the way out, or tries again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from publishing import Publishing

from migrate.commands.init import initialise
from migrate.ddl import runner
from migrate.ddl.runner import Limits
from migrate.ddl.servers import of_settings
from migrate.model.coordinate import Coordinate
from migrate.model.errors import Code, PreflightError, ServerError, StopError
from migrate.preflight import run as preflight
from migrate.processes import applied_statements
from migrate.processes.runtime import Runtime
from migrate.publish.schema.policy import ToBeApplied
from migrate.settings import parse
from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.helpers import unique
from tests.waiting import SLOW

PASSWORD = "a-password-of-a-test"
TRIED = "CREATE, ALTER, INDEX, DROP, SELECT, INSERT"
OTHERS = "SELECT, INSERT, UPDATE, DELETE, CREATE, INDEX, TRIGGER, LOCK TABLES"


@pytest.fixture
def main(box: Sandbox, kafka: KafkaBroker) -> Iterator[Publishing]:
    made = Publishing(box.source, box.targets[0], kafka)
    made.raw["tables"][0]["ddl"] = {"columns": "apply", "truncate": "apply"}
    made.other.execute(f"INSERT INTO {made.name}_target.t VALUES (1, 'a'), (2, 'b')")
    yield made
    made.close()


def brought(main: Publishing, sql: str = "", patience: float = 0) -> bool:
    """What a publisher does with a statement that it came to; a TRUNCATE without one. patience: seconds before it is
    told to stop, 0: never."""
    stopped = StopError(f"a statement may change {main.database}.t: {sql or 'TRUNCATE t'}", code=Code.STATEMENT)
    since, empties = Coordinate(0, 1, 400, 0), not sql
    sql = sql or f"TRUNCATE TABLE `{main.database}`.`t`"
    wanted = ToBeApplied(stopped, (main.database, "t"), sql, since, empties=empties)
    with main.lease() as (leases, held, stop):
        runtime = Runtime(main.settings, "publish:main", main.state, leases, stop)
        (planned,) = runtime.plan().tables.values()
        told_to_stop = threading.Timer(patience, stop.set)
        if patience:
            told_to_stop.start()
        try:
            return applied_statements.apply(runtime, held.name, wanted, planned)
        finally:
            told_to_stop.cancel()


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("ALTER TABLE t DROP COLUMN v", "the statement loses the values of column v"),
        ("ALTER TABLE t ADD COLUMN v INT", "Duplicate column name 'v'"),
        ("ALTER TABLE t ADD COLUMN n INT, ADD FOREIGN KEY (n) REFERENCES p (id)", "a foreign key names a parent table"),
        ("", "foreign key f of"),
    ],
)
def test_what_will_be_refused_does_not_wait_for_the_consumers(main: Publishing, sql: str, why: str) -> None:
    """Lost: the hours that consumers were behind, before a person heard of the statement."""
    target = f"{main.name}_target"
    if not sql:
        key = f"CONSTRAINT f FOREIGN KEY (id) REFERENCES {target}.t (id)"
        main.other.execute(f"CREATE TABLE {target}.c (id INT PRIMARY KEY, {key})")
    with main.running():
        main.until(lambda: main.position is not None, "the first position")
        main.sql("INSERT INTO t VALUES (9, 'nobody consumes it')")
        main.until(lambda: main.keys() == [9], "the row in Kafka")
    with pytest.raises(StopError, match=why) as refused:
        brought(main, sql, patience=SLOW)
    assert ("--side targets --allow-data-loss` runs it" in refused.value.hint) == ("loses" in why)
    if not sql:
        main.other.execute(f"DROP TABLE {target}.c")


def test_nothing_is_tried_at_the_targets_while_a_cutover_or_a_run_is_under_way(main: Publishing) -> None:
    """Lost: the publisher, which ended for good: two trials at a time are refused, and so is what a cutover closed."""
    with runner.held(of_settings(main.settings), main.state):
        assert not brought(main, "ALTER TABLE t DROP COLUMN v", patience=1)
    with pytest.raises(StopError, match="the statement loses the values of column v"):
        brought(main, "ALTER TABLE t DROP COLUMN v", patience=SLOW)


def test_a_renamed_column_keeps_its_values_at_the_targets(main: Publishing) -> None:
    assert brought(main, "ALTER TABLE t RENAME COLUMN v TO w")
    assert main.other.query(f"SELECT id, w FROM {main.name}_target.t ORDER BY id") == ((1, "a"), (2, "b"))


def rows(main: Publishing) -> int:
    return int(main.other.query(f"SELECT COUNT(*) FROM {main.name}_target.t")[0][0])


@pytest.mark.parametrize(
    ("sql", "lacks", "held"), [("", "DROP", "ALTER"), ("ALTER TABLE t ADD COLUMN n INT", "ALTER", "DROP")]
)
def test_a_grant_that_is_missing_stops_by_name_and_the_run_goes_on_once_it_is_given(
    main: Publishing, sql: str, lacks: str, held: str
) -> None:
    """Lost: hours of lag, as the process began again and again with a line of its log as the only sign."""
    user, target = unique("refused"), f"{main.name}_target"
    main.other.execute(
        f"CREATE USER '{user}'@'%' IDENTIFIED BY '{PASSWORD}'",
        f"GRANT PROCESS ON *.* TO '{user}'@'%'",
        f"GRANT {TRIED} ON `_migrate_trial_{main.name}`.* TO '{user}'@'%'",
        f"GRANT {OTHERS}, {held} ON `{target}`.* TO '{user}'@'%'",
    )
    main.raw["targets"][0] |= {"user": user, "password": PASSWORD}
    for _ in range(2):
        with pytest.raises(StopError) as refused:
            brought(main, sql)
        assert "it is not run at the targets (ddl: apply): run 1: 0 of 1 table are new" in refused.value.message
        assert f"; t0/{target}.t: {lacks} command denied" in refused.value.message
        assert refused.value.message.endswith("(error 1142)")
        way_out = "grant what is missing (docs/grants.md#ddl-over-shards), and start again: the run is continued; or "
        assert refused.value.hint.startswith(way_out)
        assert ("start a new migration" in refused.value.hint) == (not sql)
        assert ("`migrate ddl resume` then ends the run" in refused.value.hint) == bool(sql)
    main.other.execute(f"GRANT {lacks} ON `{target}`.* TO '{user}'@'%'")
    assert brought(main, sql)
    assert rows(main) == (2 if sql else 0)
    main.other.execute(f"DROP USER '{user}'@'%'")


def test_a_lock_that_never_comes_and_a_foreign_key_stop_by_name(
    main: Publishing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(applied_statements, "_LIMITS", Limits(lock_wait=1, attempts=2))
    target = f"{main.name}_target"
    with closing(main.other.connect(target)) as session, session.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("SELECT * FROM t")
        with pytest.raises(StopError, match=r"t0/.*_target\.t: .*\(error 1205\), in each of 2 attempts \(") as locked:
            brought(main)
        assert locked.value.hint.startswith("end the session that keeps the table locked")
    child = f"CREATE TABLE {target}.c (id INT PRIMARY KEY, CONSTRAINT f FOREIGN KEY (id) REFERENCES {target}.t (id))"
    main.other.execute(child)
    with pytest.raises(StopError, match=r"t0/.*_target\.t: .*error 1701") as referred:
        brought(main)
    assert referred.value.hint.startswith("drop the foreign key that refers to the table, and start again")
    main.other.execute(f"DROP TABLE {target}.c")
    assert brought(main)
    assert rows(main) == 0


def test_a_table_that_others_refer_to_is_seen_before_any_is_emptied(main: Publishing) -> None:
    target = f"{main.name}_target"
    main.other.execute(
        f"ALTER TABLE {target}.t ADD p INT, ADD CONSTRAINT own FOREIGN KEY (p) REFERENCES {target}.t (id)",
        f"CREATE TABLE {target}.c (id INT PRIMARY KEY, CONSTRAINT f FOREIGN KEY (id) REFERENCES {target}.t (id))",
    )
    with pytest.raises(StopError, match=rf"t0/{target}\.t: foreign key f of {target}\.c refers to it"):
        brought(main)
    main.other.execute(f"DROP TABLE {target}.c")
    assert brought(main)


@pytest.mark.parametrize("wrong", [{"port": 1}, {"password": "another-password"}])
def test_a_server_that_does_not_answer_is_tried_again(main: Publishing, wrong: dict[str, Any]) -> None:
    main.raw["targets"][0] |= wrong
    with pytest.raises(ServerError):  # with which a process is started again
        brought(main)


# -- tables that two migrations fill


def beside(main: Publishing, truncate: str) -> dict[str, Any]:
    """The config of another migration, from a table of its own to the same target table; its state is elsewhere."""
    name = unique("beside")
    main.source.execute(f"CREATE TABLE {main.database}.u LIKE {main.database}.t")
    state = {**main.raw["state"], "database": f"{name}_state"}
    table = {"name": f"{main.database}.u", "sharding": {"nodes": "ds_0.t"}, "ddl": {"truncate": truncate}}
    return {**main.raw, "name": name, "state": state, "tables": [table]}


def test_no_migration_empties_what_another_one_fills(main: Publishing) -> None:
    """Lost: every row of a target table that another migration had brought, at a TRUNCATE of this one's source."""
    target = f"{main.name}_target"
    main.other.execute(f"DELETE FROM {target}.t")
    main.raw["tables"][0]["ddl"] = {"truncate": "stop"}
    initialise(main.settings)
    raw = beside(main, "apply")
    told = (
        f"t0/{target}.t is filled by migration '{main.name}' too, and `ddl: {{truncate: apply}}` of"
        f" {main.database}.u would empty it"
    )
    found = [one for one in preflight.run(parse(raw, {}), services=True).results if one.check == "truncate"]
    assert [one.message for one in found] == [told]
    with pytest.raises(PreflightError) as refused:
        initialise(parse(raw, {}))
    assert refused.value.message.startswith(told)
    assert refused.value.hint.startswith("take `truncate: apply` out, or give each migration target tables of its own")

    raw["tables"][0]["ddl"] = {"truncate": "stop"}
    initialise(parse(raw, {}))  # two that never empty it may share it
    main.raw["tables"][0]["ddl"] = {"truncate": "apply"}  # and nobody ran init for that
    with pytest.raises(StopError, match=f"not run at the targets .*t is filled by migration '{raw['name']}' too"):
        brought(main)
    forgotten = f"DELETE FROM {target}._migrate_filled WHERE migration = '{raw['name']}'"
    main.other.execute(forgotten)  # as an earlier program's init left it
    with pytest.raises(StopError, match=f"may be filled by migration '{raw['name']}' too, of which no tables"):
        brought(main)
    main.other.execute(f"DELETE FROM {target}._migrate_role WHERE migration = '{raw['name']}'")
    assert brought(main)
    initialise(main.settings)
    with pytest.raises(PreflightError, match=r"too, whose `ddl: \{truncate: apply\}` would empty it"):
        initialise(parse(raw, {}))
    main.other.execute(f"DROP DATABASE {raw['name']}_state", f"DROP DATABASE IF EXISTS {raw['name']}_state_shadow")
