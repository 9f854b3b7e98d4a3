"""Tables that are added to a running migration, removed from it, and taken back, with the log still ahead."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sandbox import snippet
from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.forked import Child, Migration
from tests.helpers import globally, unique
from tests.waiting import SLOW

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]  # Spark starts once or twice in each


class Shop:
    """Tables of one source database, each to a target table of its name; those of the config can be changed."""

    def __init__(self, box: Sandbox, kafka: KafkaBroker, directory: Path) -> None:
        self.box = box
        self.name = unique(f"come_{box.source.flavour}")
        self.source, self.target = f"{self.name}_src", f"{self.name}_target"
        box.source.execute(f"CREATE DATABASE {self.source}")
        servers = snippet.config(box).replace("state: {", f"state: {{database: {self.name}_state, ", 1)
        self._head = (
            f"name: {self.name}\n{servers}"
            f"kafka: {{bootstrap: '{kafka.bootstrap}', partitions: 2}}\n"
            f"databases: {{ds: {{target: target1, database: {self.target}}}}}\n"
            "consume: {merge_interval_seconds: 0.3, idle_seconds: 0.5}\ncommit: {idle_seconds: 0.5}\n"
            "delay: {tiers_seconds: [0.5, 1]}\nlease: {seconds: 2}\ncopy: {master: 'local[2]'}\n"
            f"run_dir: {directory / 'run'}\ntables:\n"
        )
        self.migration = Migration(box, directory, "")

    def config(self, *tables: str, more: str = "") -> None:
        entries = (
            f'  - {{name: "{self.source}.{name}", sharding: {{nodes: "ds.{{table}}"}}{more}}}\n'.replace(
                "{table}", name
            )
            for name in tables
        )
        self.migration.config.write_text(self._head + "".join(entries))

    def sql(self, *statements: str) -> None:
        self.box.source.execute(*statements, database=self.source)

    def rows(self, table: str) -> tuple[tuple[Any, ...], ...]:
        return self.box.targets[0].query(f"SELECT * FROM {self.target}.{table} ORDER BY id")

    def differences(self, *tables: str) -> list[Any]:
        found: list[Any] = []
        for table in tables:
            there = self.box.source.query(f"SELECT * FROM {self.source}.{table} ORDER BY id")
            found += set(there) ^ set(self.rows(table))
        return found

    def refused(self, *arguments: str) -> tuple[int, str]:
        """Exit code and last words of a command that is to fail."""
        child = Child("refused", self.migration.directory / "refused.log", Path.cwd())
        child.start(self.migration.command(*arguments), self.migration.environment)
        assert child.wait(120), child.log_tail()
        return int(child.returncode or 0), child.log_tail()

    @contextmanager
    def running(self, *processes: str) -> Iterator[None]:
        """Single processes, until the publisher is at the log's end; without names `migrate run` as a whole."""
        if not processes:
            self.migration.start()
            try:
                yield
            finally:
                self.migration.stop()
            return
        children = []
        for words in processes:
            child = Child(words, self.migration.directory / f"{words.split()[0]}.log", Path.cwd())
            child.start(self.migration.command(*words.split()), self.migration.environment)
            children.append(child)
        try:
            yield
            self.migration.wait(self.published, SLOW, f"the publisher to be at the end: {children[0].log_tail()}")
        finally:
            for child in children:
                child.signal(signal.SIGTERM)
                assert child.wait(60), child.log_tail()

    def published(self) -> bool:
        return all(source["caught_up"] for source in self.migration.ask("status")["sources"])

    def until_added(self, table: str) -> None:
        name = f"{self.source}.{table}"
        self.migration.wait(lambda: self.migration.ask("status")["tables"][name] == "created", SLOW, f"{name}, added")

    def drain(self) -> None:
        self.migration.ask("drain", "--timeout", "120")


@pytest.fixture
def shop(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> Iterator[Shop]:
    made = Shop(box, kafka, tmp_path)
    yield made
    made.migration.stop()


ADDED = [
    "CREATE TABLE added (id INT PRIMARY KEY, a VARCHAR(20), b VARCHAR(20), e ENUM('x','y'))",
    "INSERT INTO added VALUES (1, 'a1', 'b1', 'x'), (2, 'a2', 'b2', 'y'), (3, 'a3', 'b3', 'x'), (4, 'a4', 'b4', 'y')",
    "UPDATE added SET b = 'again' WHERE id = 2",
    "ALTER TABLE added MODIFY a VARCHAR(20) AFTER b",  # columns of one type change places
    "ALTER TABLE added MODIFY e ENUM('y','x')",
    "INSERT INTO added VALUES (5, 'b5', 'a5', 'x'), (6, 'b6', 'a6', 'y')",
    "DELETE FROM added WHERE id = 3",
]


@pytest.mark.parametrize("metadata", ["FULL", "MINIMAL"])
def test_a_table_made_filled_and_altered_while_the_publisher_was_down_is_added_without_a_difference(
    shop: Shop, metadata: str
) -> None:
    """Its past is in the log in front of the publisher, also when that is sent back before it."""
    with globally(shop.box.source, "binlog_row_metadata", metadata):
        shop.sql("CREATE TABLE kept (id INT PRIMARY KEY, v INT)")
        shop.config("kept")
        shop.migration.do("init")
        with shop.running("publish"):
            pass
        (before,) = (source["published"] for source in shop.migration.ask("status")["sources"])
        shop.sql("INSERT INTO kept VALUES (1, 1)", *ADDED, "INSERT INTO kept VALUES (2, 2)")
        shop.config("kept", "added")
        shop.migration.do("init")
        code, said = shop.refused("copy", "--table", f"{shop.source}.added")
        assert (code, "has not begun with it" in said) == (3, True), said
        with shop.running():
            shop.until_added("added")
            shop.sql("UPDATE added SET a = 'new', e = 'x' WHERE id = 4", "DELETE FROM added WHERE id = 5")
            shop.migration.ask("copy")
            shop.sql("UPDATE added SET a = 'newer' WHERE id = 1", "INSERT INTO added VALUES (3, 'b', 'a', 'y')")
            shop.drain()
            assert len(shop.rows("added")) == 5
            assert shop.differences("kept", "added") == []
        with shop.running(f"publish --from {before} --yes"):
            pass
        with shop.running():
            shop.sql("UPDATE added SET b = 'after' WHERE id = 2")
            shop.drain()
            assert shop.differences("kept", "added") == []


def test_a_table_that_was_removed_comes_back_only_into_empty_tables_and_misses_nothing(shop: Shop) -> None:
    """Messages of it from before its removal wait in the topic, once while it is away and once until it is back."""
    shop.sql(*(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)" for name in ("kept", "away")))
    shop.sql("INSERT INTO away VALUES (1, 1), (2, 1), (3, 1), (4, 1)")
    shop.config("kept", "away")
    shop.migration.do("init")
    with shop.running("publish"):
        shop.migration.wait(shop.published, SLOW, "the first position")
        shop.sql(
            "UPDATE away SET v = 2 WHERE id = 1", "DELETE FROM away WHERE id = 2", "INSERT INTO kept VALUES (1, 1)"
        )
    with shop.running("publish", "consume"):
        shop.migration.wait(lambda: shop.rows("away") == ((1, 2),), SLOW, "the first change at the target")
    with shop.running("publish"):
        shop.sql("UPDATE away SET v = 3 WHERE id = 1", "INSERT INTO kept VALUES (2, 2)")
    shop.config("kept")
    code, said = shop.refused("status")
    assert (code, f"{shop.source}.away of source 'source' belongs to the migration" in said) == (2, True), said
    assert shop.refused("publish")[0] == 2
    shop.config("kept", "away")
    log = shop.migration.directory / "consume.log"
    taken = log.read_text().count("partition taken")
    with shop.running("consume"):
        shop.migration.wait(lambda: log.read_text().count("partition taken") >= taken + 2, SLOW, "the consumer")
        shop.config("kept")
        code, said = shop.refused("init")
        assert (code, "a process still runs" in said) == (3, True), said
        shop.config("kept", "away")
        with shop.running("publish"):
            shop.sql("UPDATE away SET v = 4 WHERE id = 1")
    with shop.running("publish"):
        shop.sql("UPDATE away SET v = 5 WHERE id = 1")
    shop.config("kept")
    assert f"{shop.source}.away: removed" in shop.migration.do("init")
    with shop.running():  # what waits of it is passed over
        shop.drain()
        assert shop.differences("kept") == []
        ((_, stays),) = shop.rows("away")
        shop.sql("UPDATE away SET v = 6 WHERE id = 1", "INSERT INTO away VALUES (2, 6)", "UPDATE kept SET v = 9")
        shop.drain()
        assert shop.rows("away") == ((1, stays),)
    shop.config("kept", "away")
    assert shop.refused("status")[0] == 2
    code, said = shop.refused("init")
    assert (code, "has rows already" in said) == (3, True), said
    shop.box.targets[0].execute(f"DELETE FROM {shop.target}.away")
    shop.migration.do("init")
    with shop.running("publish"):
        shop.until_added("away")
        shop.sql("UPDATE away SET v = 7 WHERE id = 3", "DELETE FROM away WHERE id = 4")  # they wait in the topic
    shop.config("kept")
    shop.migration.do("init")
    shop.sql("UPDATE away SET v = 8 WHERE id = 3", "INSERT INTO away VALUES (4, 8)")
    shop.config("kept", "away")
    shop.migration.do("init")
    with shop.running():
        shop.until_added("away")
        shop.sql("UPDATE away SET v = 9 WHERE id = 1")
        shop.migration.ask("copy")
        shop.drain()
        assert len(shop.rows("away")) == 4
        assert shop.differences("kept", "away") == []


def test_what_was_noted_of_a_removed_table_or_source_keeps_nothing_back(shop: Shop) -> None:
    """A table's skip; how the publisher of a source stopped, and a doubt, which stays to be read."""
    far, state = shop.box.targets[1], f"{shop.name}_state"
    shop.sql(*(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)" for name in ("kept", "away")))
    far.execute(f"CREATE DATABASE {shop.source}")
    far.execute("CREATE TABLE eu (id INT PRIMARY KEY, v INT)", database=shop.source)
    servers = snippet.config(shop.box)
    eu = next(line for line in servers.splitlines() if "name: target2" in line).replace("target2", "eu", 1)

    def with_eu(*tables: str) -> None:
        shop.config(*tables, more=", source: source")
        text = shop.migration.config.read_text().replace("targets:", f"{eu}\ntargets:", 1)
        more = f'  - {{name: "{shop.source}.eu", source: eu, sharding: {{nodes: "ds.eu"}}}}\n'
        shop.migration.config.write_text(text + more)

    def found() -> tuple[int, list[str], list[str], int]:
        now = shop.migration.ask("status")
        open_ = "SELECT COUNT(*) FROM failover WHERE doubt <> '' AND verified IS NULL"
        ((doubts,),) = shop.box.targets[0].query(open_, database=state)
        return (
            now["skips"],
            [one["process"] for one in now["halted"]],
            [one["process"] for one in now["endings"]],
            doubts,
        )

    with_eu("kept", "away")
    shop.migration.do("init")
    shop.migration.do("parked", "skip", f"{shop.source}.away", "7", "--reason", "odd")
    shop.box.targets[0].execute(
        *(
            f"INSERT INTO halt (migration, process, reason, hint, at, since)"
            f" VALUES ('{shop.name}', 'publish:{source}', 'why', '', NOW(6), NOW(6))"
            for source in ("source", "eu")
        ),
        *(
            f"INSERT INTO ending (migration, process, reason, hint, at)"
            f" VALUES ('{shop.name}', 'publish:{source}', 'why', '', NOW(6))"
            for source in ("source", "eu")
        ),
        *(
            "INSERT INTO failover (migration, source, incarnation, from_server, to_server, scheme, doubt, at)"
            f" VALUES ('{shop.name}', '{source}', 2, 'db-1', 'db-2', 'time', 'its lag is unknown', NOW(6))"
            for source in ("source", "eu")
        ),
        database=state,
    )
    both = ["publish:eu", "publish:source"]
    assert found() == (1, both, both, 2)
    with_eu("kept")
    assert f"{shop.source}.away: removed" in shop.migration.do("init")
    assert found() == (0, both, both, 2)
    shop.config("kept")
    assert f"{shop.source}.eu: removed" in shop.migration.do("init")
    assert found() == (0, ["publish:source"], ["publish:source"], 1)
    kept = shop.box.targets[0].query("SELECT source, doubt, verified FROM failover ORDER BY source", database=state)
    assert kept == (("eu", "its lag is unknown", 0), ("source", "its lag is unknown", None))


def test_what_a_database_that_nobody_used_has_of_a_removed_table_goes_once_it_is_used_again(shop: Shop) -> None:
    """Lost: rows of another table, which the copy took out again by what the ledger had of the removed one. What was
    parked of it kept a drain from ending."""
    apart = f"{shop.target}_apart"

    def config(*tables: str) -> None:
        shop.config("kept", *tables)
        text = shop.migration.config.read_text()
        for table in tables:
            text = text.replace(f'"ds.{table}"', f'"apart.{table}"')
        ours = next(line for line in text.splitlines() if line.startswith("databases:"))
        more = ours.replace("{ds: ", "{apart: ").replace(shop.target, apart)
        both = ours.replace("}}", "}, " + more.removeprefix("databases: {"))
        shop.migration.config.write_text(text.replace(ours, both))

    def left() -> list[str]:
        asked = "SELECT table_name FROM _migrate_ledger UNION ALL SELECT table_name FROM _migrate_parked"
        return [row[0] for row in shop.box.targets[0].query(asked, database=apart)]

    shop.sql(*(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)" for name in ("kept", "away", "other")))
    config("away")
    shop.migration.do("init")
    row = f"('{shop.name}', 'source', 'away', REPEAT('x', 32), '[\"7\"]', '{shop.source}', 'away', 1, 1, 1, 1"
    shop.box.targets[0].execute(
        f"INSERT INTO _migrate_ledger VALUES {row}, 1, NOW(6))",
        f"INSERT INTO _migrate_parked VALUES {row}, NULL, 'refused', 'by hand', NOW(6))",
        database=apart,
    )
    config()
    shop.migration.do("init")
    assert left() == ["away", "away"]
    config("other")
    shop.migration.do("init")
    assert left() == []


def test_the_reverse_stream_of_a_table_that_comes_again_and_again_has_no_copy_open(shop: Shop) -> None:
    """Lost: a cutover, which was held back for ever by a copy of the reverse stream that its init had opened."""
    shop.sql(*(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)" for name in ("kept", "away")))
    for tables in (("kept", "away"), ("kept",)) * 2 + (("kept", "away"),):
        shop.config(*tables)
        shop.migration.do("init")
        shop.migration.do("--reverse", "init")
        back = f"migration = '{shop.name}-reverse'"
        runs = f"SELECT table_name, attempt FROM phase WHERE {back} AND phase = 'copied' ORDER BY 1"
        wanted = shop.box.targets[0].query(runs, database=f"{shop.name}_state")
        closed = f"SELECT table_name, attempt FROM _migrate_chunk_fence WHERE {back} AND chunk = -1 AND closed = 1"
        has = {name: int(attempt) for name, attempt in shop.box.source.query(closed, database=shop.source)}
        assert [name for name, _ in wanted] == sorted(tables)
        assert all(has.get(name, -1) >= attempt for name, attempt in wanted), (wanted, has)


def test_emptying_the_target_tables_of_a_removed_table_changes_nothing_at_the_source(shop: Shop) -> None:
    """Lost: its rows at the source, from which the reverse stream deleted what somebody deleted at the targets."""
    shop.sql(*(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)" for name in ("kept", "away")))
    shop.config("kept", "away")
    shop.migration.do("init")
    with shop.running("publish", "consume"):
        shop.migration.wait(shop.published, SLOW, "the first position")
        shop.sql("INSERT INTO away VALUES (1, 1), (2, 2)")
        shop.migration.wait(lambda: len(shop.rows("away")) == 2, SLOW, "the rows at the target")
    shop.migration.do("--reverse", "init")
    children: list[Child] = []
    for words in ("--reverse publish --source target1", "--reverse publish --source target2", "--reverse consume"):
        child = Child(words, shop.migration.directory / f"back-{len(children)}.log", Path.cwd())
        child.start(shop.migration.command(*words.split()), shop.migration.environment)
        children.append(child)
    try:
        caught_up = "SELECT COUNT(*) FROM position WHERE migration LIKE '%%-reverse'"
        state = f"{shop.name}_state"
        shop.migration.wait(
            lambda: shop.box.targets[0].query(caught_up, database=state)[0][0], SLOW, "the reverse stream to read"
        )
        shop.config("kept")
        assert f"{shop.source}.away: removed" in shop.migration.do("init")
        shop.box.targets[0].execute(f"DELETE FROM {shop.target}.away")
        listed = f"SELECT key_text FROM foreign_write WHERE migration = '{shop.name}-reverse' ORDER BY 1"
        shop.migration.wait(
            lambda: shop.box.targets[0].query(listed, database=state) == (('["1"]',), ('["2"]',)),
            60,
            "them to be listed",
        )
    finally:
        for child in children:
            child.kill()
    assert shop.box.source.query(f"SELECT * FROM {shop.source}.away ORDER BY id") == ((1, 1), (2, 2))
