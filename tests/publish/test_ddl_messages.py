"""Statements on selected tables as Canal's DDL messages, for other readers of the topic (`publish.ddl_messages`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from publishing import Publishing

from migrate.model.coordinate import Coordinate
from migrate.model.errors import StopError
from migrate.publish.ddl_messages import kind_of, text_of
from migrate.publish.schema.schema import Schema
from migrate.publish.schema.statement import Statement
from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.helpers import plain_table

PLACE = ("source", "inc", "file", "tx")


def publishing(box: Sandbox, kafka: KafkaBroker) -> Publishing:
    made = Publishing(box.source, box.targets[0], kafka, partitions=2, ddl_messages=True)
    made.raw["tables"][0]["ddl"] = {"columns": "ignore", "rename": "ignore"}
    return made


@pytest.fixture
def main(box: Sandbox, kafka: KafkaBroker) -> Iterator[Publishing]:
    with closing(publishing(box, kafka)) as made:
        yield made


@pytest.fixture
def on_mysql(mysql_box: Sandbox, kafka: KafkaBroker) -> Iterator[Publishing]:
    with closing(publishing(mysql_box, kafka)) as made:
        yield made


def statements(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [message for message in messages if message["isDdl"]]


def inserted(main: Publishing, first: int) -> None:
    main.sql(f"INSERT INTO t (id, v) VALUES {', '.join(f'({key}, NULL)' for key in range(first, first + 8))}")


def test_a_statement_stands_between_the_rows_of_each_partition_as_in_the_log(main: Publishing) -> None:
    said = [
        ("ALTER", "ALTER TABLE t ADD COLUMN w VARCHAR(9) DEFAULT 'dß'"),
        ("CINDEX", "CREATE INDEX i ON t (v)"),
        ("DINDEX", "DROP INDEX i ON t"),
        ("RENAME", "RENAME TABLE t TO u"),
        ("RENAME", "ALTER TABLE u RENAME TO t"),
    ]
    with main.running():
        main.until(lambda: main.position is not None, "the first position")
        inserted(main, 1)
        main.sql(*(sql for _, sql in said[:-1]), "ALTER TABLE u COMMENT 'elsewhere'", said[-1][1])
        main.sql("CREATE TABLE other LIKE t", "ALTER TABLE other ADD x INT", "DROP TABLE other", "ANALYZE TABLE t")
        inserted(main, 11)
        main.until_at_end()
    said.insert(4, ("ALTER", "ALTER TABLE u COMMENT 'elsewhere'"))
    first, second = (main.messages(number) for number in (0, 1))
    for messages in (first, second):
        kinds = [(message["type"], message["sql"]) for message in messages]
        assert kinds == [("INSERT", ""), *said, ("INSERT", "")]
        assert [int(row["id"]) > 8 for row in messages[-1]["data"]] == [True] * len(messages[-1]["data"])
        places = [[message["pos"][name] for name in PLACE] for message in messages]
        assert places == sorted(places)
        assert len({tuple(place) for place in places}) == len(places)
    one, other = (statements(messages) for messages in (first, second))
    assert [{**message, "ts": 0} for message in one] == [{**message, "ts": 0} for message in other]
    assert {message["table"] for message in one} == {"t"}
    sent = one[0]
    assert first[0]["es"] <= sent["es"] <= first[-1]["es"]
    assert sent["ts"] >= sent["es"]
    assert set(sent) == set(first[0]) - {"layout"}
    fixed = ("id", "database", "pkNames", "data", "old", "sqlType", "mysqlType")
    assert [sent[name] for name in fixed] == [0, main.database, [], None, None, None, None]
    assert sent["pos"]["rows"] == []


def test_a_statement_is_sent_once_the_publisher_goes_on_behind_it_and_again_after_a_restart_from_before(
    on_mysql: Publishing,
) -> None:
    main = on_mysql
    main.raw["tables"][0]["ddl"] = "stop"
    main.raw["publish"]["ddl_messages"] = False
    with main.running():
        main.until(lambda: main.position is not None, "the first position")
        main.sql("CREATE INDEX i ON t (v)")
        main.until_at_end()
    main.raw["publish"]["ddl_messages"] = True
    before = main.position
    assert before is not None
    main.sql("ALTER TABLE t ADD COLUMN w INT")
    with pytest.raises(StopError, match="a statement may change"), main.running():
        main.until(lambda: False, "the stop")
    assert statements(main.messages()) == []
    main.raw["tables"][0]["ddl"] = "ignore"
    for _ in range(2):
        with main.running():
            main.until_at_end()
        main.store(before)
    sent, repeated = statements(main.messages())
    assert {**sent, "ts": 0} == {**repeated, "ts": 0}
    assert sent["type"] == "ALTER"


@pytest.mark.parametrize(
    ("sql", "standby", "told"),
    [
        ("TRUNCATE t", True, ["TRUNCATE"]),
        ("ALTER TABLE t RENAME TO u", False, ["RENAME"]),
        ("CREATE TABLE IF NOT EXISTS t (id INT)", False, ["CREATE"]),
        ("CREATE TABLE u LIKE t", False, []),
        ("DROP TABLE IF EXISTS u", False, []),
        ("DROP TEMPORARY TABLE t", False, []),
        ("SET STATEMENT lock_wait_timeout = 1 FOR DROP INDEX i ON t", False, ["DINDEX"]),
        ("CREATE INDEX i ON t (a)", False, ["CINDEX"]),
    ],
)
def test_what_is_told_of_a_statement_is_canals_type_of_it(sql: str, standby: bool, told: list[str]) -> None:
    found: list[str] = []
    schema = Schema.fixed({("shop", "t"): plain_table()}, {}, mariadb=True, follow=[("shop", "t")])
    schema.passed = lambda step, tables, _gtid, _at: found.extend(
        kind_of(step.ddl) for name in tables if name == ("shop", "t")
    )
    schema.statement(Statement("shop", sql), Coordinate(1, 1, 10, 0), standby=standby)
    assert found == told


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("ALTER TABLE t CONNECTION='mysql://user:secret@host/d/t'", False),
        ('ALTER TABLE t COMMENT "x", connection "mysql://user:secret@host/d/t"', False),
        ("""ALTER TABLE t COMMENT='wrapper "mysql", user "u", password "secret"'""", False),
        ("ALTER TABLE t ADD COLUMN password VARCHAR(20) DEFAULT 'x' COMMENT 'the password', ADD connection INT", True),
    ],
)
def test_the_text_of_a_statement_with_a_password_is_left_out(sql: str, told: bool) -> None:
    assert text_of(sql) == (sql if told else "")


def test_the_text_of_a_statement_that_makes_too_large_a_message_is_left_out(on_mysql: Publishing) -> None:
    main = on_mysql
    main.raw["kafka"]["max_message_bytes"] = 10_000
    with main.running():
        main.until(lambda: main.position is not None, "the first position")
        main.sql(f"ALTER TABLE t /* {'x' * 10_000} */ ADD COLUMN w INT")
        main.until_at_end()
    assert [(one["type"], one["sql"]) for one in statements(main.messages())] == [("ALTER", "")]
