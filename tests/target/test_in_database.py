"""One session of a server serves all of its target databases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from migrate.model.errors import ServerError
from migrate.settings import Settings
from migrate.target.pool import TargetPool
from migrate.target.routing import TargetDatabase
from sandbox.stack import Sandbox
from tests.helpers import address, make_settings, scratch


@pytest.fixture
def pair(box: Sandbox) -> Iterator[tuple[Settings, TargetDatabase, TargetDatabase]]:
    """Two databases of one server, each with a table `t` that holds the database's name."""
    server = box.targets[0]
    with scratch(server, "here") as here, scratch(server, "there") as there:
        for name in (here, there):
            server.execute(
                "CREATE TABLE t (v VARCHAR(64) PRIMARY KEY)", f"INSERT INTO t VALUES ('{name}')", database=name
            )
        settings = make_settings(
            targets=[{"name": "t0", **address(server)}],
            databases={"ds_0": {"target": "t0", "database": here}, "ds_1": {"target": "t0", "database": there}},
        )
        yield settings, TargetDatabase("ds_0", "t0", here), TargetDatabase("ds_1", "t0", there)


def test_each_statement_runs_in_its_database_on_one_session(
    pair: tuple[Settings, TargetDatabase, TargetDatabase],
) -> None:
    settings, one, two = pair
    with closing(TargetPool(settings)) as pool:
        here, there = pool.get(one), pool.get(two)
        assert (here.id, pool.get(one)) == (there.id, here)
        for _ in range(2):  # also where they were asked for before, and in turn
            assert here.query("SELECT v, DATABASE() FROM t") == [(one.database, one.database)]
            assert list(there.stream("SELECT v FROM t")) == [(two.database,)]
        with here.transaction():
            here.execute("UPDATE t SET v = 'changed'")
        assert (here.one("SELECT v FROM t"), there.one("SELECT v FROM t")) == (("changed",), (two.database,))
        pool.drop(one)
        assert pool.get(two).id != here.id  # the session's state is unknown to all of its databases


def test_nothing_becomes_part_of_another_databases_transaction_or_result(
    pair: tuple[Settings, TargetDatabase, TargetDatabase],
) -> None:
    settings, one, two = pair
    with closing(TargetPool(settings)) as pool:
        here, there = pool.get(one), pool.get(two)
        here.enter()
        here.raw.begin()
        here.execute("UPDATE t SET v = 'lost'")
        with pytest.raises(RuntimeError, match=f"for database {two.database} while {one.database}"):
            there.execute("DELETE FROM t")
        here.raw.rollback()
        assert (here.one("SELECT v FROM t"), there.one("SELECT v FROM t")) == ((one.database,), (two.database,))
        rows = here.stream("SELECT v FROM t UNION ALL SELECT v FROM t", batch=1)
        next(rows)
        with pytest.raises(RuntimeError, match="is not done"):
            there.query("SELECT 1")
        assert len(list(rows)) == 1


def test_a_database_that_is_gone_is_named_and_the_others_go_on(
    pair: tuple[Settings, TargetDatabase, TargetDatabase], box: Sandbox
) -> None:
    settings, one, two = pair
    with closing(TargetPool(settings)) as pool:
        box.targets[0].execute(f"DROP DATABASE {two.database}")
        assert pool.get(one).one("SELECT v FROM t") == (one.database,)
        with pytest.raises(ServerError, match=two.database) as refused:
            pool.get(two)
        assert "create the database" in refused.value.hint
        assert pool.get(one).one("SELECT v FROM t") == (one.database,)
