"""The types of a table's columns are named in its messages, and only written out where a setting says so."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from typing import Any

import sqlalchemy as sa
from publishing import Publishing

from migrate.merge.table_versions import fits
from migrate.model.message_reader import decode
from migrate.model.table import Table
from migrate.state import schema_history_reader
from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox

_LABELS = ", ".join(f"'{number:04}{'界' * 250}'" for number in range(1_400))  # few: a server compares all with all


def definitions(main: Publishing) -> list[Table]:
    def run(action: Callable[[sa.Connection], Any]) -> Any:
        with main.state.connect() as connection:
            return action(connection)

    (versions,) = schema_history_reader.HistoryReader(run, main.name).versions().values()
    return [table for _, table in versions]


def read(message: dict[str, Any], table: Table) -> bool:
    return fits(table, decode(json.dumps(message).encode(), "t [0] @ 0", 0))


def test_an_enum_of_a_megabyte_of_labels_makes_no_message_larger(mysql_box: Sandbox, kafka: KafkaBroker) -> None:
    with closing(Publishing(mysql_box.source, mysql_box.targets[0], kafka)) as main:
        main.raw["tables"][0]["ddl"] = "ignore"
        main.raw["lease"] = {"seconds": 30}  # on a busy machine the statement takes longer than a short one
        with main.running():
            main.until(lambda: main.position is not None, "the first position")
            main.sql("INSERT INTO t VALUES (1, 'a')")
            main.sql(f"ALTER TABLE t ADD e ENUM ({_LABELS})")
            main.sql("INSERT INTO t VALUES (2, 'b', 7)", "UPDATE t SET e = 8 WHERE id = 2")
            main.until(lambda: len(main.messages()) == 3, "all changes")
        before, inserted, updated = main.messages()
        assert [len(json.dumps(one)) < 500 for one in (before, inserted, updated)] == [True] * 3
        assert (inserted["data"][0]["e"], updated["data"][0]["e"]) == ("7", "8")
        first, second = definitions(main)
        assert [read(before, first), read(inserted, second), read(updated, second)] == [True] * 3
        assert [read(before, second), read(inserted, first)] == [False] * 2


def test_readers_of_canals_messages_get_the_types_by_a_setting(box: Sandbox, kafka: KafkaBroker) -> None:
    with closing(Publishing(box.source, box.targets[0], kafka, types=True)) as main:
        main.sql("INSERT INTO t VALUES (0, '')")
        with main.running():
            main.until(lambda: main.position is not None, "the first position")
            main.sql("INSERT INTO t VALUES (1, 'a')")
            main.until(lambda: main.keys() == [1], "the row")
        (message,) = main.messages()
        (table,) = definitions(main)
        assert message["mysqlType"] == {column.name: column.type for column in table.columns}
        assert message["sqlType"] == {"id": 4, "v": 12}
        assert read(message, table)
