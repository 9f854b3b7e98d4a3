"""A log that does not go on from the stored position stops the publisher, which names the position."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest
from publishing import Publishing

from migrate.kafka.producer import DeliveryFailed
from migrate.model.errors import MigrateError, StopError
from sandbox.broker import KafkaBroker
from sandbox.database import DatabaseServer
from sandbox.settings import Flavour
from sandbox.stack import Sandbox

SCHEMES = pytest.mark.parametrize("scheme", ["gtid", "file"])


@pytest.fixture(scope="module")
def own(flavour: Flavour, run_root: Path) -> Iterator[DatabaseServer]:
    """A source whose log may be thrown away."""
    server = DatabaseServer(flavour, run_root / f"logfiles-{flavour}", server_id=77)
    server.start()
    yield server
    server.kill()


@pytest.fixture
def main(own: DatabaseServer, box: Sandbox, kafka: KafkaBroker) -> Iterator[Publishing]:
    made = Publishing(own, box.targets[0], kafka)
    yield made
    made.close()


def reset(server: DatabaseServer) -> None:
    time.sleep(1.1)  # files are told apart by whole seconds
    server.execute("RESET MASTER" if server.flavour == "mariadb" else "RESET BINARY LOGS AND GTIDS")


def published(main: Publishing, scheme: str, *statements: str) -> str:
    """Publish these, leave the position in the scheme, and say where it is."""
    with main.running():
        main.until(lambda: main.position is not None, "the first position")
        main.sql(*statements)
        main.until_at_end()
    assert main.position is not None
    if scheme == "file":
        main.store(replace(main.position, gtid_set=""))
    return f"{main.position.file}:{main.position.pos}"


@SCHEMES
def test_a_purged_log_is_not_jumped_over(main: Publishing, scheme: str) -> None:
    place = published(main, scheme, "INSERT INTO t VALUES (1, 'a')")
    main.sql("INSERT INTO t VALUES (2, 'b')", "FLUSH BINARY LOGS", "INSERT INTO t VALUES (3, 'c')", "FLUSH BINARY LOGS")
    last = main.log_end()[0]

    def purged() -> bool:
        """MariaDB keeps a file while a dump that ended is not quite gone."""
        main.sql(f"PURGE BINARY LOGS TO '{last}'")
        return [row[0] for row in main.source.query("SHOW BINARY LOGS")] == [last]

    main.until(purged, "the log to be purged")
    with pytest.raises(StopError, match=f"stored position {re.escape(place)}"):
        main.publish(3)
    assert main.keys() == [1]


@SCHEMES
def test_a_log_that_was_reset_is_not_taken_for_the_old_one(main: Publishing, own: DatabaseServer, scheme: str) -> None:
    """The same changes again: every file name, position and (on MySQL) GTID fits, and stands for something else."""
    reset(own)
    main.sql("CREATE TABLE filler (id INT)", "DROP TABLE filler")
    place = published(main, scheme, "INSERT INTO t VALUES (1, 'a')")
    reset(own)
    main.sql("CREATE TABLE filler (id INT)", "DROP TABLE filler", "INSERT INTO t VALUES (2, 'b')")
    main.sql("INSERT INTO t VALUES (3, 'c')")
    with pytest.raises(StopError, match=f"stored position {re.escape(place)}.*RESET MASTER"):
        main.publish(3)
    assert main.keys() == [1]


def test_a_log_that_was_reset_behind_an_idle_first_start_is_not_taken_for_the_old_one(
    main: Publishing, own: DatabaseServer
) -> None:
    """Lost: as many transactions of the new log as the old one had had by then: an idle source leaves the first
    position as it was taken, and when its file was begun was not known of that."""
    reset(own)
    main.sql("CREATE TABLE filler (id INT)", "DROP TABLE filler")
    place = published(main, "gtid")
    reset(own)
    main.sql("CREATE TABLE filler (id INT)", *(f"INSERT INTO t VALUES ({key}, 'a')" for key in range(1, 12)))
    with pytest.raises(StopError, match=f"stored position {re.escape(place)}.*RESET MASTER"):
        main.publish(11)
    assert main.keys() == []


def test_a_log_that_is_reset_while_kafka_is_away_is_not_taken_for_the_old_one(
    box: Sandbox, own: DatabaseServer, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lost: what the new log had first: a publisher that goes back to the source after a time without Kafka looked at
    the server alone, and not at its log."""
    main, failed = Publishing(own, box.targets[0], kafka), list[str]()
    with closing(main):
        with pytest.raises(StopError, match="RESET MASTER"), main.running() as publisher:  # noqa: PT012 - until it stops
            main.until(lambda: main.position is not None, "the first position")
            main.sql("INSERT INTO t VALUES (1, 'a')")
            main.until_at_end()

            poll = publisher._producer.poll

            def fails(seconds: float = 0.0) -> None:
                if not failed:
                    failed.append("once")
                    reset(own)
                    main.sql(*(f"INSERT INTO t VALUES ({key}, 'b')" for key in range(2, 20)))
                    raise DeliveryFailed("Kafka does not answer")
                poll(seconds)

            monkeypatch.setattr(publisher._producer, "poll", fails)
            main.until(lambda: False, "it to stop")
        assert main.keys() == [1]


@SCHEMES
def test_after_a_reset_a_later_file_is_missed(main: Publishing, own: DatabaseServer, scheme: str) -> None:
    place = published(main, scheme, "INSERT INTO t VALUES (1, 'a')", "FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
    reset(own)
    with pytest.raises(StopError, match=f"stored position {re.escape(place)}.*RESET MASTER"):
        main.publish(3)


def test_a_reset_under_a_running_publisher_stops_it(main: Publishing, own: DatabaseServer) -> None:
    """It may first see a broken connection; the supervisor's next start then sees the rest."""
    with pytest.raises(MigrateError), main.running():  # noqa: PT012 - it runs on until the log is gone
        main.until(lambda: main.position is not None, "the first position")
        main.sql("INSERT INTO t VALUES (1, 'a')", "FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
        main.until_at_end()
        reset(own)
        main.sql("INSERT INTO t VALUES (2, 'b')")
        main.until(lambda: False, "it to stop")
    with pytest.raises(StopError, match="RESET MASTER"):
        main.publish(2)
    assert main.keys() == [1]


def test_the_end_of_a_log_that_is_lost_is_noticed(main: Publishing) -> None:
    published(main, "file", "INSERT INTO t VALUES (1, 'a')")
    assert main.position is not None
    main.store(replace(main.position, pos=main.position.pos + 5000, gtid_set=""))
    with pytest.raises(StopError, match="lost the end of its log"):
        main.publish(2)


@SCHEMES
def test_files_are_followed_past_number_999999(main: Publishing, own: DatabaseServer, scheme: str) -> None:
    reset(own)
    own.stop()
    index = own.data / "binlog.index"
    old = index.read_text().split()[-1]
    (own.data / old).rename(own.data / "binlog.999998")
    index.write_text("./binlog.999998\n")
    own.start()  # begins binlog.999999
    published(main, scheme, "INSERT INTO t VALUES (1, 'a')", "FLUSH BINARY LOGS", "INSERT INTO t VALUES (2, 'b')")
    main.sql("INSERT INTO t VALUES (3, 'c')", "FLUSH BINARY LOGS", "INSERT INTO t VALUES (4, 'd')")
    main.publish(3, 4)
    assert main.keys() == [1, 2, 3, 4]
    assert [file for _, file, _, _ in main.coordinates()] == [999999, 1000000, 1000000, 1000001]
    reset(own)


def test_logs_flushed_in_a_loop_are_followed(main: Publishing, own: DatabaseServer) -> None:
    def flush() -> None:
        for _ in range(60):
            own.execute("FLUSH BINARY LOGS")

    with main.running():
        main.until(lambda: main.position is not None, "the first position")
        flushing = Thread(target=flush)
        flushing.start()
        for key in range(1, 101):
            main.sql(f"INSERT INTO t VALUES ({key}, 'x')")
        flushing.join()
        main.until_at_end()
    assert main.keys() == list(range(1, 101))
    assert main.coordinates() == sorted(set(main.coordinates()))
    main.sql("INSERT INTO t VALUES (101, 'x')")
    main.publish(101)
    assert main.keys() == list(range(1, 102))
