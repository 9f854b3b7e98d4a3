"""A verification that repairs, of tables of two sources in one group, is killed twice and gone on with."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import wait
from tests.failover.topic import messages
from tests.flow.grouped import Grouped
from tests.helpers import unique

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]  # it starts Spark
ROWS = 1000


def progress(group: Grouped) -> dict[str, Any]:
    """How far the unfinished verification of the group is, as the state has it."""
    rows = group.target.query(f"SELECT progress FROM {group.name}_state.verification_progress")
    return json.loads(rows[0][0]) if rows else {}


def refreshes(group: Grouped, kafka: KafkaBroker) -> int:
    """Requests in the topic."""
    return sum(message["type"] == "REFRESH" for _, _, message in messages(kafka, f"migrate.{group.name}"))


def test_what_killed_processes_compared_and_repaired_is_in_the_certificate_of_the_last(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    with closing(Grouped(box, kafka, tmp_path, unique("resumed"), chunk_rows=20)) as group:
        group.fill(0, ROWS)
        group.fill(1, ROWS)
        migration = group.migration
        migration.do("init")
        migration.begin()
        migration.ask("copy")
        group.drain()
        migration.stop()  # so that nobody carries out what the verification asks for
        group.at_target(0, "DELETE FROM orders_0 ORDER BY id LIMIT 1")
        group.at_target(1, "UPDATE orders_1 SET value = -1 ORDER BY id DESC LIMIT 1")
        group.at_target(1, "INSERT INTO orders_0 VALUES (9000, 1, 1, 'extra')")
        planted = {
            difference.split(":")[0].split(" in ")[0].replace(" or twice", "") for difference in group.differences()
        }
        assert len(planted) == 3

        comparing = group.child("comparing", "verify", "--repair")
        wait(lambda: progress(group), "progress that is kept")
        comparing.kill()
        before = progress(group)
        assert 0 < before["chunks_done"] < 100
        assert before["next"] or before["ranges"]
        repairing = group.child("repairing", "verify", "--repair")
        wait(lambda: refreshes(group, kafka) == 3, "the repair to be asked for")
        repairing.kill()
        assert f"{before['rows']} rows compared before" in repairing.log.read_text()
        kept = progress(group)
        assert (kept["next"], kept["ranges"], kept["rows"]) == (None, [], 2 * ROWS)

        migration.begin()
        group.drain()
        assert group.differences() == []
        certificate = migration.ask("verify", "--repair", "--table", f"{group.database}.orders")
        (table,) = certificate["tables"]
        assert (certificate["clean"], certificate["resumed"], table["rows"]) == (True, 2, 2 * ROWS)
        assert (table["repaired"], table["source"]) == (3, "source + second")
        assert {f"{one['kind']} {one['key'][0]}" for one in table["mended"]} == planted
        assert refreshes(group, kafka) == 3, "what was repaired is asked for again"
        whole = migration.ask("verify")
        assert (whole["clean"], whole["resumed"], whole["rows"]) == (True, 0, 2 * ROWS)
