"""Foreign keys that act on other tables, seen or not by the account that asks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from migrate.model.errors import StopError
from migrate.mysql.connection import connect
from migrate.mysql.referring import ForeignKey, referring
from migrate.settings import Source
from sandbox.stack import Sandbox
from tests.helpers import address, unique


@pytest.fixture
def parent(box: Sandbox) -> Iterator[tuple[str, str]]:
    """A database with a parent, whose name the server keeps another way, and one with its children."""
    name, other = unique("a-b"), unique("refers")
    box.source.execute(
        f"CREATE DATABASE `{name}`",
        f"CREATE DATABASE {other}",
        f"CREATE TABLE `{name}`.p (id INT, kind INT, PRIMARY KEY (id, kind))",
        f"CREATE TABLE {other}.lines (pid INT, kind INT, CONSTRAINT {other}_a FOREIGN KEY (pid, kind)"
        f" REFERENCES `{name}`.p (id, kind) ON DELETE CASCADE)",
        f"CREATE TABLE {other}.kept (pid INT, kind INT, CONSTRAINT {other}_b FOREIGN KEY (pid, kind)"
        f" REFERENCES `{name}`.p (id, kind))",
    )
    yield name, other
    box.source.execute(f"DROP DATABASE {other}", f"DROP DATABASE `{name}`")


def test_a_key_that_acts_is_found_in_every_database(box: Sandbox, parent: tuple[str, str]) -> None:
    name, other = parent
    with closing(connect(Source.model_validate({"name": "main", **address(box.source)}), "main")) as connection:
        found = referring(connection, name, "p")
    assert found == [ForeignKey((other, "lines"), f"{other}_a", True, False, ("pid", "kind"), ("id", "kind"))]


def test_one_that_the_account_may_not_see_is_refused(box: Sandbox, parent: tuple[str, str]) -> None:
    """Lost: rows of a table of which the account sees nothing, with the row that they referred to."""
    name, other = parent
    user = other[-30:]
    box.source.execute(
        f"CREATE USER '{user}'@'%' IDENTIFIED BY 'App-secret-1'",
        f"GRANT PROCESS ON *.* TO '{user}'@'%'",
        f"GRANT SELECT, DELETE ON `{name}`.* TO '{user}'@'%'",
    )
    try:
        settings = Source.model_validate({"name": "main", **address(box.source, user=user, password="App-secret-1")})
        with closing(connect(settings, "main")) as connection:
            with pytest.raises(StopError, match=f"rows of {other}.lines go or change with rows of {name}.p"):
                referring(connection, name, "p")
            box.source.execute(f"GRANT SELECT, REFERENCES ON {other}.* TO '{user}'@'%'")
        with closing(connect(settings, "main")) as connection:
            assert [one.child for one in referring(connection, name, "p")] == [(other, "lines")]
    finally:
        box.source.execute(f"DROP USER '{user}'@'%'")
