"""Rows that the target refuses in the copy, from the first line about them to a clean verification."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import Flow, wait
from tests.flow.test_parked import let_history_be, parked, write
from tests.helpers import unique

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]  # it starts Spark

_FEW = "copy: {chunk_rows: 4, master: 'local[1]'}\nverify: {master: 'local[1]', recheck_seconds: 0.5}\n"


@pytest.fixture
def flow(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> Iterator[Flow]:
    """20 rows; those of the keys 3, 6, 7 and 10 are too long for the target."""
    with closing(Flow(box, kafka, tmp_path, unique("refused"), box.source, more=_FEW)) as made:
        rows = ", ".join(
            f"({key}, {key}, 0, '{'longer' if key in (3, 6, 7, 10) else 'short'}')" for key in range(1, 21)
        )
        write(made, f"INSERT INTO orders VALUES {rows}")
        made.migration.do("init")
        let_history_be(made, "VARCHAR(5)")
        for process in ("publish", "consume", "commit", "requeue"):
            made.child(process, process)
        wait(made.position, "the publisher to begin")
        yield made


def test_refused_rows_of_the_copy_are_named_parked_and_brought_again(flow: Flow) -> None:
    table = f"{flow.database}.orders"
    stopped = flow.child("copy", "copy")
    assert stopped.wait(120)
    told = stopped.log.read_text("utf-8")
    assert stopped.returncode == 5, told
    assert f'refuses {table} key ["' in told
    assert "Data too long for column 'history'" in told

    flow.migration.do("parked", "skip", table, "3", "--reason", "ticket 12")
    config = flow.migration.config
    config.write_text(config.read_text().replace("copy: {", "copy: {refused: park, "))
    (copied,) = flow.migration.ask("copy")["tables"]
    assert (copied["counts"]["rows_read"], copied["counts"]["parked"]) == (20, 4)
    assert sorted(parked(flow)) == [
        ('["10"]', "copy", "copy.refused: park"),
        ('["3"]', "copy", "ticket 12"),
        ('["6"]', "copy", "copy.refused: park"),
        ('["7"]', "copy", "copy.refused: park"),
    ]
    assert "copy of" in flow.migration.do("parked", "list")
    assert flow.migration.ask("status")["parked"] == 4
    flow.migration.do("parked", "skip", table, "6", "--reason", "ticket 13")
    assert ('["6"]', "copy", "ticket 13") in parked(flow)

    write(flow, "DELETE FROM orders WHERE id = 7", "UPDATE orders SET history = 'new' WHERE id = 10")
    flow.drain()
    assert sorted(key for key, _, _ in parked(flow)) == ['["3"]', '["6"]']
    assert flow.differences(flow.box.source) == ["missing 3", "missing 6"]
    found = flow.migration.ask("verify", accept=(1,))
    differing = [one for table in found["tables"] for one in table["named"]]
    assert sorted((*one["key"], one["kind"]) for one in differing) == [("3", "missing"), ("6", "missing")]

    let_history_be(flow, "MEDIUMTEXT")
    assert flow.migration.do("parked", "retry", table, "3").startswith("1 row applied again")
    assert flow.migration.do("parked", "retry").startswith("1 row applied again")
    assert (parked(flow), flow.differences(flow.box.source)) == ([], [])
    assert flow.migration.ask("verify")["differences"] == 0
