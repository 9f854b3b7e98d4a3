"""Sharded sources whose rule is known: rows that move between them end where they are, and one that does not belong
where it stands is named."""

from __future__ import annotations

import random
import re
import threading
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pymysql
import pytest
from confluent_kafka.admin import AdminClient

from migrate.state.finished import DETAILS
from sandbox.broker import KafkaBroker
from sandbox.ports import HOST, free_port
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, frozen, wait
from tests.flow.grouped import Grouped
from tests.flow.support import left_behind
from tests.flow.test_cutover import account, connected
from tests.flow.test_metrics import ADA, SCRAPER, of_processes, scrape, visit
from tests.helpers import log_end, unique
from tests.status.test_exported import values
from tests.web.test_page import Read

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]  # they move rows for a while, one starts Spark
PROCESSES = ("consume", "commit", "requeue")


def begin(group: Grouped) -> None:
    """Every process, and no copy to wait for."""
    group.migration.do("init")
    group.close_copy()
    for source in ("source", "second"):
        group.child(f"publish-{source}", "publish", "--source", source)
    for process in PROCESSES:
        group.child(process, process)
    wait(lambda: all(one["published"] for one in group.migration.ask("status")["sources"]), "both sources")


def test_rows_move_between_the_sources_there_and_back_and_one_that_does_not_belong_is_named(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    more = "check: {wait_seconds: 3}\n"  # for a partition that is stopped
    with closing(Grouped(box, kafka, tmp_path, unique("home"), more, home=True)) as group:
        begin(group)
        movers = [group.mover(range(2 + first, 300, 23)) for first in (0, 7)]
        wait(lambda: all(mover.moves > 100 for mover in movers), "rows to move")
        for mover in movers:
            mover.stop()
        group.drain()
        assert group.differences() == []

        group.sql(0, "INSERT INTO orders VALUES (1000, 2, 1, 'not here')")
        table = f"{group.database}.orders"
        (halted,) = wait(lambda: group.migration.ask("status")["halted"], "the partition to be stopped")
        assert (
            f'key ["1000"] as its source has it: source/{table}: by `home` the row belongs in second/{table}'
            in (halted["reason"])
        )
        (found,) = group.migration.ask("verify", accept=(1,))["tables"]
        assert [(one["kind"], one["key"]) for one in found["named"]] == [("misplaced", ["1000"])]
        assert f"is in source/{table}, belongs in second/{table} by `home`" in found["named"][0]["detail"]
        group.sql(0, "DELETE FROM orders WHERE id = 1000")
        group.sql(1, "INSERT INTO orders VALUES (1000, 2, 1, 'here')")
        wait(lambda: not group.migration.ask("status")["halted"], "the partition to go on by itself")
        group.drain()
        assert group.differences() == []
        (found,) = group.migration.ask("verify")["tables"]
        assert found["differences"] == 0


def test_rows_that_move_while_they_are_copied_and_a_publisher_dies_end_where_they_are(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    address = f"{HOST}:{free_port()}"
    more = f"web: {{listen: '{address}', metrics_token: {SCRAPER}, readers: {{ada: {ADA}}}}}\n"
    more += f"metrics: {{listen: '{HOST}:0'}}\n"
    with closing(Grouped(box, kafka, tmp_path, unique("homecopy"), more, home=True)) as group:
        for source in (0, 1):
            group.fill(source, 1000)
        migration = group.migration
        migration.do("init")
        migration.start()
        movers = [group.mover(range(2 + first, 2000, 23)) for first in (0, 7)]
        wait(lambda: all(mover.moves > 20 for mover in movers), "rows to move before the copy")
        assert len(migration.ask("copy")["tables"]) == 2
        group.drain_behind_a_kill(movers)
        assert group.differences() == []
        (table,) = migration.ask("verify")["tables"]
        assert (table["differences"], table["rows"]) == (0, table["target_rows"])
        told_of_each_source(group, address)


def told_of_each_source(group: Grouped, address: str) -> None:
    """By the status, the page and the metrics, while one of two publishers hangs: each has a place and a lag."""
    ask, places = group.migration.ask, dict(zip(("source", "second"), group.sources, strict=True))

    def metrics() -> dict[tuple[str, ...], float]:
        return values(scrape(f"http://{address}/metrics")[1])

    def ends() -> dict[str, str]:
        return {name: ":".join(map(str, log_end(server))) for name, server in places.items()}

    def sources() -> dict[str, dict[str, Any]]:
        return {one["name"]: one for one in ask("status")["sources"]}

    def page() -> str:
        found = Read(visit(f"http://{address}/m/{group.name}"))
        assert found.faults == []
        return found.words

    def cells(name: str, published: str, log: str, behind: str) -> str:
        at = f"{places[name].host}:{places[name].port}"
        return f"{name} {re.escape(at)} {re.escape(published or log)} {re.escape(log)} {behind} 0 rows"

    wait(lambda: all(one["caught_up"] for one in sources().values()), "both publishers")
    with frozen(group.migration.pid("second") or 0):
        before = sources()["second"]["published"]
        group.sql(0, "INSERT INTO orders VALUES (9000, 0, 1, 'published')")
        group.sql(1, "INSERT INTO orders VALUES (9001, 2, 1, 'not published')")
        after = ends()
        told = wait(lambda: (now := sources())["source"]["caught_up"] and now["second"]["lag_seconds"] and now, "a lag")
        assert {name: one["log_end"] for name, one in told.items()} == after
        assert (told["second"]["published"], told["second"]["caught_up"]) == (before, False)
        assert told["source"]["lag_seconds"] == 0
        of_source = cells("source", told["source"]["published"], after["source"], "caught up")
        of_second = cells("second", before, after["second"], r"\d+\.\d s")
        wait(lambda: re.search(f"{of_source} {of_second}", page()), "the page to have both")
        behind = int(after["second"].rpartition(":")[2]) - int(before.rpartition(":")[2])
        found = wait(lambda: (now := metrics())["migrate_source_lag_seconds", "second"] and now, "the metrics")
        assert behind > 0
        assert [found["migrate_source_behind_bytes", name] for name in places] == [0, behind]
        assert [found["migrate_source_up", name] for name in places] == [1, 1]
        assert found["migrate_source_lag_seconds", "source"] == 0
    group.drain()
    assert group.differences() == []
    wait(lambda: [metrics()["migrate_process_running", f"publish:{name}"] for name in places] == [1, 1], "both to run")
    wait(lambda: all(one["caught_up"] for one in sources().values()), "both publishers")
    wait(lambda: all(re.search(cells(name, "", end, "caught up"), page()) for name, end in ends().items()), "both")
    tables = [f"{name}/{group.database}.orders" for name in places]
    found, copies, words = metrics(), ask("status")["copies"], page()
    read = [found["migrate_copy_rows", table] for table in tables]
    assert (read, min(read) > 900) == ([copies[table]["rows_read"] for table in tables], True)
    assert [table for table in tables if f"{table} copied" not in words] == []
    counted = of_processes(group.migration.directory)
    for name in places:
        labels = {key[1] for key in counted[f"publish:{name}"] if key[0] == "migrate_published_rows_total"}
        assert labels == {name}


class Giver(threading.Thread):
    """An application at the targets that gives rows to other users until nobody may write there: then a row belongs at
    the other source, in another database, or both. `users`: as they were acknowledged; the last row is `unsure`."""

    def __init__(self, group: Grouped) -> None:
        super().__init__(daemon=True)
        self._account = account(group.target, f"g{group.name[-20:]}", f"`{group.name}_%`")
        self._group, self._random = group, random.Random(7)  # noqa: S311 - which row to write
        rows = f"SELECT id, user_id FROM {group.database}.orders WHERE id < 300"
        self.users: dict[int, int] = {key: user for server in group.sources for key, user in server.query(rows)}
        self.unsure: int | None = None
        self.moves = 0  # to the other source

    def run(self) -> None:
        with closing(connected(self._group.target, f"{self._group.name}_0", self._account)) as one:
            with suppress(pymysql.MySQLError), one.cursor() as cursor:
                while True:
                    self._give(cursor, key := self._random.choice([*self.users]), to := self.users[key] ^ self._kind())
                    self.moves += (self.users[key] ^ to) // 2
                    self.users[key] = to
                    time.sleep(0.002)

    def _kind(self) -> int:
        return self._random.choice((1, 2, 3))

    def _give(self, cursor: Any, key: int, to: int) -> None:
        here, there = (f"{self._group.name}_{user % 2}.orders_{key % 2}" for user in (self.users[key], to))
        self.unsure = key
        if here == there:
            cursor.execute(f"UPDATE {here} SET user_id = {to} WHERE id = {key}")
        else:
            cursor.execute("BEGIN")
            cursor.execute(f"INSERT INTO {there} SELECT id, {to}, value, note FROM {here} WHERE id = {key}")
            cursor.execute(f"DELETE FROM {here} WHERE id = {key}")
            cursor.execute("COMMIT")
        self.unsure = None


def test_sharded_sources_are_left_entered_again_and_left_again_with_every_row_where_it_belongs(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    more = "cutover: {stop: read_only, wait_seconds: 0.5, freeze_seconds: 60, max_lag_seconds: 60}\n"
    with closing(Grouped(box, kafka, tmp_path, unique("homeback"), more, home=True, rules=True)) as group:
        group.migration.config.write_text(group.migration.config.read_text().replace("{seconds: 2}", "{seconds: 8}"))
        for source in (0, 1):
            group.fill(source, 500)
        migration = group.migration
        ask, do = migration.ask, migration.do
        do("init")
        migration.start()
        ask("copy")
        group.drain()
        do("--reverse", "init")
        back = group.child("back", "--reverse", "run")
        ask("--reverse", "drain", "--timeout", "180")
        ask("verify")  # of what both publishers read
        try:
            ask("cutover", "--rehearse")
            assert set(ask("cutover")["ends"]) == {"source", "second"}
            assert ask("status")["stage"] == "switched"
            # Of source 0: row 2 changes, row 4 moves to source 1, row 6 goes; row 3 of source 1 moves to source 0.
            group.at_target(1, "UPDATE orders_0 SET value = -2 WHERE id = 2", "DELETE FROM orders_0 WHERE id = 6")
            group.at_target(0, "UPDATE orders_0 SET user_id = 2, value = -4 WHERE id = 4")
            for number in (0, 1):
                group.at_target(number, "UPDATE orders_1 SET user_id = user_id ^ 2, value = -3 WHERE id IN (3, 5)")
            group.at_target(0, "INSERT INTO orders_1 VALUES (9001, 4, 1, 'new'), (9003, 6, 1, 'new')")
            ask("--reverse", "drain", "--timeout", "180")
            assert group.differences() == []
            assert group.astray() == []
            moved = f"SELECT id, value FROM {group.database}.orders WHERE id IN (2, 3, 4, 5, 6, 9001, 9003) ORDER BY id"
            assert group.sources[0].query(moved) == ((2, -2), (3, -3), (5, -3), (9001, 1))
            assert group.sources[1].query(moved) == ((4, -4), (9003, 1))

            giver = Giver(group)
            giver.start()
            wait(lambda: giver.moves > 20, "rows to be given at the targets")
            assert giver.is_alive()
            before = giver.moves
            do("rollback")
            giver.join(SLOW)
            assert ask("status")["stage"] == "reversed"
            assert giver.moves > before, "none was given while the rollback ran"
            assert (group.differences(), group.astray()) == ([], [])
            rows = f"SELECT id, user_id FROM {group.database}.orders"
            users = {key: user for server in group.sources for key, user in server.query(rows)}
            lost = {key: user for key, user in giver.users.items() if users[key] != user and key != giver.unsure}
            assert lost == {}
            movers = [group.mover(range(2 + first, 300, 23)) for first in (0, 7)]
            wait(lambda: all(mover.moves > 20 for mover in movers), "rows to move again")
            for mover in movers:
                mover.stop()
            group.drain()
            assert group.differences() == []
            ask("verify")
            ask("cutover")
            group.at_target(0, "DELETE FROM orders_1 WHERE id = 9001")
            ask("--reverse", "drain", "--timeout", "180")
            assert (group.differences(), group.astray()) == ([], [])
            back.stop(SLOW)
            migration.stop()
            finished(group, kafka)
        finally:
            for server in {*group.sources, group.target}:
                server.execute("SET GLOBAL read_only = 0")


def finished(group: Grouped, kafka: KafkaBroker) -> None:
    """What the end of a migration of two sources leaves: at each server nothing but the rows, and writes stopped."""
    servers = (*group.sources, group.target)
    done = group.migration.ask("finish", "--yes")
    assert (done["done"], done["details"] > 0) == (True, True)
    assert {(block["server"], block["method"]) for block in done["blocks"]} == {
        ("source", "read_only"),
        ("second", "read_only"),
    }
    assert [server.query("SELECT @@read_only") for server in servers] == [((1,),), ((1,),), ((0,),)]
    assert left_behind(servers, group.name) == []
    state, names = f"{group.name}_state", f"IN ('{group.name}', '{group.name}-reverse')"
    for table in DETAILS:
        assert group.target.query(f"SELECT COUNT(*) FROM {state}.{table} WHERE migration {names}") == ((0,),), table
    kept = group.target.query(f"SELECT migration, source FROM {state}.position ORDER BY migration, source")
    assert kept == (
        (group.name, "second"),
        (group.name, "source"),
        (f"{group.name}-reverse", "target1"),
    )
    assert group.target.query(f"SELECT name FROM {state}.lease WHERE expires > NOW(6)") == ()
    broker = AdminClient({"bootstrap.servers": kafka.bootstrap})
    wait(lambda: not [one for one in broker.list_topics(timeout=SLOW).topics if group.name in one], "no topic of it")
    assert (group.differences(), group.astray()) == ([], [])
