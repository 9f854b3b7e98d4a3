"""A source with lower_case_table_names=1 has its own way of writing a table's name; its log has only that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.database import DatabaseServer
from sandbox.settings import Flavour
from sandbox.stack import Sandbox
from tests.cli.support import config_of, migrate, written
from tests.failover.support import Flow
from tests.helpers import address, unique
from tests.waiting import SLOW


@pytest.fixture(scope="module")
def lowering(flavour: Flavour, run_root: Path) -> Iterator[DatabaseServer]:
    server = DatabaseServer(flavour, run_root / f"lower-{flavour}", server_id=51, options={"lower_case_table_names": 1})
    server.start()
    yield server
    server.kill()


@pytest.mark.parametrize("command", ["preflight", "init"])
def test_a_table_named_in_other_letters_than_the_servers_is_refused_by_one_line(
    box: Sandbox, lowering: DatabaseServer, kafka: KafkaBroker, tmp_path: Path, command: str
) -> None:
    name = unique("Mixed")
    lowering.execute(f"CREATE DATABASE {name}", f"CREATE TABLE {name}.Orders (id INT PRIMARY KEY)")
    raw = config_of(
        box,
        name.lower(),
        sources=[{"name": "main", **address(lowering)}],
        tables=[{"name": f"{name}.Orders", "sharding": {"nodes": "ds_0.t"}}],
        kafka={"bootstrap": kafka.bootstrap},
    )
    found = migrate(written(tmp_path, raw), command)
    told = f"source 'main': table {name}.Orders is {name.lower()}.orders on the server, which does not tell"
    assert found.code == 3
    assert [line for line in (found.out + found.err).splitlines() if told in line] != []
    assert f"write {name.lower()}.orders in the config, letter for letter" in found.out + found.err


def test_a_table_written_as_the_server_has_it_is_followed(
    box: Sandbox, lowering: DatabaseServer, kafka: KafkaBroker, tmp_path: Path
) -> None:
    flow = Flow(box, kafka, tmp_path, unique("lowered"), lowering)
    with closing(flow):
        flow.migration.do("init")
        flow.start_targets()
        flow.child("publish", "publish")
        flow.migration.wait(flow.position, SLOW, "a start")
        lowering.execute(
            "INSERT INTO ORDERS VALUES (1, 1, 1, '1'), (2, 2, 2, '2')",
            "UPDATE Orders SET user_id = 2 WHERE ID = 1",
            database=flow.database.upper(),
        )
        flow.drain()
        assert flow.differences(lowering) == []
        assert len(flow.source_rows(lowering)) == 2
