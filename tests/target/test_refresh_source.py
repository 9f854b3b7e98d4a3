"""Which server a refresh reads where an address leads to another one after a failover."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from migrate.model.errors import StopError
from migrate.mysql.catalog import load_table
from migrate.mysql.connection import connect
from migrate.mysql.identity import server_of
from migrate.target.refresh import SourceRows, SourcesNow
from migrate.target.routing import PlannedTable
from sandbox.stack import Sandbox
from tests.failover.support import Forwarder
from tests.helpers import address, globally, make_settings, plan_of, unique
from tests.helpers import server_of as server_named

KEY = ("1",)


class Failover:
    """An old and a new server with one row each, behind one address that keeps its sessions."""

    def __init__(self, box: Sandbox, ending: ExitStack) -> None:
        self.old, self.new, self._name = box.source, box.targets[0], unique("failover")
        account, password = f"'{self._name[-20:]}'@'%'", unique("its")
        for server, value in ((self.old, "old"), (self.new, "new")):
            ending.callback(server.execute, f"DROP DATABASE IF EXISTS {self._name}", f"DROP USER {account}")
            server.execute(
                f"CREATE USER {account} IDENTIFIED BY '{password}'",
                f"GRANT ALL ON *.* TO {account}",
                f"CREATE DATABASE {self._name}",
                f"CREATE TABLE {self._name}.t (id INT PRIMARY KEY, v VARCHAR(9))",
                f"INSERT INTO {self._name}.t VALUES (1, '{value}')",
            )
        self.address = ending.enter_context(closing(Forwarder(self.old)))
        self.reads = self.old
        """Which its publisher reads."""
        source = {"name": "s", "host": self.address.host, "port": self.address.port}
        source |= {"user": self._name[-20:], "password": password}
        table = {"name": f"{self._name}.t", "sharding": {"nodes": "ds_0.t"}}
        self._settings = make_settings(sources=[source], tables=[table])
        with closing(connect(server_named(self.old), "source 's'")) as there:
            plan = plan_of(load_table(there, "s", self._name, "t"), settings=self._settings)
        self.planned: PlannedTable = plan.find("s", self._name, "t")
        self.rows = ending.enter_context(closing(SourceRows(self._settings, self._sources_now)))

    def _sources_now(self) -> SourcesNow:
        with closing(connect(server_named(self.reads), "source 's'")) as there:
            (source,) = self._settings.sources
            return SourcesNow(self._settings.model_copy(update={"sources": (source.of(server_of(there)),)}))

    def value(self) -> object:
        row = self.rows.read(self.planned, [KEY])[KEY]
        assert row is not None
        return row["v"]


@pytest.fixture
def failover(box: Sandbox) -> Iterator[Failover]:
    with ExitStack() as ending:
        yield Failover(box, ending)


def test_a_session_on_the_old_server_is_not_read_once_the_publisher_reads_another_one(failover: Failover) -> None:
    """Lost: what the new server had of a row, where a consumer that refreshed often kept its session on the old one."""
    assert failover.value() == "old"
    failover.address.switch(failover.new, keep=True)
    assert failover.value() == "old", "the publisher still reads there"
    failover.reads = failover.new
    assert failover.value() == "new"


def test_a_server_that_the_publisher_does_not_read_yet_is_not_read(failover: Failover) -> None:
    """Lost: newer values of a row, by what a server had that was behind and that the publisher had not gone to."""
    failover.address.switch(failover.new)
    questions: list[Callable[[], object]] = [
        failover.value,
        lambda: failover.rows.log_end("s", 1),
        lambda: failover.rows.logs_cascades("s"),
    ]
    for question in questions:
        with pytest.raises(StopError, match="this is not the server that the publisher reads"):
            question()
    failover.reads = failover.new
    assert failover.value() == "new"


@pytest.mark.parametrize(
    ("statement", "way_out"),
    [
        ("ALTER TABLE {}.t DROP COLUMN v", "make the target tables the same by hand, set tables[].ddl: ignore"),
        ("DROP TABLE {}.t", "give it its name back, or take it out of the config"),
        ("DROP DATABASE {}", "give it its name back, or take it out of the config"),
    ],
)
def test_a_row_whose_table_is_another_one_by_now_says_what_helps(
    failover: Failover, statement: str, way_out: str
) -> None:
    """Lost: time, as it said that it is tried again by itself, and nothing else."""
    failover.old.execute(statement.format(failover.planned.table.database))
    with pytest.raises(StopError, match=r"\.t cannot be read for a refresh: ") as stopped:
        failover.value()
    assert way_out in stopped.value.hint


def test_a_json_document_that_the_server_cannot_print_is_not_read_as_null(box: Sandbox) -> None:
    """Lost: a large document, by the refresh of its row into a column that takes any text: the text that the source was
    asked for was above its max_allowed_packet, for which it gives an empty one, or NULL."""
    if box.flavour != "mysql":
        pytest.skip("JSON is text there, and no function makes it longer")
    database = unique("large_json")
    table = {"name": f"{database}.t", "sharding": {"nodes": "ds_0.t"}}
    settings = make_settings(sources=[{"name": "s", **address(box.source)}], tables=[table])
    numbers = "JSON_ARRAYAGG(100000 + n)"
    numbered = "WITH RECURSIVE s AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM s WHERE n < 200000)"
    box.source.execute(f"CREATE DATABASE {database}", f"CREATE TABLE {database}.t (id INT PRIMARY KEY, v JSON)")
    try:
        box.source.execute(
            "SET SESSION cte_max_recursion_depth = 300000",
            f"INSERT INTO {database}.t {numbered} SELECT 1, {numbers} FROM s",
            f"INSERT INTO {database}.t VALUES (2, '[1]'), (3, NULL)",
        )
        with closing(connect(server_named(box.source), "source 's'")) as there:
            plan = plan_of(load_table(there, "s", database, "t"), settings=settings)
        planned = plan.find("s", database, "t")
        with globally(box.source, "max_allowed_packet", 1048576):
            with closing(SourceRows(settings, lambda: SourcesNow(settings))) as rows:
                found = rows.read(planned, [("2",), ("3",)])
                assert [row and row["v"] for row in found.values()] == ["[1]", None]
                with pytest.raises(StopError, match="has a value too large for the server to print"):
                    rows.read(planned, [KEY])
        with closing(SourceRows(settings, lambda: SourcesNow(settings))) as rows:
            row = rows.read(planned, [KEY])[KEY]
        assert row is not None
        assert len(str(row["v"])) == 200_000 * 8
    finally:
        box.source.execute(f"DROP DATABASE {database}")
