"""Statements of the source's log are read in a time that grows as they do: one of a megabyte holds no publisher up."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from migrate.model.errors import MigrateError
from migrate.model.labels import labels_of
from migrate.model.message_reader import decode
from migrate.model.table import Column, Kind
from migrate.mysql.definition import anywhere, readable
from migrate.mysql.flavours import translated
from migrate.mysql.made_up import rows
from migrate.mysql.multi_valued import unique_by_elements
from migrate.mysql.typed_json import to_parameter
from migrate.publish.schema.complete import shapes
from migrate.publish.schema.ddl import parse
from migrate.publish.schema.session import UNKNOWN, StatementSession
from migrate.publish.schema.sqltext import MSSQL, tokens
from migrate.publish.schema.statement import Statement, behind_settings, concerned, fires_for, first_word, savepoint_of

HEADS = ("CREATE PROCEDURE scratch.p() SELECT ", "ALTER TABLE t ADD ", "SAVEPOINT a", "")
UNITS = (
    "'\\",
    "\\'",
    '"',
    '"a',
    "`",
    "`a",
    "'\"`",
    "/* ",
    "/*! ",
    "*/ ",
    "--",
    "-- ",
    "#",
    " ",
    "(",
    ")",
    "''",
    "a.",
    "1",
    "é",
    "SET STATEMENT a = 1 FOR ",
    "CREATE TRIGGER ",
    " CHECK ",
    "[",
    "[a]",
)
ENDS = ("", "x", "'")


def is_concerned(sql: str) -> None:
    for session in (UNKNOWN, StatementSession(mode=MSSQL)):
        concerned(Statement("shop", sql, session), [("shop", "orders")])


def is_parsed(sql: str) -> None:
    for mariadb, mode in ((True, 0), (False, 0x100004), (True, MSSQL)):
        with suppress(ValueError):
            parse(sql, tokens(sql, mode, 101106, mariadb=mariadb), "shop")


def is_behind_settings(sql: str) -> None:
    with suppress(ValueError):
        behind_settings(Statement("shop", sql), tokens(sql, 0, 101106, mariadb=True))


def is_made_for(sql: str) -> None:
    fires_for(Statement("shop", sql), [("shop", "orders")])


def is_translated(sql: str) -> None:
    """A definition as a server prints it, with that in a line."""
    translated(f"CREATE TABLE t (\n  {sql}\n)", "mariadb")


def is_said_by_a_server(sql: str) -> None:
    """The rest of what is read of a definition: its quoted parts."""
    readable(sql.encode())
    anywhere(f"CREATE TABLE `t` (\n  `id` int\n) {sql}")
    unique_by_elements(f"UNIQUE KEY `u` {sql}")
    labels_of(f"enum({sql})")
    shapes(Column("a", f"enum({sql})", Kind.ENUM))
    list(rows([Column("a", "int", Kind.INT)], sql))


def is_a_message(sql: str) -> None:
    """What somebody else may put into a topic, and a JSON value in it."""
    for body in (sql, f'{{"data": [{{"id": "{sql}"}}]}}', "[" + sql):
        with suppress(MigrateError):
            decode(body.encode(), "changes [0]", 0)
        with suppress(MigrateError):
            to_parameter(f"\t{body}")


def seconds(read: Callable[[str], object], sql: str, times: int = 3) -> float:
    """Of this process, at best."""
    found = []
    for _ in range(times):
        began = time.process_time()
        read(sql)
        found.append(time.process_time() - began)
    return min(found)


def grows_by_more(read: Callable[[str], object], short: str, long: str) -> tuple[float, float] | None:
    """The seconds of a text and of one that is four times as long, where the longer one takes more than ten times as
    long however often it is asked: what else the processor does slows one measurement, and not each of them."""
    for times in (1, 3, 10, 30):
        took = seconds(read, short, times), 0.0
        if took[0] <= 0.0005 or (took := (took[0], seconds(read, long, times)))[1] <= 10 * took[0]:
            return None
    return took


@pytest.mark.parametrize(
    ("read", "count"),
    [
        (is_concerned, 3_000),
        (is_parsed, 400),
        (first_word, 3_000),
        (savepoint_of, 3_000),
        (is_behind_settings, 400),
        (is_made_for, 3_000),
        (is_translated, 3_000),
        (is_said_by_a_server, 400),
        (is_a_message, 1_000),
    ],
)
def test_a_text_of_four_times_the_length_takes_no_more_than_ten_times_as_long(
    read: Callable[[str], object], count: int
) -> None:
    """Lost: the lease of a publisher, and of its standby, that read a megabyte of quotes for an hour. A quadratic
    reader takes sixteen times as long."""
    slow = {}
    for sql in (f"{head}\0{end}" for head in HEADS for end in ENDS):
        for unit in UNITS:
            if took := grows_by_more(read, sql.replace("\0", unit * count), sql.replace("\0", unit * 4 * count)):
                slow[sql, unit] = took
    assert not slow
