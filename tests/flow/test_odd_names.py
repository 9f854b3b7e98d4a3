"""Names that have to be quoted, in a whole migration: through copy, stream, comparison, refresh and explanation."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import wait
from tests.flow.test_chain import Step
from tests.helpers import unique

pytestmark = pytest.mark.timeout(300)
TABLES = ("Lead-1", "a`b", "x;drop table y", "select", "ключ", "it's", 'in "quotes"', "%s {0}", "t" * 64)


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def test_names_that_have_to_be_quoted_come_through_a_whole_migration(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    """Lost: whatever a name says where it is not quoted."""
    name = unique("odd")
    database = f"{name}-source;`s"
    box.source.execute(f"CREATE DATABASE {quoted(database)}")
    columns = "`a b` INT PRIMARY KEY, `c``d` VARCHAR(9), `key` INT, `%s` INT, `it's` INT"
    for table in TABLES:
        box.source.execute(
            f"CREATE TABLE {quoted(table)} ({columns})",
            f"INSERT INTO {quoted(table)} VALUES (1, 'copied', 1, 1, 1), (2, 'copied', 2, 2, 2)",
            database=database,
        )
    with closing(Step(box, kafka, tmp_path, name, (box.source, database), 0, "*", "ds.`{table}`")) as step:
        migration, (server, there) = step.migration, step.target
        step.up()
        step.begin("commit", "requeue")
        migration.do("copy")
        for table in TABLES:
            box.source.execute(
                f"INSERT INTO {quoted(table)} VALUES (3, 'written', 3, 3, 3)",
                f"UPDATE {quoted(table)} SET `c``d` = 'changed', `%s` = 7 WHERE `a b` = 1",
                f"DELETE FROM {quoted(table)} WHERE `a b` = 2",
                database=database,
            )
        migration.ask("drain", "--timeout", "60")
        assert migration.ask("verify")["differences"] == 0
        for table in TABLES:
            found = server.query(f"SELECT * FROM {quoted(table)} ORDER BY 1", database=there)
            assert found == ((1, "changed", 1, 7, 1), (3, "written", 3, 3, 3)), table
            server.execute(f"UPDATE {quoted(table)} SET `key` = 9 WHERE `a b` = 3", database=there)
            migration.do("refresh", f"{database}.{table}", "3")
        for table in TABLES:
            sql = f"SELECT `key` FROM {quoted(table)} WHERE `a b` = 3"
            wait(lambda sql=sql: server.query(sql, database=there) == ((3,),), f"{table} to be refreshed")  # type: ignore[misc]
            assert migration.ask("explain", f"{database}.{table}", "3")
