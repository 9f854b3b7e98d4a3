"""Links that are cut, closed in one direction or slow, each of the four."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from itertools import count, product
from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.ports import HOST
from sandbox.stack import Sandbox
from tests.failover.links import Link
from tests.failover.support import Flow, Writer, wait
from tests.helpers import unique

pytestmark = pytest.mark.long

_FAULTS = ("cut", "half", "slow")
_ON = 2.0  # seconds that a fault lasts, at least
_TRIES = 100  # connections a second that all processes together may ask for; Kafka's clients are seven


@pytest.fixture(scope="module")
def behind_link(run_root: Path) -> Iterator[tuple[KafkaBroker, Link]]:
    """A broker that names a link as its address."""
    link = Link()
    broker = KafkaBroker(
        run_root / "kafka-behind-link", properties={"advertised.listeners": f"PLAINTEXT://{HOST}:{link.port}"}
    )
    broker.start()
    link.upstream = broker
    yield broker, link
    link.close()
    broker.kill()


class AtLink:
    """A broker by the address of its link."""

    def __init__(self, link: Link) -> None:
        self.bootstrap = f"{link.host}:{link.port}"


@pytest.mark.parametrize("links", [("source", "state"), ("target", "kafka")], ids="_and_".join)
def test_links_that_fail_in_any_way_are_taken_up_again_and_cost_no_change(
    links: tuple[str, ...], box: Sandbox, behind_link: tuple[KafkaBroker, Link], tmp_path: Path
) -> None:
    servers = {"source": box.source, "target": box.targets[1], "state": box.targets[0]}
    before = readers_of_the_log(box)
    with ExitStack() as stack:
        made = Flow(box, AtLink(behind_link[1]), tmp_path, unique("links"), box.source, lease=10)  # type: ignore[arg-type]
        flow = stack.enter_context(closing(made))
        opened = {"kafka": behind_link[1]}
        for which in links:
            if which in servers:
                opened[which] = stack.enter_context(closing(Link(servers[which])))
                through(flow, opened[which], _SECTIONS[which], servers[which].port)
        flow.migration.do("init")
        flow.migration.start()
        flow.close_copy()
        writer = flow.writer(lambda: box.source.connect(flow.database), 1, pause=0.005)
        once, marks = count(800_000), count(900_000, 2)
        fails(opened[links[0]], "", flow, writer, once)  # first without
        row_arrives(flow, next(marks))
        for which, kind in product(links, _FAULTS):
            fails(opened[which], kind, flow, writer, once)
            row_arrives(flow, next(marks))
        writer.stop()
        flow.drain()
        assert flow.differences(box.source) == []
        assert writer.lost(flow.source_rows(box.source)) == []
        wait(lambda: readers_of_the_log(box) <= before + 1, "no session to be left behind")


def fails(link: Link, kind: str, flow: Flow, writer: Writer, once: Iterator[int]) -> None:
    """For a time, with rows being written; what lost its connection must not try without a pause."""
    began, opened = time.monotonic(), link.opened
    with link.fault(kind):
        writer.wait_for(30)
        wait(partial(inserted_until, began + _ON * bool(kind), flow, once), "the fault to last")
        if kind:
            tries = link.opened - opened
            assert tries <= _TRIES * (time.monotonic() - began), f"{tries} tries without a pause"


_SECTIONS = {"source": "sources: [", "target": "{name: t1, ", "state": "state: {"}


def inserted_until(moment: float, flow: Flow, keys: Iterator[int]) -> bool:
    """Insert one more row: it is written only once, so no later change makes up for a lost one."""
    key = next(keys)
    flow.box.source.execute(f"INSERT INTO orders VALUES ({key}, {key % 4 // 2}, 0, 'once')", database=flow.database)
    return time.monotonic() >= moment


def row_arrives(flow: Flow, key: int) -> None:
    """One in each database, once the link is whole again."""
    flow.box.source.execute(
        f"INSERT INTO orders VALUES ({key}, 0, 0, 'marks'), ({key + 1}, 1, 0, 'marks')", database=flow.database
    )
    for number, server in enumerate(flow.box.targets):
        sql = f"SELECT 1 FROM {flow.name}_{number}.orders_{number} WHERE id = {key + number}"
        wait(lambda server=server, sql=sql: server.query(sql), f"row {key + number} to arrive")  # type: ignore[misc]


def readers_of_the_log(box: Sandbox) -> int:
    """Sessions at the source that read its log."""
    sql = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'"
    return int(box.source.query(sql)[0][0])


def through(flow: Flow, link: Link, section: str, port: int) -> None:
    """Let a server of the config be reached by a link."""
    text = flow.migration.config.read_text("utf-8")
    start = text.index(section)
    assert f"port: {port}," in text[start : start + 100]
    flow.migration.config.write_text(
        text[:start] + text[start:].replace(f"port: {port},", f"port: {link.port},", 1), "utf-8"
    )
