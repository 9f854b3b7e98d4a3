"""Rows that foreign keys change by themselves, over shards, with a copy under way, consumers killed and inserts that
race: they end as at the source, whose log has none of it.

The oracle reads rows at both sides with a client of its own.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pymysql
import pytest

from sandbox import snippet
from sandbox.broker import KafkaBroker
from sandbox.settings import Flavour
from sandbox.stack import Sandbox
from tests.cases.replay import Replay
from tests.failover.support import wait
from tests.flow import launcher
from tests.forked import Child, Migration
from tests.helpers import unique
from tests.kept import KeptState

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]  # it starts Spark
_PARENTS = 40
_TABLES = {
    "person": ("id INT PRIMARY KEY, v INT", "id"),
    "account": (
        "id INT PRIMARY KEY, person INT, v INT, FOREIGN KEY (person) REFERENCES person (id)"
        " ON DELETE CASCADE ON UPDATE CASCADE",
        "person",
    ),
    "line": (
        "account INT, nr INT, v INT, PRIMARY KEY (account, nr), FOREIGN KEY (account) REFERENCES account (id)"
        " ON DELETE CASCADE ON UPDATE CASCADE",
        "nr",
    ),
    "note": (
        "id INT PRIMARY KEY, person INT, v INT, FOREIGN KEY (person) REFERENCES person (id)"
        " ON DELETE SET NULL ON UPDATE CASCADE",
        "id",
    ),
    "seat": (
        "id INT PRIMARY KEY, person INT, v INT, UNIQUE (person, v), FOREIGN KEY (person) REFERENCES person (id)"
        " ON DELETE SET NULL ON UPDATE CASCADE",
        "id",
    ),
}
"""Columns, and the one that a row's place goes by."""


class Family:
    """Five tables over two databases of two tables each; `line` is a grandchild of `person`."""

    def __init__(self, box: Sandbox, kafka: KafkaBroker, directory: Path) -> None:
        self.box = box
        self.name = unique("family")
        self.source = f"{self.name}_src"
        box.source.execute(f"CREATE DATABASE {self.source}")
        for table, (columns, _) in _TABLES.items():
            box.source.execute(f"CREATE TABLE {table} ({columns})", database=self.source)
        servers = snippet.config(box).replace("state: {", f"state: {{database: {self.name}_state, ", 1)
        config = (
            f"name: {self.name}\n{servers}kafka: {{bootstrap: '{kafka.bootstrap}', partitions: 3}}\n"
            f"databases: {{ds_0: {{target: target1, database: {self.name}_0}},"
            f" ds_1: {{target: target2, database: {self.name}_1}}}}\n"
            "publish: {flush_seconds: 0.2, heartbeat_seconds: 0.5}\n"
            "consume: {merge_interval_seconds: 0.2, idle_seconds: 0.5}\ncommit: {idle_seconds: 0.5}\n"
            f"delay: {{tiers_seconds: [0.5, 1]}}\nlease: {{seconds: 2}}\nrun_dir: {directory / 'run'}\ntables:\n"
        )
        for table, (_, by) in _TABLES.items():
            config += (
                f"  - name: {self.source}.{table}\n    sharding:\n"
                f'      nodes: "ds_${{0..1}}.{table}_${{0..1}}"\n'
                f"      database: {{column: {by}, algorithm: MOD, props: {{sharding-count: 2}}}}\n"
                f"      table: {{column: v, algorithm: MOD, props: {{sharding-count: 2}}}}\n"
            )
        self.migration = Migration(box, directory, config)

    def sql(self, *statements: str) -> None:
        self.box.source.execute(*statements, database=self.source)

    def at_target(self, database: int, statement: str) -> None:
        self.box.targets[database].execute(statement, database=f"{self.name}_{database}")

    def differences(self) -> list[str]:
        found = []
        for table in _TABLES:
            wanted = sorted(self.box.source.query(f"SELECT * FROM {self.source}.{table}"), key=repr)
            there: list[tuple[Any, ...]] = []
            for database in (0, 1):
                for number in (0, 1):
                    name = f"{self.name}_{database}.{table}_{number}"
                    there += self.box.targets[database].query(f"SELECT * FROM {name}")
            found += [f"{table}: missing {row}" for row in wanted if row not in there]
            found += [f"{table}: extra {row}" for row in there if row not in wanted]
            found += [f"{table}: {len(wanted)} rows and {len(there)}"] if len(wanted) != len(there) else []
        return found

    def drained(self) -> list[str]:
        self.migration.ask("drain", "--timeout", "120")
        return self.differences()


def write(family: Family, seed: int, rounds: int, failed: list[BaseException]) -> None:
    """What an application does: parents and children come, change and go, in transactions of one statement or a few."""
    chance = random.Random(seed)  # noqa: S311 - which row to write
    try:
        with closing(family.box.source.connect(family.source)) as session, session.cursor() as cursor:
            for number in range(rounds):
                person, account = chance.randrange(_PARENTS), chance.randrange(3 * _PARENTS)
                ways = (
                    f"INSERT INTO person VALUES ({person}, {number})",
                    f"INSERT INTO account VALUES ({account}, {person}, {number})",
                    f"INSERT INTO account VALUES ({account + 1}, {person}, {number})",
                    f"INSERT INTO line VALUES ({account}, {chance.randrange(4)}, {number})",
                    f"INSERT INTO line VALUES ({account}, {chance.randrange(4)}, {number})",
                    f"INSERT INTO note VALUES ({account}, {person}, {number})",
                    f"DELETE FROM person WHERE id = {person}",
                    f"DELETE FROM person WHERE id IN ({person}, {person + 1}, {person + 2})",
                    f"UPDATE person SET id = {person + 1} WHERE id = {person}",
                    f"UPDATE account SET id = {account + 1} WHERE id = {account}",
                    f"UPDATE account SET v = {number} WHERE id = {account}",
                    f"DELETE FROM account WHERE id = {account}",
                    f"REPLACE INTO person VALUES ({person}, {number})",
                    "BEGIN",
                    "COMMIT",
                    "COMMIT",
                )
                try:
                    cursor.execute(chance.choice(ways))
                except (pymysql.err.IntegrityError, pymysql.err.OperationalError) as error:
                    if error.args[0] not in (1062, 1451, 1452, 1205, 1213, 1761):  # duplicates, no parent, locks
                        raise
            cursor.execute("COMMIT")
    except BaseException as error:
        failed.append(error)


@contextmanager
def written(family: Family, *seeds: int, rounds: int) -> Iterator[None]:
    """While applications write; until they have."""
    failed: list[BaseException] = []
    threads = [threading.Thread(target=write, args=(family, seed, rounds, failed)) for seed in seeds]
    for one in threads:
        one.start()
    yield
    for one in threads:
        one.join()
    if failed:
        raise failed[0]


@pytest.fixture(scope="module")
def native(run_root: Path) -> Iterator[Sandbox]:
    """MySQL as it is before 9.6: InnoDB carries the cascades out, and no log has them."""
    options = {"innodb_native_foreign_keys": "ON"}
    with Sandbox(Flavour.MYSQL, run_root / "native", targets=2, kafka=False, keep=False, options=options) as box:
        yield box


@pytest.fixture(params=[Flavour.MARIADB, Flavour.MYSQL])
def family(request: pytest.FixtureRequest, kafka: KafkaBroker, tmp_path: Path) -> Family:
    box = "mariadb_box" if request.param is Flavour.MARIADB else "native"
    return Family(request.getfixturevalue(box), kafka, tmp_path)


def test_every_kind_of_cascade_that_no_log_has_is_followed_on_mysql_too(
    native: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    """Lost: children at the target, of tables that refer to themselves, to two parents or by several columns, and of
    sessions without checks, where InnoDB carries the cascades out. The cases run in test_live.py on MariaDB."""
    replay = Replay(native, kafka, tmp_path, "cascade_")
    assert len(replay.cases) >= 6
    with replay.running():
        replay.write("early")
        replay.migration.do("copy")
        replay.write("live", "target")
        replay.migration.ask("drain", "--timeout", "60")
        assert {case.name: found for case in replay.cases if (found := replay.differences(case))} == {}
        assert replay.migration.ask("verify")["differences"] == 0


def test_rows_that_go_or_change_by_themselves_end_as_at_the_source_beside_a_copy_and_kills(family: Family) -> None:
    """Lost: nothing; but children of parents that were gone stayed at the target."""
    migration = family.migration
    people = ", ".join(f"({number}, 0)" for number in range(_PARENTS))
    family.sql(
        f"INSERT INTO person VALUES {people}",
        "INSERT INTO account SELECT id, id, 0 FROM person",
        "INSERT INTO line SELECT id, 1, 0 FROM account",
        "INSERT INTO note SELECT id, id, 0 FROM person",
    )
    migration.do("init")
    migration.start()
    family.sql("DELETE FROM person WHERE id = 7", "UPDATE person SET id = 1008 WHERE id = 8")
    wait(lambda: migration.ask("status")["waiting_markers"] >= 4, "the markers to wait for the copy")
    # As a copy that has read these rows before their parents went inserts them now.
    family.at_target(1, "INSERT INTO account_0 VALUES (7, 7, 0)")
    family.at_target(0, "INSERT INTO account_0 VALUES (8, 8, 0)")
    family.at_target(1, "INSERT INTO line_0 VALUES (7, 1, 0), (8, 1, 0)")
    family.at_target(1, "INSERT INTO note_0 VALUES (7, 7, 0)")
    with written(family, 1, 2, rounds=150):
        migration.ask("copy")
        migration.kill("consume")
    # Grandchildren whose parents were never at the target, as the copy came behind their end, are found by comparing.
    assert [one for one in family.drained() if not one.startswith("line")] == []
    migration.ask("verify", "--repair", accept=(0, 1))
    assert family.drained() == []
    with written(family, 3, 4, rounds=400):
        for _ in range(2):
            migration.kill("consume")
        migration.kill("source")
    assert family.drained() == []
    assert migration.ask("verify")["differences"] == 0


def test_markers_that_the_state_lost_while_their_parents_were_written_ask_for_a_verification(
    mariadb_box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    """Lost: children of rows that went by a foreign key: their markers, which no message brings again, were committed
    alone, and a state that came back without them was believed."""
    family = Family(mariadb_box, kafka, tmp_path)
    migration, state = family.migration, f"{family.name}_state"
    place, held = mariadb_box.targets[0], tmp_path / "held"
    forgotten = f"SELECT SUM(times) FROM {state}.forgotten"
    family.sql("INSERT INTO person VALUES (1, 0)", "INSERT INTO account VALUES (1, 1, 0)")
    migration.do("init")
    with ExitStack() as ending:
        for name in ("publish", "consume"):
            child = Child(name, tmp_path / f"{name}.log", Path.cwd())
            ending.callback(child.kill)
            hold = launcher.command(migration, "hold-after", "migrate.state.notes:Notes.write", 1, name)
            child.start(hold, {**migration.environment, "HELD_AT": str(held)})
        wait(lambda: place.query(f"SELECT 1 FROM {state}.position"), "the publisher")
        family.sql("INSERT INTO person VALUES (2, 0)")
        wait(lambda: place.query(f"SELECT 1 FROM {family.name}_0.person_0 WHERE id = 2"), "the consumer")
        before, times = KeptState(place, family.name), place.query(forgotten)
        ending.callback(before.close)
        family.sql("DELETE FROM person WHERE id = 1")
        wait(held.exists, "markers to be noted")
        before.put_back(only=("waiting_marker", "consumed"))
        held.unlink()
        wait(lambda: place.query(forgotten) != times, "nothing to count as equal")
    assert "the state database was put back" in (tmp_path / "consume.log").read_text("utf-8")


def test_markers_that_the_state_lost_together_with_the_consumer_that_noted_them_ask_for_a_verification(
    family: Family, tmp_path: Path
) -> None:
    """Lost: for good, until somebody verified by chance, the grandchildren of rows that went by a foreign key: a state
    that lost its last second, and a consumer that ended in it, looked to the next one as after a kill, and what it read
    again was a repeat."""
    migration, state, place = family.migration, f"{family.name}_state", family.box.targets[0]
    forgotten = f"SELECT SUM(times) FROM {state}.forgotten"
    family.sql(
        "INSERT INTO person VALUES (1, 0)", "INSERT INTO account VALUES (1, 1, 0)", "INSERT INTO line VALUES (1, 1, 0)"
    )
    migration.do("init")
    with ExitStack() as ending:

        def start(name: str, log: str) -> Child:
            child = Child(name, tmp_path / f"{log}.log", Path.cwd())
            ending.callback(child.kill)
            child.start(migration.command(name), migration.environment)
            return child

        start("publish", "publish")
        consumer = start("consume", "consume")
        wait(lambda: place.query(f"SELECT 1 FROM {state}.position"), "the publisher")
        family.at_target(1, "INSERT INTO account_0 VALUES (1, 1, 0)")
        family.at_target(1, "INSERT INTO line_0 VALUES (1, 1, 0)")
        family.sql("INSERT INTO person VALUES (2, 0)")
        wait(lambda: place.query(f"SELECT 1 FROM {family.name}_0.person_0 WHERE id = 2"), "the consumer")
        before, times = KeptState(place, family.name), place.query(forgotten)
        ending.callback(before.close)
        family.sql("DELETE FROM person WHERE id = 1")
        gone = f"SELECT 1 FROM {family.name}_1.account_0"
        wait(lambda: not family.box.targets[1].query(gone), "the child to go")
        consumer.kill()
        assert place.query(f"SELECT 1 FROM {state}.waiting_marker WHERE table_name = 'line'")
        before.put_back(only=("waiting_marker", "consumed", "watermark", "last_consumed", "reached"))
        place.execute(f"UPDATE {state}.record SET state = 0 WHERE state = 1")
        again = start("consume", "again")
        wait(lambda: place.query(forgotten) != times, "nothing to count as equal")
        wait(lambda: "the state database was put back" in again.log.read_text("utf-8"), "it to be said")


def test_a_row_whose_unique_value_came_by_a_cascade_is_copied_although_another_one_had_it(family: Family) -> None:
    """Lost: a row that the copy left to the stream, as another one had its unique value at the target: a foreign key
    had given it that, and no message brought it."""
    migration = family.migration
    family.sql(
        "INSERT INTO person VALUES (1, 0), (3, 0), (5, 0), (6, 0)",
        "INSERT INTO seat VALUES (2, 1, 8), (4, 3, 8), (6, 5, 8), (8, 6, 8)",
    )
    migration.do("init")
    migration.begin()
    for was, now in ((1, 2), (3, 1), (5, 15), (6, 5)):
        family.sql(f"UPDATE person SET id = {now} WHERE id = {was}")
    family.sql("DELETE FROM person WHERE id = 5")  # which leaves NULL
    wait(lambda: migration.ask("status")["waiting_markers"] >= 5, "the markers to wait for the copy")
    # As a copy that has read this row before its parent went inserts it now.
    family.at_target(0, "INSERT INTO seat_0 VALUES (2, 1, 8)")
    copied = migration.ask("copy")
    assert {one["table"].split(".")[1]: one["counts"]["conflicts"] for one in copied["tables"]}["seat"] == 1
    assert family.drained() == []
    assert migration.ask("verify")["differences"] == 0
