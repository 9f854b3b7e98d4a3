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
TABLES = (
    *("Lead-1", "a`b", "x;drop table y", "select", "ключ", "it's", 'in "quotes"', "%s {0}", "t" * 64),
    *("a.b", " 100%\tx", "back\\s/l#--", "日本.e\u0301", "*?[b]", "${c}"),
)
COLUMNS = ("key", "%s", "it's", "c.d", " e", "100%", "日本", "back\\s/#", '"q"', "[1]", "1e5", "${f}", "e\u0301")
"""Beside the key and the text."""


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def test_names_that_have_to_be_quoted_come_through_a_whole_migration(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    """Lost: whatever a name says where it is not quoted."""
    name = unique("odd")
    database = f"{name}-source;`s"
    box.source.execute(f"CREATE DATABASE {quoted(database)}")
    more = ", ".join(f"{quoted(column)} INT" for column in COLUMNS)
    columns = f"`a b` INT, `k.%s` INT, `c``d` VARCHAR(9), {more}, PRIMARY KEY (`a b`, `k.%s`)"

    def row(id_: int, text: str) -> str:
        return f"({id_}, {id_}, '{text}', {', '.join([str(id_)] * len(COLUMNS))})"

    for table in TABLES:
        box.source.execute(
            f"CREATE TABLE {quoted(table)} ({columns})",
            f"INSERT INTO {quoted(table)} VALUES {row(1, 'copied')}, {row(2, 'copied')}",
            database=database,
        )
    with closing(Step(box, kafka, tmp_path, name, (box.source, database), 0, "*", "ds.`{table}`")) as step:
        migration, (server, there) = step.migration, step.target
        step.up()
        step.begin("commit", "requeue")
        migration.do("copy")
        for table in TABLES:
            box.source.execute(
                f"INSERT INTO {quoted(table)} VALUES {row(3, 'written')}",
                f"UPDATE {quoted(table)} SET `c``d` = 'changed', `%s` = 7 WHERE `a b` = 1",
                f"DELETE FROM {quoted(table)} WHERE `a b` = 2",
                database=database,
            )
        migration.ask("drain", "--timeout", "60")
        assert migration.ask("verify")["differences"] == 0
        for table in TABLES:
            found = server.query(f"SELECT * FROM {quoted(table)} ORDER BY 1", database=there)
            changed = tuple(7 if column == "%s" else 1 for column in COLUMNS)
            assert found == ((1, 1, "changed", *changed), (3, 3, "written", *([3] * len(COLUMNS)))), table
            server.execute(f"UPDATE {quoted(table)} SET `c.d` = 9 WHERE `a b` = 3", database=there)
            migration.do("refresh", f"{database}.{table}", '["3", "3"]')
        for table in TABLES:
            sql = f"SELECT `c.d` FROM {quoted(table)} WHERE `a b` = 3"
            wait(lambda sql=sql: server.query(sql, database=there) == ((3,),), f"{table} to be refreshed")  # type: ignore[misc]
            assert migration.ask("explain", f"{database}.{table}", '["3", "3"]')
