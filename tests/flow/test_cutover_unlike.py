"""A cutover and tables of either side that somebody altered since the verification."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from migrate.settings import load
from migrate.state import database
from migrate.status import unlike_tables
from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import Flow, wait
from tests.helpers import unique


def test_a_cutover_refuses_tables_of_either_side_that_cannot_hold_the_others_rows(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    """Lost: what a target that was altered since the verification takes for something else: nobody looked at its
    columns, and applications were switched to it."""
    with closing(Flow(box, kafka, tmp_path, unique("unlike"), box.source)) as flow:
        flow.migration.do("init")
        flow.migration.do("--reverse", "init")

        def refused() -> str:
            child = flow.migration.run("cutover")
            assert child.returncode == 3
            assert "no verification of all tables was clean" in child.stderr, "the rest is named as ever"
            return child.stderr

        assert "has other columns" not in refused()
        box.targets[1].execute("ALTER TABLE orders_1 MODIFY value INT UNSIGNED NOT NULL", database=f"{flow.name}_1")
        box.source.execute("ALTER TABLE orders MODIFY history VARCHAR(10) NOT NULL", database=flow.database)
        said = refused()
        assert said.count("has other columns") == 5
        assert f"{flow.name}_1.orders_1 has other columns than {flow.database}.orders: value (" in said
        for database in range(2):
            for table in range(2):
                there = f"{flow.database}.orders has other columns than {flow.name}_{database}.orders_{table}: "
                assert f"the reverse stream: main/{there}" in said
        assert said.count("history (varchar(10) for mediumtext)") == 4
        assert "alter it to match (docs/operations.md#altering-a-table)" in said


def test_the_status_names_tables_of_either_side_that_cannot_hold_the_others_rows(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    """Lost: no row, but the hours of a verification, which was the first to say that a table had been altered. 40 s."""
    with closing(Flow(box, kafka, tmp_path, unique("altered"), box.source)) as flow:
        flow.migration.do("init")
        flow.child("publish", "publish")
        flow.start_targets()
        flow.close_copy()
        flow.start_reverse()

        def altered() -> dict[str, tuple[str, str]]:
            found = flow.migration.ask("status")["blockers"]
            return {one["stream"]: (one["subject"], one["remedy"]) for one in found if one["kind"] == "unlike"}

        wait(lambda: flow.migration.ask("status")["next"] == "migrate verify", "the stream")
        assert altered() == {}
        settings = load(flow.migration.config, flow.migration.environment)
        with database.opened(settings.state) as state:
            seldom, always = unlike_tables.kept(600), unlike_tables.kept(0)  # the first as `--watch` looks
            assert seldom(state, settings) == always(state, settings) == []
            alter = "ALTER TABLE orders_1 MODIFY value INT UNSIGNED NOT NULL"
            box.targets[1].execute(alter, database=f"{flow.name}_1")
            assert (seldom(state, settings), len(always(state, settings))) == ([], 1)
        ours = f"{flow.database}.orders", "migrate preflight"
        assert altered()[""] == ours
        assert f"{flow.name}_1.orders_1 has other columns than {flow.database}.orders: value (" in str(
            flow.migration.do("status")
        ).replace("\n", " ")
        assert flow.migration.ask("status")["next"] == "migrate preflight"
        assert "has other columns" in flow.migration.run("preflight").stdout
        box.targets[1].execute("ALTER TABLE orders_1 MODIFY value BIGINT NOT NULL", database=f"{flow.name}_1")
        assert altered() == {}
        box.source.execute("ALTER TABLE orders MODIFY history VARCHAR(10) NOT NULL", database=flow.database)
        assert altered()["reverse"][1] == "migrate --reverse preflight"
