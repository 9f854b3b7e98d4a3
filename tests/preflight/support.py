"""A migration's config at real servers, for what `migrate preflight` says of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from migrate.mysql.connection import Connection, connect
from migrate.preflight import run as preflight
from migrate.preflight.result import Result
from migrate.settings import Settings, parse
from migrate.target.routing import Plan, PlannedTable
from sandbox.database import DatabaseServer
from sandbox.stack import Sandbox
from tests.helpers import address, raw_settings

BY_USER: dict[str, Any] = {
    "nodes": "ds_${0..1}.t_${0..1}",
    "database": {"column": "user_id", "algorithm": "MOD", "props": {"sharding-count": 2}},
    "table": {"column": "id", "algorithm": "MOD", "props": {"sharding-count": 2}},
}


class Case:
    """A source table `t` of two columns, over two databases × two tables."""

    def __init__(self, box: Sandbox, database: str, bootstrap: str) -> None:
        self.box, self.database = box, database
        self.raw: dict[str, Any] = raw_settings(
            state={**address(box.targets[0]), "database": f"{database}_state"},
            sources=[{"name": "s", **address(box.source)}],
            targets=[{"name": f"t{number}", **address(box.targets[number])} for number in range(2)],
            databases={f"ds_{number}": {"target": f"t{number}", "database": database} for number in range(2)},
            kafka={"bootstrap": bootstrap},
            tables=[{"name": f"{database}.t", "sharding": BY_USER}],
        )

    @property
    def settings(self) -> Settings:
        return parse(self.raw, {})

    def at_source(self, *statements: str) -> None:
        self.box.source.execute(*statements, database=self.database)

    def report(self, services: bool = False) -> preflight.Report:
        return preflight.run(self.settings, services=services)

    def plan(self) -> Plan:
        return Plan(self.settings, self.report().tables)

    def table(self) -> PlannedTable:
        return self.plan().tables["s", self.database, "t"]


@contextmanager
def session(server: DatabaseServer, name: str = "target 't0'") -> Iterator[Connection]:
    reached = parse(raw_settings(sources=[{"name": "x", **address(server)}]), {}).sources[0]
    with closing(connect(reached, name)) as connection:
        yield connection


def one(results: list[Result]) -> Result:
    (found,) = results
    return found
