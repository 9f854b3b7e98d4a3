"""`migrate check`: what differs in finished chunks is named in the state, and live writes never are."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, Flow, frozen, wait
from tests.flow.launcher import run_killed
from tests.helpers import unique

ROWS = 40
MORE = (
    "check: {{interval_seconds: 1, chunks: {chunks}, wait_seconds: {wait}, repair: {repair}}}\n"
    "verify: {{rechecks: 3, recheck_seconds: {recheck}, chunk_rows: 15}}\n"
)


def made(
    box: Sandbox,
    kafka: KafkaBroker,
    directory: Path,
    chunks: int = 100,
    wait_seconds: float = 60,
    repair: bool = False,
    recheck_seconds: float = 0.4,
    columns: str = "",
) -> Flow:
    """A migration of 40 rows that are at the target, in chunks of ten as a copy leaves them; nothing writes yet."""
    more = MORE.format(chunks=chunks, wait=wait_seconds, repair=str(repair).lower(), recheck=recheck_seconds)
    flow = Flow(box, kafka, directory, unique("check"), box.source, lease=30, more=more, columns=columns)
    flow.migration.do("init")
    flow.child("publish", "publish", "--source", "main")
    wait(flow.position, "the publisher to begin")
    flow.start_targets()
    rows = ", ".join(f"({key}, {key}, {1000 + key}, 'h{key:03}')" for key in range(1, ROWS + 1))
    box.source.execute(f"INSERT INTO orders VALUES {rows}", database=flow.database)
    flow.drain()
    for number, low in enumerate(range(0, ROWS, 10)):
        above = f"'[\"{low}\"]'" if low else "NULL"
        flow.state(
            "INSERT INTO copy_detail (migration, source, table_schema, table_name, chunk, low, high, state, attempt)"
            f" VALUES ('{flow.name}', 'main', '{flow.database}', 'orders', {number}, {above}, '[\"{low + 10}\"]',"
            " 'done', 1)"
        )
    return flow


@pytest.fixture
def flow(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> Iterator[Flow]:
    with closing(made(box, kafka, tmp_path)) as flow:
        yield flow


def at_target(flow: Flow, database: int, *statements: str) -> None:
    flow.box.targets[database].execute(*statements, database=f"{flow.name}_{database}")


def once(flow: Flow, code: int = 0) -> Any:
    return flow.migration.ask("check", "--once", accept=(code,))


def named(found: Any) -> dict[str, str]:
    return {one["key"][0]: one["kind"] for one in found["named"]}


PLANTED = {
    "1": "missing",
    "3": "different",  # one byte
    "5": "misplaced",
    "6": "duplicated",
    "8": "different",  # 8 and 12 swapped a value of equal length
    "12": "different",
    "99": "extra",
    "41": "extra",  # above every chunk
}


def plant(flow: Flow) -> None:
    at_target(flow, 1, "DELETE FROM orders_1 WHERE id = 1", "UPDATE orders_1 SET history = 'h0O3' WHERE id = 3")
    at_target(flow, 1, "DELETE FROM orders_1 WHERE id = 5", "INSERT INTO orders_0 VALUES (6, 6, 1006, 'h006')")
    at_target(flow, 0, "INSERT INTO orders_1 VALUES (5, 5, 1005, 'h005'), (99, 2, 2, ''), (41, 2, 2, '')")
    at_target(flow, 0, "UPDATE orders_0 SET history = IF(id = 8, 'h012', 'h008') WHERE id IN (8, 12)")


def test_every_kind_of_difference_is_named_and_goes_when_it_is_mended(flow: Flow) -> None:
    assert once(flow)["differences"] == 0
    plant(flow)
    assert len(flow.differences(flow.box.source)) >= len(PLANTED) - 1
    found = once(flow, 1)
    assert named(found) == PLANTED
    details = {one["key"][0]: one["detail"] for one in found["named"]}
    assert details["3"].endswith("orders_1: history")
    assert details["8"].endswith("orders_0: history")
    assert "belongs in t1" in details["5"]
    told = flow.migration.do("status")
    assert "8 differences" in told
    assert f'DIFFERS {flow.database}.orders key ["1"]: missing' in told
    first = {one["key"][0]: one["first_seen"] for one in found["named"]}
    flow.migration.do("refresh", f"{flow.database}.orders", "1", "3", "99")
    left = once(flow, 1)
    assert named(left) == {key: kind for key, kind in PLANTED.items() if key not in ("1", "3", "99")}
    assert {one["key"][0]: one["first_seen"] for one in left["named"]}.items() <= first.items()
    flow.migration.do("refresh", f"{flow.database}.orders", *PLANTED)
    assert flow.differences(flow.box.source) == []
    assert once(flow)["differences"] == 0
    assert "DIFFERS" not in flow.migration.do("status")


def test_a_stored_generated_column_that_is_wrong_at_the_target_is_named_by_every_way_that_compares_rows(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    column = "g BIGINT AS ({}) STORED INVISIBLE"
    right, wrong = column.format("value + 1"), column.format(f"IF(id = {ROWS}, 0, value + 1)")
    with closing(made(box, kafka, tmp_path, recheck_seconds=0.1, columns=f", {right}")) as flow:
        once(flow)
        at_target(flow, 0, f"ALTER TABLE orders_0 MODIFY {wrong}")
        for way in (("check", "--once"), *(("verify", "--mode", mode) for mode in ("order", "sample", "count"))):
            found = flow.migration.ask(*way, accept=(1,))
            (one,) = found["named"] if way[0] == "check" else found["tables"][0]["named"]
            assert (one["key"], one["kind"], one["detail"].rpartition(": ")[2]) == ([str(ROWS)], "different", "g"), way


def test_rows_that_are_written_meanwhile_and_rows_the_stream_has_not_brought_are_no_differences(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    with closing(made(box, kafka, tmp_path, wait_seconds=2)) as flow:
        writer = flow.writer(lambda: box.source.connect(flow.database), 1, keys=60)
        compared = 0
        for _ in range(3):
            writer.wait_for(100)
            found = once(flow)
            assert found["named"] == []
            compared += found["last"]["chunks"]
        assert compared >= 12
        writer.stop()
        flow.drain()
        assert flow.differences(box.source) == []
        (consumer,) = flow.children("consume")
        with frozen(consumer.pid):
            box.source.execute("UPDATE orders SET value = value + 1", database=flow.database)
            found = once(flow)
            assert (found["differences"], found["last"]["in_motion"] > 0) == (0, True)
            box.source.execute("INSERT INTO orders VALUES (1000, 1, 1, '')", database=flow.database)
            counted = look(flow, "count", code=1)
            assert counted["rows"] == counted["target_rows"] + 1
            assert (counted["counts_differ"], counted["differences"], counted["in_motion"]) == (False, 0, 1)
            assert "not judged" in flow.migration.do("status")
        flow.drain()
        found = once(flow)
        assert (found["differences"], found["last"]["in_motion"]) == (0, 0)


def test_runs_go_round_over_all_chunks_and_find_what_changes_after_they_were_there(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    with closing(made(box, kafka, tmp_path, chunks=2)) as flow:
        assert [once(flow)["never_checked"] for _ in range(3)] == [2, 0, 0]
        checker = flow.child("check", "check")
        at_target(flow, 1, "DELETE FROM orders_1 WHERE id = 33")
        found = wait(lambda: flow.migration.ask("status")["check"]["named"], "the difference to be found")
        assert [(one["key"], one["kind"]) for one in found] == [(["33"], "missing")]
        said = flow.migration.run("check", "--once")
        assert said.returncode == 3, "one at a time"
        flow.migration.do("refresh", f"{flow.database}.orders", "33")
        wait(lambda: not flow.migration.ask("status")["check"]["named"], "the difference to go")
        os.kill(checker.pid, signal.SIGTERM)
        assert checker.wait(SLOW)
        assert checker.returncode == 0, checker.log_tail()


def test_one_run_that_is_stopped_while_it_waits_is_no_outcome(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> None:
    with closing(made(box, kafka, tmp_path, wait_seconds=600)) as flow:
        (consumer,) = flow.children("consume")
        with frozen(consumer.pid):
            box.source.execute("UPDATE orders SET value = value + 1", database=flow.database)
            runs = flow.child("once", "check", "--once")
            wait(lambda: "waits for the stream" in runs.log.read_text("utf-8"), "it to wait for the stream")
            os.kill(runs.pid, signal.SIGTERM)
            assert runs.wait(SLOW)
            assert (runs.returncode, "stopped before it was done" in runs.log_tail()) == (4, True)


def test_a_row_that_comes_again_while_the_stream_stands_after_it_had_passed_is_no_difference(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    """At every look it is away, of another insert each time: the stream must pass between any two."""
    with closing(made(box, kafka, tmp_path, recheck_seconds=4)) as flow:
        (consumer,) = flow.children("consume")

        def times() -> int:
            return runs.log.read_text("utf-8").count("waits for the stream")

        with frozen(consumer.pid):
            box.source.execute("INSERT INTO orders VALUES (9001, 1, 1, 'once')", database=flow.database)
            runs = flow.child("once", "check", "--once")
            wait(times, "it to wait for the stream")
            box.source.execute("DELETE FROM orders WHERE id = 9001", database=flow.database)
        flow.drain()
        with frozen(consumer.pid):
            box.source.execute("INSERT INTO orders VALUES (9001, 1, 1, 'again')", database=flow.database)
            wait(lambda: times() > 1 or not runs.running, "it to wait again")
        assert runs.wait(SLOW)
        assert runs.returncode == 0, runs.log_tail()
        assert flow.migration.ask("status")["check"]["named"] == []


def test_a_table_that_cannot_be_compared_is_named_and_compared_again_soon_once_it_can(flow: Flow) -> None:
    """Lost: the truth of `migrate status`, for as long as an interval, behind a column that was renamed at both sides.
    Costs 12 s: the pause before the run that is made once more."""
    at_target(flow, 1, "RENAME TABLE orders_1 TO away")
    config = flow.migration.config
    config.write_text(config.read_text("utf-8").replace("interval_seconds: 1,", "interval_seconds: 3600,"), "utf-8")
    checker = flow.child("check", "check")
    (halted,) = wait(lambda: flow.migration.ask("status")["halted"], "the check to say so")
    assert (halted["process"], "orders_1" in halted["reason"]) == ("check", True)
    assert checker.running
    at_target(flow, 1, "RENAME TABLE away TO orders_1")
    wait(lambda: not flow.migration.ask("status")["halted"], "the check to go on")
    assert checker.running
    flow.drain()


def test_repair_mends_every_kind_and_the_certificate_says_what_it_was(flow: Flow) -> None:
    plant(flow)
    paper = flow.migration.ask("verify", "--repair")
    assert (paper["clean"], paper["differences"], paper["repaired"]) == (True, 0, len(PLANTED))
    (table,) = paper["tables"]
    assert {one["key"][0]: one["kind"] for one in table["mended"]} == PLANTED
    assert flow.differences(flow.box.source) == []
    assert once(flow)["differences"] == 0
    assert flow.migration.ask("verify", "--show") == {
        name: paper[name] for name in paper if name not in ("seconds", "rows_per_second", "spark_seconds")
    }
    shown = flow.migration.do("verify", "--show")
    assert f"CLEAN: source and target are equal\n\nstarted   {paper['started']}" in shown
    assert "8 keys repaired: read at the source again" in shown
    assert "was missing 1: belongs in t1" in shown
    assert f"source    main: from {paper['sources'][0]['before']}" in shown


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_verification_that_is_killed_leaves_no_certificate_and_is_whole_when_it_is_run_again(flow: Flow) -> None:
    plant(flow)
    for where in ("settle", "finish"):
        run_killed(flow.migration, "before", f"migrate.verify.table_check:TableCheck.{where}", 1, "verify")
        assert flow.migration.run("verify", "--show").returncode == 3, "a certificate of half the work"
    paper = flow.migration.ask("verify", accept=(1,))
    assert {one["key"][0]: one["kind"] for one in paper["tables"][0]["named"]} == PLANTED
    run_killed(flow.migration, "before", "migrate.verify.table_check:TableCheck.finish", 1, "verify")
    assert flow.migration.ask("verify", "--show")["verification"] == paper["verification"]


def test_a_place_that_lost_thousands_of_rows_is_repaired_in_rounds(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    """More than a chunk names at one look."""
    more = "verify: {rechecks: 1, recheck_seconds: 0.2, master: 'local[2]'}\n"
    with closing(Flow(box, kafka, tmp_path, unique("rounds"), box.source, more=more)) as flow:
        flow.migration.do("init")
        flow.child("publish", "publish", "--source", "main")
        wait(flow.position, "the publisher to begin")
        flow.start_targets()
        flow.fill(box.source, 12_000)
        flow.drain()
        at_target(flow, 0, "DELETE FROM orders_0")
        paper = flow.migration.ask("verify", "--repair")
        assert (paper["clean"], paper["repaired"], len(paper["tables"][0]["mended"])) == (True, 6000, 100)
        assert flow.differences(box.source) == []


def test_a_row_that_the_target_refuses_is_not_repaired_and_stays_named(flow: Flow) -> None:
    """The refresh stops its partition, which says why; the certificate tells what was found."""
    at_target(flow, 1, "DELETE FROM orders_1 WHERE id = 1", "ALTER TABLE orders_1 ADD CHECK (value <> 1001)")
    assert named(once(flow, 1)) == {"1": "missing"}
    done = flow.migration.run("verify", "--repair")
    assert (done.returncode, "NOT CLEAN: 1 difference" in done.stdout) == (5, True)
    paper = flow.migration.ask("verify", "--show")
    assert [(one["key"], one["kind"]) for one in paper["tables"][0]["named"]] == [(["1"], "missing")]
    assert paper["repaired"] == 0
    now = flow.migration.ask("status")
    assert named(now["check"]) == {"1": "missing"}
    assert "orders_1" in now["halted"][0]["reason"]


def test_a_check_that_repairs_mends_every_kind_while_rows_are_written(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    with closing(made(box, kafka, tmp_path, repair=True)) as flow:
        plant(flow)
        writer = flow.writer(lambda: box.source.connect(flow.database), 200)
        found = once(flow)
        writer.stop()
        flow.drain()
        assert (found["differences"], found["last"]["repaired"]) == (0, len(PLANTED))
        assert flow.differences(box.source) == []


def look(flow: Flow, *arguments: str, code: int = 0) -> Any:
    (table,) = flow.migration.ask("verify", "--mode", *arguments, accept=(code,))["tables"]
    return table


def look_while_written(flow: Flow, mode: str) -> Any:
    """Rows that keep changing are told, and are no differences."""
    (table,) = flow.migration.ask("verify", "--mode", mode, accept=(0, 1))["tables"]
    return table


def test_each_mode_finds_what_it_looks_at_and_no_live_write(flow: Flow) -> None:
    assert flow.migration.run("verify", "--show").returncode == 3
    assert flow.migration.run("verify", "--mode", "count", "--repair").returncode == 2
    for mode in ("order", "sample", "count"):
        found = look(flow, mode)
        assert (found["rows"], found["target_rows"], found["differences"]) == (ROWS, ROWS, 0), mode
    counted = look(flow, "count")
    assert (counted["last_key"], sorted(counted["by_place"].values())) == ([str(ROWS)], [0, 0, ROWS / 2, ROWS / 2])
    at_target(flow, 1, "DELETE FROM orders_1 WHERE id = 39", "UPDATE orders_1 SET value = 0 WHERE id = 3")
    found = look(flow, "order", code=1)
    assert named(found) == {"3": "different", "39": "missing"}
    assert named(look(flow, "order", "--chunks", "1", code=1)) == {"3": "different"}
    assert look(flow, "order", "--chunks", "1", code=1)["rows"] == 15
    found = look(flow, "count", code=1)
    assert (found["rows"], found["target_rows"], found["counts_differ"], found["named"]) == (ROWS, ROWS - 1, True, [])
    flow.migration.do("refresh", f"{flow.database}.orders", "3", "39")
    at_target(flow, 0, "INSERT INTO orders_1 VALUES (41, 2, 2, '')", "DELETE FROM orders_0 WHERE id = 40")
    found = look(flow, "count", code=1)
    assert (found["counts_differ"], named(found)) == (False, {"40": "missing", "41": "extra"})
    flow.migration.do("refresh", f"{flow.database}.orders", "40", "41")
    at_target(flow, 1, "UPDATE orders_1 SET value = 0")
    found = look(flow, "sample", "--chunks", "1", code=1)
    assert (found["rows"], found["differences"]) == (10, 5), "one chunk, of which half the rows are in that database"
    flow.migration.do("refresh", f"{flow.database}.orders", *map(str, range(1, ROWS + 1)))
    writer = flow.writer(lambda: flow.box.source.connect(flow.database), 1)
    writer.wait_for(50)
    for mode in ("order", "sample"):
        assert look_while_written(flow, mode)["differences"] == 0
    writer.stop()
    flow.state("UPDATE phase SET phase = 'copying'")
    for mode in ("order", "sample", "count"):
        assert flow.migration.run("verify", "--mode", mode).returncode == 3


def test_before_anything_was_copied_it_says_what_is_missing(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> None:
    with closing(Flow(box, kafka, tmp_path, unique("early"), box.source)) as flow:
        flow.migration.do("init")
        asked: dict[tuple[str, ...], str] = {("check", "--once"): "nothing can be compared yet: no copy has begun"}
        asked |= {("verify", "--mode", mode): "its copy is not finished" for mode in ("order", "sample", "count")}
        for number, (words, told) in enumerate(asked.items()):
            child = flow.child(f"early-{number}", *words)
            assert child.wait(SLOW)
            message, hint = child.log.read_text("utf-8").splitlines()
            assert (child.returncode, told in message) == (3, True), message
            assert "`migrate run`, then `migrate copy`" in hint
