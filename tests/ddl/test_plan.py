"""What a plan says of the tables that are there: their rows, and what stands in the way. Both servers refuse what it
names, at the real tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pymysql
import pytest

from migrate.ddl.levels import Allowance
from migrate.ddl.plan import Plan, planned
from migrate.ddl.shards import of_rule_file
from migrate.ddl.statement import read
from migrate.model.errors import ServerError
from migrate.state.ddl import Goal
from sandbox.settings import Flavour
from tests.ddl.support import ANY, NEW, NODES, OLD, Shards
from tests.ddl.test_typed import RULES

ONE_EACH = "ds_${0..1}.orders_0"
"""A foreign key has its name once in a database."""


@pytest.fixture
def related(made: Shards) -> Iterator[Shards]:
    """orders_0 has a parent, a trigger, and is itself one."""
    for server, database in made.places:
        server.execute(
            "CREATE TABLE users (id BIGINT NOT NULL PRIMARY KEY)",
            "INSERT INTO users VALUES (1), (2), (3)",
            "ALTER TABLE orders_0 ADD CONSTRAINT of_user FOREIGN KEY (user_id) REFERENCES users (id)",
            "CREATE TABLE parts (id BIGINT PRIMARY KEY, one BIGINT, CONSTRAINT of_order FOREIGN KEY (one) REFERENCES"
            " orders_0 (id))",
            "CREATE TRIGGER guard BEFORE UPDATE ON orders_0 FOR EACH ROW SET NEW.V = TRIM(NEW.v)",
            "ANALYZE TABLE orders_0",
            database=database,
        )
    yield made
    for server, database in made.places:
        server.execute("DROP TABLE parts", "DROP TABLE orders_0", "DROP TABLE users", database=database)


def told(plan: Plan) -> list[str]:
    return [problem.what for problem in plan.problems]


def test_rows_size_and_what_refers_to_a_table_are_told_and_stand_in_no_ones_way(related: Shards) -> None:
    plan = related.plan("ALTER TABLE orders ADD COLUMN n INT, ADD KEY both_ (user_id, v)", nodes=ONE_EACH)
    assert told(plan) == []
    for one, (_, database) in zip(plan.shards, related.places, strict=True):
        assert (one.around.rows, one.around.bytes) == (3, 2 * 16_384), "a page for the rows, one for the key"
        assert [name for name, _ in one.around.parents] == ["of_user"]
        assert [name for name, _ in one.around.children] == [f"of_order of {database}.parts"]
        assert [name for name, _ in one.around.triggers] == ["guard"]


@pytest.mark.parametrize(
    ("clause", "problem"),
    [
        ("MODIFY user_id BIGINT UNSIGNED NOT NULL", "foreign key of_user uses column user_id"),
        ("MODIFY id INT NOT NULL", "foreign key of_order of {}.parts uses column id"),
        ("DROP KEY by_user", "foreign key of_user uses key `by_user`"),
        ("DROP KEY by_user, ADD KEY other (v, user_id)", "foreign key of_user uses key `by_user`"),
        ("DROP PRIMARY KEY", "foreign key of_order of {}.parts uses key PRIMARY KEY"),
    ],
)
def test_a_foreign_key_that_stands_in_the_way_is_named_and_the_server_refuses(
    related: Shards, clause: str, problem: str
) -> None:
    """Lost: the run, at its first table: a trial has no parent, and no table that refers to it."""
    (server, database), *_ = related.places
    plan = related.plan(f"ALTER TABLE orders {clause}", nodes=ONE_EACH, allow_data_loss=True)
    first = plan.shards[0]
    if first.trial.refused:  # each server sees some of it at the trial
        assert "foreign key constraint" in told(plan)[0]
    else:
        assert f"{first.shard} and 1 more: {problem.format(database)}, which the statement changes" in told(plan)
    with pytest.raises(pymysql.MySQLError, match=r"[Ff]oreign key constraint|incompatible"):
        server.execute(f"ALTER TABLE orders_0 {clause}", database=database)


def test_what_is_said_of_several_tables_is_one_line(made: Shards) -> None:
    """Lost: the reader, in 1,024 lines of one problem."""
    shards = [f"t{place}/{database}" for place, (_, database) in enumerate(made.places)]
    absent = made.plan(nodes="ds_${0..1}.orders_${0..3}")
    assert told(absent) == [
        f"{shards[0]}.orders_2 and 3 more: it is not there, or this account may not see it",
    ]
    for server, database in made.places:
        server.execute(
            "ALTER TABLE orders_0 PARTITION BY HASH (id) PARTITIONS 2",
            "ALTER TABLE orders_1 PARTITION BY HASH (id) PARTITIONS 2",
            database=database,
        )
    emptied = made.plan("TRUNCATE TABLE orders", allow_data_loss=True)
    why = "whether a TRUNCATE was done could not be told after a kill, as each partition is a table to InnoDB"
    assert told(emptied) == [f"{shards[0]}.orders_0 and 3 more: {why}"]


def test_a_sharding_column_is_widened_by_nodes_and_a_rule_names_that_way(made: Shards, tmp_path: Path) -> None:
    """Lost: the way. With --rule any type of the column is refused, as where rows go by it is the application's."""
    rules = tmp_path / "rules.yaml"
    rules.write_text(RULES)
    for server, database in made.places:
        for table in ("orders_0", "orders_1"):
            server.execute(f"ALTER TABLE {table} MODIFY user_id INT NOT NULL", database=database)
    widen = read("ALTER TABLE orders MODIFY user_id BIGINT NOT NULL")
    wanted = of_rule_file(made.servers, widen, rules)
    (problem,) = planned(made.servers, widen, wanted, ANY, allow_data_loss=False).problems
    assert problem.what == "column user_id says where a row belongs, or is in the key"
    assert "name the same shard tables by --nodes, which asks for no rule" in problem.hint
    plan = made.plan(widen.sql)
    assert (told(plan), {one.shard for one in plan.shards}) == ([], {*wanted.shards})
    assert made.run(plan).reached == 4


def test_a_key_that_takes_the_place_of_another_lets_it_go(related: Shards) -> None:
    (server, database), *_ = related.places
    clauses = "DROP KEY by_user, ADD KEY other (user_id, v)"
    assert told(related.plan(f"ALTER TABLE orders {clauses}", nodes=ONE_EACH)) == []
    server.execute(f"ALTER TABLE orders_0 {clauses}", database=database)


def test_a_trigger_that_uses_a_column_is_named(related: Shards) -> None:
    """The server takes such a statement, and refuses every write from then on."""
    plan = related.plan("ALTER TABLE orders DROP COLUMN v", allow_data_loss=True)
    first = plan.shards[0].shard
    assert told(plan) == [f"{first} and 1 more: trigger guard may use column v, which the statement changes"]
    assert told(related.plan("ALTER TABLE orders DROP KEY by_user", nodes="ds_${0..1}.orders_1")) == []
    assert [one.shard.table for one in related.plan(nodes=NODES).shards] == ["orders_0", "orders_1"] * 2


def test_a_foreign_key_that_is_dropped_comes_back_by_a_copy_where_that_is_allowed(related: Shards) -> None:
    """Lost: the undo. It was planned in place, which no server does that compares with the parent."""
    plan = related.plan("ALTER TABLE orders DROP FOREIGN KEY of_user", Allowance(), ONE_EACH)
    assert plan.shards[0].trial.undo_level.told == "COPY, lock shared"
    assert related.run(plan).reached == 2
    with pytest.raises(ServerError, match=r"--algorithm inplace --lock none is all that is allowed"):
        related.go(Goal.OLD)
    assert related.go(Goal.OLD, Allowance.of("copy shared")).reached == 2
    (server, database), *_ = related.places
    with pytest.raises(pymysql.MySQLError, match="foreign key constraint fails"):
        server.execute("INSERT INTO orders_0 VALUES (9, 9, 'no such user')", database=database)


@pytest.mark.parametrize("flavour", [Flavour.MYSQL], indirect=True)
def test_a_table_that_takes_more_than_its_trial_gets_the_next_algorithm_where_that_is_allowed(made: Shards) -> None:
    """Its definition does not say how many versions of its rows there are."""
    (server, database), *_ = made.places
    change = "ALTER TABLE orders_0 DROP COLUMN v, ADD COLUMN v VARCHAR(20) NOT NULL, ALGORITHM=INSTANT"
    with pytest.raises(pymysql.MySQLError, match="Maximum row versions"):
        server.execute(*[change] * 300, database=database)
    plan = made.plan(bound=Allowance.of("instant none"))
    assert {one.trial.level.told for one in plan.shards} == {"INSTANT"}
    with pytest.raises(ServerError, match=r"orders_0: error 4092 \(--algorithm instant --lock none is all"):
        made.run(plan, stop_after=9)
    assert made.columns() == [*OLD[:1], *NEW[1:]]
    assert made.go(bound=Allowance()).reached == 4
    assert made.columns() == NEW
