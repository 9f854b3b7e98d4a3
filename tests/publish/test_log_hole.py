"""A server wrote without its log for a while, or lost its end, and its log goes on as if nothing was."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pymysql
import pytest
from publishing import Publishing, equal, note_equal

from migrate.cutover import whole_logs
from migrate.cutover.left_server import LeftServer
from migrate.model.errors import PreflightError, ServerError, StopError
from migrate.mysql.server_start import started
from migrate.publish.log.binlog import BinlogReader
from migrate.target.stored_plan import stored_plan
from sandbox.broker import KafkaBroker
from sandbox.database import DatabaseServer
from sandbox.settings import Flavour
from sandbox.stack import Sandbox
from tests.helpers import session


@pytest.fixture(scope="module")
def own(flavour: Flavour, run_root: Path) -> Iterator[DatabaseServer]:
    """A source that may be restarted."""
    server = DatabaseServer(flavour, run_root / f"log-hole-{flavour}", server_id=78)
    server.start()
    yield server
    server.kill()


@pytest.fixture
def main(own: DatabaseServer, box: Sandbox, kafka: KafkaBroker) -> Iterator[Publishing]:
    """Of which all counts as equal, as after a verification."""
    made = Publishing(own, box.targets[0], kafka)
    made.sql("INSERT INTO t VALUES (1, 'a')")
    with made.running():
        made.until(lambda: made.position is not None, "the first position")
        made.sql("INSERT INTO t VALUES (2, 'a')")
        made.until_at_end()
    note_equal(made)
    yield made
    made.close()


def restarted(server: DatabaseServer, *statements: str, database: str, **options: str | bool | None) -> None:
    """With these options, under which the statements run."""
    before = dict(server.options)
    server.kill()
    server.options |= options
    try:
        server.start()
        server.execute(*statements, database=database)
    finally:
        server.options = before


def without_log(main: Publishing, *statements: str) -> None:
    """They run at the source while it has no log; with the log it is there again afterwards."""
    restarted(main.source, *statements, database=main.database, skip_log_bin=True)
    main.source.restart()


def cut_over(main: Publishing) -> None:
    """Its look at the logs of the side that is left."""
    plan = stored_plan(main.settings, main.state)
    with closing(LeftServer(main.settings.source("main"), "source")) as server:
        whole_logs.refuse_holes(main.state, main.name, plan, [server])


def test_a_source_that_wrote_without_its_log_is_to_be_verified(main: Publishing) -> None:
    """Lost: every write of an hour in which a server ran with skip-log-bin; its log went on, and the certificate of
    before counted at the switch."""
    main.publish(2)
    assert equal(main), "a publisher that starts again has seen the log"
    cut_over(main)
    without_log(main, "INSERT INTO t VALUES (3, 'in no log')")
    main.sql("INSERT INTO t VALUES (4, 'a')")
    main.publish(2, 4)
    assert not equal(main)
    note_equal(main)
    main.publish(2, 4)
    assert equal(main), "once for each restart"


def test_a_cutover_does_not_pass_a_restart_that_no_publisher_has_seen(main: Publishing) -> None:
    """Lost: what the server wrote without its log between a publisher's last look and the lock of the freeze."""
    cut_over(main)
    without_log(main, "INSERT INTO t VALUES (3, 'in no log')")
    with pytest.raises(PreflightError, match="source 'main' was restarted"):
        cut_over(main)
    assert not equal(main)
    note_equal(main)
    cut_over(main)
    restarted(main.source, database=main.database, binlog_ignore_db=main.database)
    with pytest.raises(PreflightError, match="binlog_ignore_db keeps changes of"):
        cut_over(main)
    assert not equal(main)
    main.source.restart()


def test_a_log_that_leaves_a_database_out_since_a_restart_stops_the_publisher(main: Publishing) -> None:
    """Lost: all writes since binlog_ignore_db was set with a restart; preflight alone had looked, and a verification
    after the restart was clean."""
    restarted(
        main.source, "INSERT INTO t VALUES (3, 'in no log')", database=main.database, binlog_ignore_db=main.database
    )
    with pytest.raises(StopError, match=f"binlog_ignore_db keeps changes of {main.database} out") as stopped:
        main.publish(3)
    assert "`migrate verify`, all tables" in stopped.value.hint
    assert not equal(main)
    main.source.restart()


def test_a_server_without_a_log_stops_the_publisher(main: Publishing) -> None:
    """Lost: everything from when the next file could not be made: writes go on, `log_bin` reads ON, and the server
    shows no end of a log; the way out that was named was a restart, after which the log went on."""
    restarted(main.source, "INSERT INTO t VALUES (3, 'in no log')", database=main.database, skip_log_bin=True)
    with pytest.raises(StopError, match="writes no binlog") as stopped:
        main.publish(3)
    assert "`migrate verify`, all tables" in stopped.value.hint
    assert not equal(main)
    main.source.restart()
    note_equal(main)
    main.publish(2)
    assert not equal(main)


def test_a_restart_between_a_publishers_look_and_its_reading_ends_it(main: Publishing) -> None:
    """Lost: what was written without a log while a publisher waited to read again, as after Kafka refused a message."""
    position, source = main.position, main.settings.source("main")
    assert position is not None
    with session(main.source) as connection:
        since = started(connection)
        assert since == started(connection)
    place = (source, position.replica_id, 1.0, position.file, position.pos)
    with closing(BinlogReader(*place, since=since)) as reader:
        reader.open()
    main.source.restart()
    with closing(BinlogReader(*place, since=since)) as reader, pytest.raises(ServerError, match="was restarted"):
        reader.open()


@pytest.mark.parametrize("publish_rows", [100, 1])
def test_a_transaction_that_the_server_died_in_is_no_end(
    publish_rows: int, own: DatabaseServer, box: Sandbox, kafka: KafkaBroker
) -> None:
    """Lost: the migration, or the way back: MariaDB leaves the beginning of such a transaction in its log, at which the
    publisher stopped for good. publish_rows: from which on a transaction is published in pieces. Costs 13 s."""
    if own.flavour == "mysql" and publish_rows == 1:
        pytest.skip("MySQL cuts the transaction off: nothing of it is read")
    with closing(Publishing(own, box.targets[0], kafka, transaction_rows=publish_rows)) as made:
        with made.running():
            made.until(lambda: made.position is not None, "the first position")
        note_equal(made)
        made.sql("INSERT INTO t VALUES (1, 'a')")  # so that the file is read, by GTID too
        died_in_a_commit(made)
        made.sql("INSERT INTO t VALUES (2, 'b')")
        made.publish(1, 2)
        assert not equal(made), "as after each restart"


def died_in_a_commit(main: Publishing) -> None:
    """Of 24 MB, of which the log has some and not all."""
    server = main.source
    file, before = main.log_end()
    path = server.data / file
    connection = server.connect(main.database, autocommit=False)
    with connection.cursor() as cursor:
        for first in range(10, 400_000, 20_000):
            rows = ", ".join(f"({key}, REPEAT('x', 50))" for key in range(first, first + 20_000))
            cursor.execute(f"INSERT INTO t VALUES {rows}")

    def commit() -> None:
        with suppress(pymysql.MySQLError):
            connection.commit()

    committing = threading.Thread(target=commit)
    committing.start()
    while path.stat().st_size < before + 2_000_000:
        pass
    server.kill()
    committing.join()
    server.start()
    assert server.query("SELECT COUNT(*) FROM t WHERE id > 9", database=main.database) == ((0,),), "it was committed"
