"""Four shard tables at two servers, and what the servers' own client says of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from migrate.ddl import runner
from migrate.ddl.levels import Algorithm, Allowance, Lock
from migrate.ddl.plan import Plan, planned
from migrate.ddl.runner import Limits, Runner, RunReport
from migrate.ddl.servers import Servers
from migrate.ddl.shards import of_nodes
from migrate.ddl.statement import read
from migrate.settings import Server, State
from migrate.state.ddl import Goal, ShardRow
from migrate.state.switch import Side
from sandbox.database import DatabaseServer
from sandbox.stack import Sandbox
from tests.helpers import scratch, server_of, unique

NODES = "ds_${0..1}.orders_${0..1}"
ADD = "ALTER TABLE orders ADD COLUMN note VARCHAR(20) NOT NULL DEFAULT 'x'"
TABLE = (
    "CREATE TABLE {} (id BIGINT NOT NULL PRIMARY KEY, user_id BIGINT NOT NULL, v VARCHAR(20) NOT NULL, KEY by_user"
    " (user_id)) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"
)
ANY = Allowance(Algorithm.COPY, Lock.EXCLUSIVE)


@dataclass(frozen=True)
class Shards:
    """Tables `orders_0` and `orders_1` in a database of each of two servers. said: what runs said to people."""

    servers: Servers
    state: sa.Engine
    places: tuple[tuple[DatabaseServer, str], ...]
    said: list[str] = field(default_factory=list)

    def plan(
        self, sql: str = ADD, bound: Allowance = ANY, nodes: str = NODES, *, allow_data_loss: bool = False
    ) -> Plan:
        return planned(self.servers, read(sql), of_nodes(self.servers, nodes), bound, allow_data_loss=allow_data_loss)

    def run(self, plan: Plan, **limits: Any) -> RunReport:
        with runner.held(self.servers, self.state) as lease:
            number = runner.begin(self.servers, self.state, plan)
            return self._runner(lease.still_ours, limits).go(number, Goal.NEW)

    def go(
        self,
        goal: Goal | None = None,
        bound: Allowance | None = None,
        *,
        allow_data_loss: bool = True,
        **limits: Any,
    ) -> RunReport:
        """`migrate ddl resume` without a goal; with OLD `migrate ddl undo`."""
        with runner.held(self.servers, self.state) as lease:
            last = runner.found(self.servers, self.state)
            if goal is Goal.OLD:
                runner.refuse_undo(last, allow_data_loss=allow_data_loss)
            return self._runner(lease.still_ours, limits).go(last.run.number, goal or last.run.goal, bound)

    def _runner(self, still_ours: Any, limits: Mapping[str, Any]) -> Runner:
        quick = {"lock_wait": 1, "attempts": 30, "threads": 0, **limits}
        return Runner(self.servers, self.state, still_ours, Limits(**quick), _unheard, self.said.append)

    def tables(self) -> Iterator[tuple[DatabaseServer, str, str]]:
        for server, database in self.places:
            for table in ("orders_0", "orders_1"):
                yield server, database, table

    def columns(self) -> list[list[str]]:
        """The columns of each table, by the server."""
        sql = (
            "SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
            " ORDER BY ORDINAL_POSITION"
        )
        return [
            [str(row[0]) for row in server.query(sql, (database, table))] for server, database, table in self.tables()
        ]

    def stages(self) -> list[str]:
        return [str(row.stage) for row in runner.found(self.servers, self.state).rows]


def _unheard(_row: ShardRow) -> None:
    """Nobody watches."""


OLD = [["id", "user_id", "v"]] * 4
NEW = [["id", "user_id", "v", "note"]] * 4


@contextmanager
def shards(box: Sandbox, state: sa.Engine, state_settings: State) -> Iterator[Shards]:
    """Of a name of its own in the state, each with three rows."""
    with ExitStack() as stack:
        places = tuple((server, stack.enter_context(scratch(server, "ddl"))) for server in box.targets[:2])
        by_name: dict[tuple[Side, str], Server] = {
            (Side.TARGET, f"t{number}"): server_of(server) for number, (server, _) in enumerate(places)
        }
        databases = {f"ds_{number}": (f"t{number}", database) for number, (_, database) in enumerate(places)}
        made = Shards(Servers(unique("ddl"), state_settings, 2.0, by_name, databases), state, places)
        for server, database in places:
            for table in ("orders_0", "orders_1"):
                server.execute(
                    TABLE.format(table),
                    f"INSERT INTO {table} VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c')",
                    database=database,
                )
        yield made
