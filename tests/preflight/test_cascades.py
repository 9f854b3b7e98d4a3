"""Foreign keys that cascade outside the binlog, at real servers of both flavours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from migrate.cutover import cascading
from migrate.cutover.server import Server
from migrate.mysql.connection import Connection, connect
from migrate.preflight import cascades
from migrate.preflight.result import Verdict
from migrate.settings import Settings, parse
from migrate.target.plan import Plan
from sandbox.stack import Sandbox
from tests.helpers import address, catalog_table, raw_settings, scratch

_TABLES = (
    "CREATE TABLE parent (id INT PRIMARY KEY)",
    "CREATE TABLE child (id INT PRIMARY KEY, p INT, CONSTRAINT follows FOREIGN KEY (p) REFERENCES parent (id)"
    " ON DELETE CASCADE ON UPDATE SET NULL)",
    "CREATE TABLE plain (id INT PRIMARY KEY, p INT, CONSTRAINT stays FOREIGN KEY (p) REFERENCES parent (id))",
)


class Case:
    def __init__(self, box: Sandbox, database: str) -> None:
        self.box, self.database = box, database
        self.raw = raw_settings(
            state={**address(box.targets[0]), "database": f"{database}_state"},
            sources=[{"name": "s", **address(box.source)}],
            targets=[{"name": "t0", **address(box.targets[0])}],
            databases={"ds": {"target": "t0", "database": database}},
            tables=[{"name": f"{database}.{name}", "sharding": {"nodes": f"ds.{name}"}} for name in ("child", "plain")],
        )

    @property
    def settings(self) -> Settings:
        return parse(self.raw, {})

    def session(self) -> Connection:
        return connect(self.settings.sources[0], "source 's'")

    def left_out(self) -> list[str]:
        """What a cutover says."""
        settings = self.settings
        with closing(self.session()) as connection:
            tables = [catalog_table(connection, self.database, name) for name in ("child", "plain")]
        plan = Plan(settings, {table.id: table for table in tables})
        with closing(Server(settings.sources[0], "source")) as server:
            return cascading.left_out([server], plan, settings.cutover)


@pytest.fixture
def case(box: Sandbox) -> Iterator[Case]:
    with scratch(box.source, "cascades") as database:
        box.source.execute(*_TABLES, database=database)
        yield Case(box, database)


def logged(case: Case) -> bool:
    """Whether the log has the child row that a parent's delete takes with it: what the server does, not its version."""
    source, database = case.box.source, case.database
    source.execute("INSERT INTO parent VALUES (1)", "INSERT INTO child VALUES (7, 1)", database=database)
    source.execute("FLUSH BINARY LOGS")
    source.execute("DELETE FROM parent", database=database)
    assert source.query("SELECT COUNT(*) FROM child", database=database) == ((0,),)
    (log,) = [str(row[0]) for row in source.query("SHOW BINARY LOGS")][-1:]
    events = [str(row[2]) for row in source.query(f"SHOW BINLOG EVENTS IN '{log}'")]
    deletes = sum(event.startswith("Delete_rows") for event in events)
    assert deletes in (1, 2), events
    return deletes == 2  # the parent's, and the child's


def test_a_cascade_that_the_log_does_not_have_is_noted_and_keeps_a_cutover_from_leaving(case: Case) -> None:
    there = [(case.database, "child"), (case.database, "plain")]
    with closing(case.session()) as connection:
        (result,) = cascades.check(connection, there)
    if logged(case):
        assert case.box.flavour == "mysql"
        assert (result.verdict, case.left_out()) == (Verdict.PASS, [])
        return
    assert case.box.flavour == "mariadb"
    told = f"{case.database}.child: rows that these foreign keys change by cascade are not in the binlog:"
    told += " follows (ON DELETE CASCADE, ON UPDATE SET NULL)"
    assert (result.verdict, result.message) == (Verdict.NOTE, told)
    (left,) = case.left_out()
    assert left.startswith(f"{told}; drop the cascade, ")
    assert left.endswith("say cutover.cascades: unused, as a cutover refuses without")
    case.raw["cutover"] = {"cascades": "unused"}
    assert case.left_out() == []
