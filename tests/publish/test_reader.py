"""What the publisher makes of the log of a running server; `test_recorded.py` has what a recorded log shows as well."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from reader_support import DATABASE, Collected, Log
from scripts import SCRIPTS

from migrate.model.errors import ServerError, StopError
from migrate.mysql.catalog import load_table
from migrate.mysql.readable import BinlogPosition, log_end
from migrate.publish.log import payload
from migrate.publish.log.binlog import TRANSACTION_PAYLOAD, BinlogReader
from sandbox.settings import Flavour
from sandbox.stack import Sandbox
from tests.helpers import scratch


@pytest.fixture(scope="module")
def log(box: Sandbox) -> Iterator[Log]:
    made = Log(box.source)
    yield made
    made.connection.close()


@pytest.fixture(autouse=True)
def _empty(log: Log) -> None:
    log.server.execute("DELETE FROM t", database=DATABASE)


def test_rows_carry_file_transaction_start_and_event_number(log: Log) -> None:
    seen = log.run(
        "BEGIN",
        "INSERT INTO other VALUES (1)",
        "INSERT INTO t VALUES (1, 'a'), (2, NULL)",
        "UPDATE t SET v = 'b' WHERE id = 1",
        "DELETE FROM other",
        "COMMIT",
        "DELETE FROM t WHERE id = 2",
    )
    first, second, third = seen.rows_
    assert first[3] == [(None, ("1", "a")), (None, ("2", None))]
    assert second[3] == [(("1", "a"), ("1", "b"))]
    assert third[3] == [(("2", None), None)]
    assert first[1].start == second[1].start < third[1].start
    assert (first[2], second[2], third[2]) == (1, 2, 0)  # the unselected table's events count too
    assert first[1].gtid != third[1].gtid
    assert seen.begun == 2


FENCE = "INSERT INTO _migrate_fence VALUES ('{}', 'topic', {}, 'main', 1, 1, 1, 1, 1, 0)"
CHUNK_FENCE = "INSERT INTO _migrate_chunk_fence VALUES ('{}', 'main', 'd', 't', {}, NULL, NULL, 1, 0, 0)"


def test_a_transaction_that_touches_our_fence_is_dropped_whole_and_no_other_migrations(log: Log) -> None:
    """Lost: what another migration wrote here was dropped too, so the second of a chain (A to B, B to C) missed it."""
    seen = log.run(
        "BEGIN", FENCE.format("ours", 1), "INSERT INTO t VALUES (1, 'ours')", "COMMIT",
        "BEGIN", CHUNK_FENCE.format("ours-reverse", 1), "INSERT INTO t VALUES (2, 'ours')", "COMMIT",
        "BEGIN", "UPDATE _migrate_fence SET writes = writes + 1", "INSERT INTO t VALUES (3, 'ours')", "COMMIT",
        "BEGIN", FENCE.format("theirs", 1), "INSERT INTO t VALUES (4, 'another migration')", "COMMIT",
        "BEGIN", CHUNK_FENCE.format("ours2", 2), "INSERT INTO t VALUES (5, 'another migration')", "COMMIT",
        "DELETE FROM _migrate_fence",
        "DELETE FROM _migrate_chunk_fence",
        "INSERT INTO t VALUES (6, 'an application')",
    )  # fmt: skip
    assert seen.keys == ["4", "5", "6"]


ROLE = "UPDATE _migrate_role SET role = '{}', version = version + 1, writes = writes + 1 WHERE migration = '{}'"


def test_rows_written_while_the_side_was_standby_are_marked_by_their_place_in_the_log(log: Log) -> None:
    """Lost: rows of the active side, which a write by hand at the standby side changed or deleted there."""
    seen = log.run(
        *(f"INSERT INTO _migrate_role VALUES ('{name}', 'active', 1, 0)" for name in ("ours-reverse", "ours")),
        "INSERT INTO t VALUES (1, 'active')",
        ROLE.format("frozen", "ours-reverse"),
        "INSERT INTO t VALUES (2, 'frozen')",
        ROLE.format("standby", "ours"),
        "INSERT INTO t VALUES (3, 'another side became standby')",
        "BEGIN", ROLE.format("standby", "ours-reverse"), "INSERT INTO t VALUES (4, 'standby')", "COMMIT",
        "INSERT INTO t VALUES (5, 'standby')",
        ROLE.format("active", "ours-reverse"),
        "INSERT INTO t VALUES (6, 'active')",
        "DELETE FROM _migrate_role",
    )  # fmt: skip
    marked = [(rows[0][1][0], transaction.standby) for _, transaction, _, rows in seen.rows_ if rows[0][1]]
    assert marked == [("1", False), ("2", False), ("3", False), ("4", True), ("5", True), ("6", False)]
    assert [role for role, _ in seen.roles] == ["frozen", "standby", "active"]
    assert [since for _, since in seen.roles] == sorted(since for _, since in seen.roles)


def test_a_copy_of_a_database_loaded_beside_it_says_nothing_of_its_side(log: Log) -> None:
    """Lost: every write of an application, which was listed as one of a standby side, once an old dump with its role
    row had been loaded under another name."""
    copy = f"{DATABASE}_restored"
    log.server.execute(f"DROP DATABASE IF EXISTS {copy}", f"CREATE DATABASE {copy}")
    tables = ("_migrate_role", "_migrate_fence", "_migrate_chunk_fence")
    log.server.execute(*(f"CREATE TABLE {copy}.{name} LIKE {DATABASE}.{name}" for name in tables))
    fence, chunk_fence = (one.format("ours", 1).replace("_migrate", f"{copy}._migrate") for one in (FENCE, CHUNK_FENCE))
    role = f"INSERT INTO {copy}._migrate_role VALUES ('ours-reverse', 'standby', 1, 0)"
    seen = log.run(
        "BEGIN", fence, chunk_fence, role, "COMMIT",
        "INSERT INTO t VALUES (1, 'an application')",
        "BEGIN", fence.replace("1", "2"), "INSERT INTO t VALUES (2, 'an application')", "COMMIT",
    )  # fmt: skip
    marked = [(rows[0][1][0], transaction.standby) for _, transaction, _, rows in seen.rows_ if rows[0][1]]
    assert (marked, seen.roles) == ([("1", False), ("2", False)], [])
    log.server.execute(f"DROP DATABASE {copy}")


def test_the_log_is_followed_over_a_new_file(log: Log) -> None:
    seen = log.run("INSERT INTO t VALUES (1, 'a')", "FLUSH BINARY LOGS", "INSERT INTO t VALUES (2, 'b')")
    assert seen.keys == ["1", "2"]
    assert seen.rows_[0][1].file + 1 == seen.rows_[1][1].file


def test_rows_that_were_published_before_they_were_rolled_back_stop(log: Log, flavour: Flavour) -> None:
    """Lost: that rows of a large transaction were rolled back, as they had been published in pieces."""
    if flavour == Flavour.MYSQL:
        pytest.skip("MariaDB only")
    with pytest.raises(StopError, match="some of them are published already") as caught:
        log.run(*SCRIPTS["rolled back, temporary table"].statements, sink=Collected(whole=False))
    assert "publish.transaction_rows" in caught.value.hint


def test_a_quiet_log_is_followed_to_its_end_after_a_rotation(log: Log) -> None:
    """Or a drain would never end: nothing but descriptions stands in the new file."""
    start = log.start()
    log.server.execute("FLUSH BINARY LOGS")
    end = log_end(log.connection)
    assert log.read(start, end).boundaries[-1] == (end.file, end.pos)


def test_without_checksums_the_log_reads_the_same(log: Log) -> None:
    before = log.connection.one("SELECT @@GLOBAL.binlog_checksum")
    assert before is not None
    try:
        assert log.run("SET GLOBAL binlog_checksum = NONE", "INSERT INTO t VALUES (1, 'a')").keys == ["1"]
        assert log.run("INSERT INTO t VALUES (2, 'b')").keys == ["2"]
    finally:
        log.server.execute(f"SET GLOBAL binlog_checksum = {before[0]}")


def test_partial_json_updates_stop(log: Log, flavour: Flavour) -> None:
    if flavour != Flavour.MYSQL:
        pytest.skip("MySQL only")
    log.server.execute("CREATE TABLE IF NOT EXISTS j (id INT PRIMARY KEY, d JSON)", database=DATABASE)
    log.server.execute(
        "REPLACE INTO j VALUES (1, JSON_OBJECT('a', 'long enough to matter', 'b', 2))", database=DATABASE
    )
    log.tables[(DATABASE, "j")] = load_table(log.connection, "main", DATABASE, "j")
    try:
        with pytest.raises(StopError, match=r"binlog_row_value_options|partial JSON"):
            log.run(
                "SET SESSION binlog_row_value_options = PARTIAL_JSON",
                "UPDATE j SET d = JSON_SET(d, '$.b', 3) WHERE id = 1",
            )
    finally:
        del log.tables[(DATABASE, "j")]


@pytest.mark.parametrize("reaches", ["", "trigger", "cascade", "qualified"])
def test_a_statement_passes_where_the_log_says_that_no_selected_database_is_changed(
    log: Log, flavour: Flavour, reaches: str
) -> None:
    """MySQL lists the databases, those that triggers and foreign keys reach too; MariaDB does not, and it stops."""
    with scratch(log.server, "elsewhere") as other:
        log.server.execute(f"CREATE TABLE {other}.p (id INT PRIMARY KEY)", f"INSERT INTO {other}.p VALUES (1)")
        if reaches == "trigger":
            trigger = f"CREATE TRIGGER {other}.x AFTER DELETE ON {other}.p FOR EACH ROW DELETE FROM {DATABASE}.t"
            log.server.execute(trigger)
        if reaches == "cascade":
            child = f"CREATE TABLE {DATABASE}.child (id INT PRIMARY KEY, FOREIGN KEY (id) REFERENCES {other}.p (id)"
            log.server.execute(f"{child} ON DELETE CASCADE)")
        statement = f"DELETE {other}.p, t FROM {other}.p, t" if reaches == "qualified" else f"DELETE FROM {other}.p"
        try:
            run = ("INSERT INTO t VALUES (1, 'a')", "SET SESSION binlog_format = STATEMENT", statement)
            if flavour == Flavour.MYSQL and not reaches:
                assert log.run(*run).keys == ["1"]
            else:
                with pytest.raises(StopError, match=r"a DELETE (that names \S+ )?was logged as a statement"):
                    log.run(*run)
        finally:
            log.server.execute(f"DROP TABLE IF EXISTS {DATABASE}.child")


def test_compression_switched_on_and_off_while_reading_changes_nothing(log: Log, flavour: Flavour) -> None:
    name = "binlog_transaction_compression" if flavour == Flavour.MYSQL else "log_bin_compress"
    scope = "SESSION" if flavour == Flavour.MYSQL else "GLOBAL"
    try:
        seen = log.run(
            "INSERT INTO t VALUES (1, REPEAT('a', 50))",
            f"SET {scope} {name} = ON",
            "INSERT INTO t VALUES (2, REPEAT('b', 50)), (3, NULL)",
            "BEGIN", "UPDATE t SET v = REPEAT('c', 40)", "DELETE FROM t WHERE id = 1", "COMMIT",
            f"CREATE TABLE long_statement (id INT) COMMENT '{'x' * 1000}'",
            "DROP TABLE long_statement",
            f"SET {scope} {name} = OFF",
            "INSERT INTO t VALUES (4, 'd')",
        )  # fmt: skip
    finally:
        if scope == "GLOBAL":
            log.server.execute(f"SET GLOBAL {name} = OFF")
    one, two, three = ("1", "a" * 50), ("2", "b" * 50), ("3", None)
    assert [rows for _, _, _, rows in seen.rows_] == [
        [(None, one)],
        [(None, two), (None, three)],
        [(row, (row[0], "c" * 40)) for row in (one, two, three)],
        [(("1", "c" * 40), None)],
        [(None, ("4", "d"))],
    ]
    starts = [transaction.start for _, transaction, _, _ in seen.rows_]
    assert starts == sorted(starts)
    assert starts[2] == starts[3]
    assert [event for _, _, event, _ in seen.rows_] == [0, 0, 0, 1, 0]


@pytest.mark.parametrize("damage", ["cut", "flipped", "unknown"])
def test_a_damaged_compressed_transaction_stops(log: Log, flavour: Flavour, damage: str) -> None:
    if flavour != Flavour.MYSQL:
        pytest.skip("MySQL only")
    start = log.start()
    log.server.execute(
        "SET SESSION binlog_transaction_compression = ON",
        "INSERT INTO t VALUES (1, 'a')",
        database=DATABASE,
    )
    binlog = BinlogReader(log.source, 4711, 1.0, start.file, start.pos)
    binlog.open()
    try:
        event = next(one for one in binlog.events() if one.type == TRANSACTION_PAYLOAD)
    finally:
        binlog.close()
    kinds = [inner.type for inner in payload.transaction(event)]
    assert (kinds[0], kinds[-1]) == (2, 16)
    body = {
        "cut": event.body[:-8],
        "flipped": event.body[:-20] + bytes(20),
        "unknown": b"\x02\x01\x07" + event.body[3:],
    }[damage]
    if damage == "unknown":
        assert event.body[0] == 2
    with pytest.raises(StopError, match="a compressed transaction"):
        list(payload.transaction(event._replace(body=body)))


def test_a_position_that_is_gone_stops(log: Log) -> None:
    gone = BinlogPosition("binlog.000000", 4, "")
    with pytest.raises(StopError, match="cannot send the binlog from the stored position"):
        log.read(gone, log_end(log.connection))


def test_a_rebuilt_table_with_other_columns_stops(log: Log) -> None:
    """Rows of other columns than at init, without the statement: as when the publisher starts behind it."""
    log.server.execute("ALTER TABLE t ADD COLUMN extra INT", database=DATABASE)
    try:
        with pytest.raises(
            StopError, match=r"other columns in the log \(id, v, extra\) than in its definition \(id, v\)"
        ):
            log.run("INSERT INTO t VALUES (1, 'a', 5)")
    finally:
        log.server.execute("ALTER TABLE t DROP COLUMN extra", database=DATABASE)


def test_the_start_position_waits_for_a_commit_in_flight(log: Log) -> None:
    """Invariant capture-before-copy: what was committed before the position is visible to a SELECT at it."""
    log.server.execute("INSERT INTO t VALUES (1, 'before')", database=DATABASE)
    start = log.start()
    rows = log.connection.query(f"SELECT id FROM {DATABASE}.t")
    log.server.execute("INSERT INTO t VALUES (2, 'after')", database=DATABASE)
    seen = log.read(start, log_end(log.connection))
    assert [str(row[0]) for row in rows] == ["1"]
    assert seen.keys == ["2"]


def test_another_replica_of_the_same_id_is_known_without_the_servers_words(
    mysql_box: Sandbox, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MySQL has one number for this and for a log that is gone."""
    if log.server is not mysql_box.source:
        pytest.skip("MariaDB has a number of its own for it")
    monkeypatch.setattr("migrate.publish.log.binlog.text", lambda _: "in no language")
    end = log_end(log.connection)
    first, second = (BinlogReader(log.source, 4711, 1.0, end.file, end.pos) for _ in range(2))
    with closing(first), closing(second):
        first.open()
        events = first.events()
        next(events)
        second.open()
        with pytest.raises(ServerError, match="another replica reads as 4711"):
            for _ in events:
                pass
