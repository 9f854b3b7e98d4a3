"""Foreign keys that cascade outside the binlog, at real servers of both flavours: which are followed, which are not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from migrate.cutover import unfollowed_cascades
from migrate.cutover.left_server import LeftServer
from migrate.mysql.connection import Connection, connect
from migrate.mysql.foreign_keys import ForeignKey, foreign_keys, logs_cascades
from migrate.preflight.result import Verdict
from migrate.preflight.schema import cascades
from migrate.settings import Settings, parse
from migrate.target.routing import Plan
from sandbox.stack import Sandbox
from tests.helpers import address, catalog_table, raw_settings, scratch

_TABLES = (
    "CREATE TABLE parent (id INT PRIMARY KEY)",
    "CREATE TABLE child (id INT PRIMARY KEY, p INT, CONSTRAINT follows FOREIGN KEY (p) REFERENCES parent (id)"
    " ON DELETE CASCADE ON UPDATE SET NULL)",
    "CREATE TABLE plain (id INT PRIMARY KEY, p INT, CONSTRAINT stays FOREIGN KEY (p) REFERENCES parent (id))",
)


class Case:
    def __init__(self, box: Sandbox, database: str, *names: str) -> None:
        self.box, self.database, self.names = box, database, names
        self.raw = raw_settings(
            state={**address(box.targets[0]), "database": f"{database}_state"},
            sources=[{"name": "s", **address(box.source)}],
            targets=[{"name": "t0", **address(box.targets[0])}],
            databases={"ds": {"target": "t0", "database": database}},
            tables=[{"name": f"{database}.{name}", "sharding": {"nodes": f"ds.{name}"}} for name in names],
        )

    @property
    def settings(self) -> Settings:
        return parse(self.raw, {})

    def session(self) -> Connection:
        return connect(self.settings.sources[0], "source 's'")

    def noted(self, *conditions: str) -> list[str]:
        """What preflight says of each table. conditions: columns that the `rows:` of each look at."""
        selected = {(self.database, name): conditions for name in self.names}
        with closing(self.session()) as connection:
            logged = logs_cascades(connection)
            found = [one for name in selected for one in cascades.check(connection, selected, name, logged=logged)]
            found += cascades.check_outside(connection, selected)
        return [one.message.replace(self.database, "d") for one in found if one.verdict is Verdict.NOTE]

    def left_out(self) -> list[str]:
        """What a cutover says."""
        settings = self.settings
        with closing(self.session()) as connection:
            tables = [catalog_table(connection, self.database, name) for name in self.names]
        plan = Plan(settings, {table.id: table for table in tables})
        with closing(LeftServer(settings.sources[0], "source")) as server:
            found = unfollowed_cascades.left_out([server], plan, settings.cutover)
        return [one.replace(self.database, "d") for one in found]


@pytest.fixture
def database(box: Sandbox) -> Iterator[str]:
    with scratch(box.source, "cascades") as name:
        box.source.execute(*_TABLES, database=name)
        yield name


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


def test_a_server_is_taken_to_log_cascades_exactly_where_it_does(box: Sandbox, database: str) -> None:
    case = Case(box, database, "parent", "child")
    with closing(case.session()) as connection:
        assert logs_cascades(connection) == logged(case) == (box.flavour == "mysql")


def test_what_is_followed_keeps_no_cutover_from_leaving(box: Sandbox, database: str) -> None:
    """What is followed is not refused: children that go with their parent were lost before they were."""
    case = Case(box, database, "parent", "child", "plain")
    assert (case.noted(), case.left_out()) == ([], [])


def test_a_parent_outside_the_migration_is_noted_and_keeps_a_cutover_from_leaving(box: Sandbox, database: str) -> None:
    """Lost: children that go with a parent of which no message tells."""
    case = Case(box, database, "child", "plain")
    if box.flavour == "mysql":
        assert (case.noted(), case.left_out()) == ([], [])
        return
    told = "d.child: rows that this foreign key changes by itself are in no log, and cannot be followed: follows"
    told += " (ON DELETE CASCADE, ON UPDATE SET NULL): its parent d.parent is not in the migration"
    assert case.noted() == [told]
    (left,) = case.left_out()
    assert left.startswith(f"{told}; add d.parent to 'tables'; or drop the cascade, ")
    assert left.endswith("set cutover.cascades: [d.child]; a cutover refuses otherwise")
    for unused, says in (([f"{database}.plain"], [left]), ([f"{database}.child"], []), ("unused", [])):
        case.raw["cutover"] = {"cascades": unused}
        assert case.left_out() == says


def test_a_condition_on_a_column_that_becomes_null_and_a_child_outside_are_noted(box: Sandbox, database: str) -> None:
    """Lost: rows that leave a condition by a cascade, and children that no stream follows."""
    case = Case(box, database, "parent", "child")
    judged = case.noted("p")
    if box.flavour == "mysql":
        assert judged == []
    else:
        (told,) = judged
        assert told.endswith("it sets p to NULL, which the `rows:` conditions of the table look at")
    outside = "d.child is not in the migration, and its foreign key follows changes rows there with those of d.parent"
    assert Case(box, database, "parent").noted() == [outside]


def test_what_is_below_a_further_node_of_a_broadcast_table_that_goes_by_a_foreign_key_itself_is_noted(
    box: Sandbox, database: str
) -> None:
    """Lost: rows of a shard table whose parent at that node goes by itself; the stream reads it at the first node."""
    box.source.execute(
        "CREATE TABLE below (id INT PRIMARY KEY, c INT,"
        " CONSTRAINT goes FOREIGN KEY (c) REFERENCES child (id) ON DELETE CASCADE)",
        database=database,
    )
    names = [(database, name) for name in ("parent", "child", "below")]
    with closing(Case(box, database, "parent").session()) as connection:
        for mirrors, noted in (([], False), (names[:1], False), (names[:2], True), (names, False)):
            found = cascades.unfollowed(connection, dict.fromkeys(names, ()), (database, "below"), mirrors)
            assert bool(found) == noted, mirrors
            assert cascades.unfollowed(connection, dict.fromkeys(names, ()), (database, "child"), mirrors) == []
            if noted:
                why = f"rows of {database}.child go by a foreign key too, and it is a node of a broadcast table"
                assert why in found[0][0]


def test_foreign_keys_are_read_from_a_definition_with_any_names() -> None:
    create = (
        "CREATE TABLE `c` (\n  `a b` int(11) DEFAULT NULL COMMENT 'CONSTRAINT `x` FOREIGN KEY (`a`) REFERENCES `p`',\n"
        "  CONSTRAINT `of``all` FOREIGN KEY (`a b`, `c,d`) REFERENCES `o``ther`.`p` (`x`, `y)z`) ON DELETE SET NULL"
        " ON UPDATE CASCADE,\n"
        "  CONSTRAINT `stays` FOREIGN KEY (`a b`) REFERENCES `p` (`x`) ON DELETE NO ACTION\n) ENGINE=InnoDB"
    )
    assert foreign_keys(create, "shop") == (
        ForeignKey("of`all", ("a b", "c,d"), ("o`ther", "p"), ("x", "y)z"), "SET NULL", "CASCADE"),
        ForeignKey("stays", ("a b",), ("shop", "p"), ("x",)),
    )
