"""Collations that a statement does not name: the replay takes those that its session took, and the log is asked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from decode_support import server_variables
from schema_support import Followed

from migrate.publish.schema.ddl import parse
from migrate.publish.schema.session import StatementSession
from migrate.publish.schema.shadow import NotReplayedError, Shadow, Shape
from migrate.publish.schema.sqltext import tokens
from migrate.publish.schema.statement import Statement
from sandbox.database import DatabaseServer
from sandbox.stack import Sandbox
from tests.helpers import unique

TABLE = "CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(9) CHARACTER SET latin1, n INT)"
TO_UTF8MB4 = "ALTER TABLE t MODIFY s VARCHAR(10) CHARACTER SET utf8mb4"


@pytest.fixture
def followed(box: Sandbox) -> Iterator[Followed]:
    yield from _followed(box)


@pytest.fixture
def on_mariadb(mariadb_box: Sandbox) -> Iterator[Followed]:
    yield from _followed(mariadb_box)


def _followed(box: Sandbox) -> Iterator[Followed]:
    database = unique("collations")
    box.source.execute(f"CREATE DATABASE {database}")
    box.source.execute(TABLE, database=database)
    one = Followed(box.source, box.targets[0], database, "t")
    yield one
    one.close()


def _lets_choose(server: DatabaseServer) -> bool:
    return bool(server.query("SHOW VARIABLES LIKE 'character_set_collations'"))


@pytest.mark.parametrize("metadata", ["FULL", "MINIMAL", "NO_LOG"])
@pytest.mark.parametrize("chosen", [None, "", "utf8mb4=utf8mb4_uca1400_as_cs,latin1=latin1_german2_ci"])
def test_a_character_set_stands_for_the_collation_that_the_session_chose(
    on_mariadb: Followed, metadata: str, chosen: str | None
) -> None:
    """The history had the collation that the state server was built with, by which keys compare otherwise. From 11.5 on
    every statement stopped the publisher, too: a session's character set was set by a number that only names have."""
    if not _lets_choose(on_mariadb.server):
        pytest.skip("MariaDB from 11.2 on")
    with server_variables(on_mariadb.server, binlog_row_metadata=metadata):
        start = on_mariadb.here
        on_mariadb.sql(
            *([f"SET SESSION character_set_collations = '{chosen}'"] if chosen is not None else []),
            "ALTER TABLE t CONVERT TO CHARACTER SET latin1",
            TO_UTF8MB4,
            "INSERT INTO t (id, s) VALUES (1, 'é')",
            "ALTER TABLE t ADD m INT",
            "INSERT INTO t (id, s) VALUES (2, 'é')",
        )
        assert [row["s"] for _, row in on_mariadb.read(start).rows_] == ["é", "é"]
    assert on_mariadb.known("t") == on_mariadb.catalog("t")


@pytest.mark.parametrize("metadata", ["FULL", "NO_LOG"])
@pytest.mark.parametrize("mode", ["", "UTF8_IS_UTF8MB3"])
@pytest.mark.parametrize("column", ["VARCHAR(20)", "TEXT"])
def test_utf8_is_what_it_is_at_the_source(on_mariadb: Followed, column: str, mode: str, metadata: str) -> None:
    """Where a source means utf8mb4 by utf8, the next row of a VARCHAR stopped the publisher, and of a TEXT the history
    had another character set than the table."""
    with server_variables(on_mariadb.server, binlog_row_metadata=metadata, old_mode=mode):
        start = on_mariadb.here
        on_mariadb.sql(
            f"ALTER TABLE t MODIFY s {column} CHARACTER SET utf8",
            "INSERT INTO t (id, s) VALUES (1, 'é')",
            "ALTER TABLE t ADD m INT",
            "INSERT INTO t (id, s) VALUES (2, 'é')",
        )
        assert [row["s"] for _, row in on_mariadb.read(start).rows_] == ["é", "é"]
    assert on_mariadb.known("t") == on_mariadb.catalog("t")


def test_a_choice_that_the_state_server_cannot_make_is_no_guess(on_mariadb: Followed) -> None:
    """The replay took another default than the source, and the history another collation."""
    chosen = StatementSession(collations=((45, 46),))
    name = (on_mariadb.database, "t")
    ddl = parse(TO_UTF8MB4, tokens(TO_UTF8MB4, 0, 999999, mariadb=True), on_mariadb.database)
    assert ddl is not None
    before = {name: Shape(on_mariadb.now("t"), on_mariadb.catalog("t"))}
    shadow = Shadow(on_mariadb.state, "m", "main", "mariadb")
    statement = Statement(on_mariadb.database, TO_UTF8MB4, chosen)
    if _lets_choose(on_mariadb.server):
        after = shadow.after(ddl, before, {}, statement)[name].table
        assert after is not None
        assert after.by_name["s"].collation == "utf8mb4_bin"
    else:
        with pytest.raises(NotReplayedError, match="cannot have character_set_collations as the statement's session"):
            shadow.after(ddl, before, {}, statement)


def test_a_collation_that_is_another_in_the_log_than_in_the_history_stops(followed: Followed) -> None:
    """Only character sets were compared: keys that the source takes for one were two here, or the other way round."""
    with server_variables(followed.server, binlog_row_metadata="MINIMAL"):
        start = followed.here
        followed.sql("INSERT INTO t (id, s) VALUES (1, 'x')")
        assert len(followed.read(start).rows_) == 1
        followed.sql(
            "SET sql_log_bin = 0",
            "ALTER TABLE t MODIFY s VARCHAR(9) CHARACTER SET latin1 COLLATE latin1_bin",
            "SET sql_log_bin = 1",
            "INSERT INTO t (id, s) VALUES (2, 'x')",
        )
        error = followed.stopped(start)
    told = "column 's' has the collation latin1_swedish_ci in its definition, in the log latin1_bin"
    assert f"{followed.database}.t: {told}" in error.message
