"""`/metrics` of a real migration: the values of its status, at the price of one look. Costs 30 s beside its servers."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sandbox.broker import KafkaBroker
from sandbox.ports import HOST, free_port
from sandbox.stack import Sandbox
from tests.failover.support import Flow, wait
from tests.helpers import unique
from tests.status.test_exported import PROMTOOL, values
from tests.web.test_page import Read

READER, SCRAPER, INSTANCE, ADA = (f"canary-{one}-4711" for one in ("reader", "scraper", "instance", "person"))


def scrape(url: str, token: str = SCRAPER) -> tuple[int, str]:
    asked = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})  # noqa: S310 - http
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:  # noqa: S310
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.fixture
def flow(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> Iterator[Flow]:
    web = f"listen: '{HOST}:{free_port()}', token: {READER}, metrics_token: {SCRAPER}, tokens: {{a: {INSTANCE}}}, "
    web += f"readers: {{ada: {ADA}}}"
    more = f"web: {{{web}}}\nmetrics: {{listen: '{HOST}:0'}}\n"
    with closing(Flow(box, kafka, tmp_path, unique("metrics"), box.source, more=more)) as flow:
        flow.migration.do("init")
        publisher = flow.child("publish", "publish")
        flow.start_targets()
        wait(lambda: "publishing" in publisher.log.read_text("utf-8"), "the publisher")
        flow.fill(box.source, 500)
        flow.drain()
        yield flow


def test_a_scrape_says_what_the_status_says_and_many_cost_the_state_what_one_does(flow: Flow) -> None:
    flow.stop()  # what runs would ask the state too
    web = flow.child("web", "web")
    wait(lambda: "listening" in web.log.read_text("utf-8"), "the web server")
    listen = next(line for line in flow.migration.config.read_text("utf-8").splitlines() if line.startswith("web:"))
    address = listen.split("'")[1]
    url = f"http://{address}/metrics"
    status = flow.migration.ask("status")
    found = values(scrape(url)[1])
    assert found[("migrate_snapshot_up",)] == 1
    assert found[("migrate_stage", status["stage"])] == 1
    applied = {part["partition"]: part["rows"] for part in status["partitions"]}
    topic = status["partitions"][0]["topic"]
    assert sum(applied.values()) == 500
    assert {number: found["migrate_partition_changes_total", str(number), topic] for number in applied} == applied
    kinds = [one["kind"] for one in status["blockers"]]
    assert kinds
    for kind in kinds:
        assert found["migrate_blockers", kind] == kinds.count(kind)
    assert found["migrate_process_running", "commit"] == 0
    assert found["migrate_leases_taken_total", "commit"] == 1
    assert found["migrate_source_up", "main"] == 1

    assert [scrape(url, token)[0] for token in (READER, INSTANCE, "wrong")] == [200, 403, 401]
    assert scrape(url.replace("metrics", "switch"))[0] == 403
    the_page_says_the_same(flow, f"http://{address}", status)

    def asked() -> int:
        return int(flow.state_of("SHOW GLOBAL STATUS LIKE 'Com_select'")[0][1])

    def cost(scrapers: int) -> int:
        before = asked()
        with ThreadPoolExecutor(scrapers) as together:
            assert {code for code, _ in together.map(scrape, [url] * scrapers)} == {200}
        return asked() - before

    def next_cost(scrapers: int) -> int:
        """Of those that come first once a look is stale."""
        found = [0]
        wait(lambda: found.append(cost(scrapers)) or found[-1] > 0, "a look of its own")  # type: ignore[func-returns-value]
        return found[-1]

    next_cost(1)
    assert cost(1) == 0, "a look that is given again"
    one, many = min(next_cost(1) for _ in range(3)), min(next_cost(30) for _ in range(3))
    assert 10 < many <= 2 * one, (one, many)

    def views(readers: int) -> int:
        before = asked()
        with ThreadPoolExecutor(readers) as together:
            list(together.map(visit, [f"http://{address}/m/{flow.name}"] * readers))
        return asked() - before

    wait(lambda: views(5) == 0, "a look that is given again")
    costs = [0]
    wait(lambda: costs.append(views(30)) or costs[-1] > 0, "a look of its own")  # type: ignore[func-returns-value]
    assert costs[-1] <= 3 * one, (costs, one)
    if PROMTOOL:
        text = scrape(url)[1]
        told = subprocess.run([PROMTOOL, "check", "metrics"], input=text, capture_output=True, text=True, timeout=60)
        assert (told.returncode, told.stdout + told.stderr) == (0, "")
    said = web.log.read_text("utf-8")
    assert [secret for secret in (READER, SCRAPER, INSTANCE, ADA, "Traceback") if secret in said] == []


def visit(url: str) -> str:
    """A page, as ada reads it."""
    asked = urllib.request.Request(url, headers={"Authorization": f"Bearer {ADA}"})  # noqa: S310 - http
    with urllib.request.urlopen(asked, timeout=60) as answer:  # noqa: S310
        return str(answer.read().decode())


def the_page_says_the_same(flow: Flow, address: str, status: dict[str, Any]) -> None:
    """As the command: stage, what holds it back, the next command, what is applied; of a row what `explain` does."""
    page = Read(visit(f"{address}/m/{flow.name}"))
    assert page.faults == []
    assert [found for tag, found in page.tags if found.get("aria-current") == "step"]
    wanted = [status["stage"], *status["holds_back"], status["next"], "Changes applied 500 ", status["topics"][0]]
    assert [one for one in wanted if " ".join(one.split()) + " " not in page.words + " "] == []
    assert {one["kind"] for one in status["blockers"]} <= {text.strip() for text in page.text}
    listed = Read(visit(f"{address}/")).words
    assert f"{flow.name} {status['stage']} " in listed
    wait(lambda: flow.state_of("SELECT stage, changes FROM status_history") == ((status["stage"], 500),), "a sample")

    table, key = f"{flow.database}.orders", "7"
    told = flow.migration.run("explain", table, key).stdout.splitlines()
    row = Read(visit(f"{address}/m/{flow.name}/explain?table={table}&key={key}")).words
    assert told
    assert [line for line in told if " ".join(line.split()) not in row] == []

    asked = urllib.request.Request(  # noqa: S310 - http
        f"{address}/m/{flow.name}/live", headers={"Authorization": f"Bearer {ADA}"}
    )
    with urllib.request.urlopen(asked, timeout=60) as stream:  # noqa: S310
        parts = [json.loads(next(line for line in stream if line.startswith(b"data:"))[5:]) for _ in range(2)]
    assert {"summary", "blockers", "tables", "streams"} <= parts[0].keys()
    assert "summary" in parts[1], "its time"
    assert parts[1].keys().isdisjoint({"blockers", "tables", "streams", "aside"}), "what has not changed"


def of_processes(directory: Path) -> dict[str, dict[tuple[str, ...], float]]:
    """What each process of the migration in a directory counts, by its name."""
    found = {}
    for file in (directory / "run" / "metrics").glob("*.json"):
        (one,) = json.loads(file.read_text("utf-8"))
        with urllib.request.urlopen(f"http://{one['targets'][0]}/metrics", timeout=20) as answer:
            found[one["labels"]["process"]] = values(answer.read().decode())
    return found


def test_what_processes_count_adds_up_to_what_the_state_has(flow: Flow, box: Sandbox) -> None:
    box.source.execute("UPDATE orders SET value = value + 1 WHERE id <= 20", database=flow.database)
    flow.drain()
    ((messages, changes),) = flow.state_of("SELECT SUM(messages), SUM(row_count) FROM consumed")
    wait(
        lambda: of_processes(flow.directory)["commit"]["migrate_committed_records_total",] == messages, "the committer"
    )
    wait(lambda: of_processes(flow.directory)["publish:main"]["migrate_published_rows_total", "main"] == 510, "a flush")
    found = of_processes(flow.directory)
    consumer, publisher = found["consume"], found["publish:main"]
    decisions = {one: consumer["migrate_changes_total", one] for one in ("taken", "repeat", "foreign")}
    assert decisions == {"taken": changes, "repeat": 0, "foreign": 0}
    assert changes == 510
    of_tables = {name[1:]: value for name, value in consumer.items() if name[0] == "migrate_table_changes_total"}
    table = f"{flow.database}.orders"
    assert of_tables == {("insert", table): 500, ("update", table): 10}
    written = {name[1]: value for name, value in consumer.items() if name[0] == "migrate_target_rows_total"}
    assert written == {"inserted": 500, "updated": 10, "deleted": 0, "deferred": 0}
    for counted in ("received_messages_total", "merged_messages_total", "visible_lag_seconds_count"):
        assert consumer[f"migrate_{counted}",] == messages, counted
    assert consumer["migrate_queue_bytes",] == 0
    assert consumer["migrate_received_bytes_total",] > 510 * 20
    assert consumer["migrate_merge_seconds_count",] >= 2
    assert consumer["migrate_target_transaction_seconds_count", "t0"] >= 2
    assert 0 < consumer["migrate_visible_lag_seconds_sum",] < 60 * messages
    assert consumer["migrate_lease_changes_total", "taken"] >= 2
    assert publisher["migrate_published_transactions_total", "main"] >= 2
    assert publisher["migrate_published_binlog_bytes_total", "main"] > 510 * 10
    assert publisher["migrate_kafka_acknowledgement_seconds_count", "main"] >= 2
    assert publisher["migrate_publisher_rollbacks_total", "main"] == 0
    flow.stop()
    assert list((flow.directory / "run" / "metrics").glob("*.json")) == []


def test_a_monitor_is_told_whether_a_person_is_needed_and_that_the_state_database_is_away(
    flow: Flow, box: Sandbox
) -> None:
    def code() -> int:
        return flow.migration.run("status", "--exit-code").returncode

    web = flow.child("web", "web")
    wait(lambda: "listening" in web.log.read_text("utf-8"), "the web server")
    listen = next(line for line in flow.migration.config.read_text("utf-8").splitlines() if line.startswith("web:"))
    url, state = f"http://{listen.split(chr(39))[1]}/metrics", f"{flow.name}_state"
    assert code() == 0, "all processes run, and the next step may wait"
    for child in flow.children("consume"):
        child.stop()
    assert code() == 1
    box.targets[0].execute(f"RENAME TABLE {state}.migration TO {state}.elsewhere")
    try:
        assert code() == 2
        # A look of the second before may still be given.
        wait(lambda: values(scrape(url)[1]) == {("migrate_snapshot_up",): 0}, "the metrics to tell it")
    finally:
        box.targets[0].execute(f"RENAME TABLE {state}.elsewhere TO {state}.migration")
    wait(lambda: values(scrape(url)[1])[("migrate_snapshot_up",)] == 1, "the status")
    assert values(scrape(url)[1])["migrate_needs_person",] == 1
