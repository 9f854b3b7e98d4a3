"""Going on from a stored position: by file or by GTID, without a gap and without sending again what is sent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from publishing import Publishing
from structlog.testing import capture_logs

from migrate.model.errors import StopError
from migrate.publish.log.gtid import parse
from sandbox.broker import KafkaBroker
from sandbox.settings import Flavour
from sandbox.stack import Sandbox


@pytest.fixture
def main(box: Sandbox, kafka: KafkaBroker) -> Iterator[Publishing]:
    made = Publishing(box.source, box.targets[0], kafka)
    with made.running():  # stores where it starts
        made.until(lambda: made.position is not None, "the first position")
    yield made
    made.close()


def executed(main: Publishing) -> str:
    """The source's own word on what it has logged."""
    sql = "SELECT @@gtid_binlog_pos" if main.source.flavour == "mariadb" else "SELECT @@gtid_executed"
    return str(main.source.query(sql)[0][0]).replace("\n", "")


def test_the_stored_set_is_what_the_source_has_logged(main: Publishing) -> None:
    main.sql("INSERT INTO t VALUES (1, 'a')", "CREATE TABLE other (id INT)", "INSERT INTO t VALUES (2, 'b')")
    main.publish(1, 2)
    assert main.position is not None
    flavour = main.source.flavour
    assert parse(main.position.gtid_set, flavour) == parse(executed(main), flavour)


def test_each_stored_position_is_logged_with_all_that_finds_its_place_again(main: Publishing) -> None:
    """By hand, on this server or on another one, where the state is lost."""
    with capture_logs() as logs:
        main.sql("INSERT INTO t VALUES (1, 'a')")
        main.publish(1)
    stored, told = main.position, [one for one in logs if one["event"] == "position saved"][-1]
    assert stored is not None
    assert stored.event_time is not None
    ((server_id,),) = main.source.query("SELECT @@server_id")
    assert told["address"] == f"{main.source.host}:{main.source.port}"
    assert told["server_id"] == server_id
    assert (told["source"], told["file"], told["pos"]) == ("main", *main.log_end())
    assert parse(told["gtid_set"], main.source.flavour) == parse(executed(main), main.source.flavour)
    assert told["event_time"] == f"{stored.event_time:%Y-%m-%dT%H:%M:%SZ}"


def test_what_was_sent_is_not_sent_again_and_coordinates_rise_over_restarts_and_files(main: Publishing) -> None:
    main.sql("INSERT INTO t VALUES (1, 'a')", "INSERT INTO t VALUES (2, 'b')")
    main.publish(1, 2)
    main.sql("INSERT INTO t VALUES (3, 'c')")
    main.publish(3)
    main.sql("FLUSH BINARY LOGS", "INSERT INTO t VALUES (4, 'd')", "FLUSH BINARY LOGS")
    main.publish(4)
    main.publish(4)  # nothing new
    main.sql("CREATE TABLE other (id INT)", "INSERT INTO other VALUES (1)", "INSERT INTO t VALUES (5, 'e')")
    main.publish(5)
    assert main.keys() == [1, 2, 3, 4, 5]
    assert main.coordinates() == sorted(set(main.coordinates()))


def test_a_position_by_file_is_resumed_by_file_and_goes_on_as_exactly(main: Publishing) -> None:
    main.sql("INSERT INTO t VALUES (1, 'a')")
    main.publish(1)
    assert main.position is not None
    main.store(replace(main.position, gtid_set=""))
    main.sql("INSERT INTO t VALUES (2, 'b')")
    main.publish(2)
    assert main.keys() == [1, 2]
    assert main.coordinates() == sorted(set(main.coordinates()))


def test_a_gap_in_the_set_is_filled_when_its_transaction_comes(main: Publishing, flavour: Flavour) -> None:
    """A replica that applies in parallel logs 8 behind 9 and 10; a resume between them must not skip 8."""
    if flavour != Flavour.MYSQL:
        pytest.skip("MariaDB has one sequence a domain")
    uuid = "11111111-2222-3333-4444-555555555555"

    def insert(number: int) -> None:
        main.sql(f"SET gtid_next = '{uuid}:{number}'", "BEGIN", f"INSERT INTO t VALUES ({number}, 'x')", "COMMIT")

    for number in (1, 2, 3, 4, 5, 6, 7, 9, 10):
        insert(number)
    main.publish(1, 2, 3, 4, 5, 6, 7, 9, 10)
    assert main.position is not None
    assert f"{uuid}:1-7:9-10" in main.position.gtid_set
    insert(8)
    insert(11)
    main.publish(8, 11)
    assert main.keys() == [1, 2, 3, 4, 5, 6, 7, 9, 10, 8, 11]
    assert f"{uuid}:1-11" in main.position.gtid_set
    assert main.coordinates() == sorted(set(main.coordinates()))


def test_tagged_transactions_are_followed(main: Publishing, flavour: Flavour) -> None:
    if flavour != Flavour.MYSQL:
        pytest.skip("MySQL only")
    main.sql("SET gtid_next = 'AUTOMATIC:a_tag'", "INSERT INTO t VALUES (1, 'a')")
    main.publish(1)
    main.sql("INSERT INTO t VALUES (2, 'b')", "SET gtid_next = 'AUTOMATIC:a_tag'", "INSERT INTO t VALUES (3, 'c')")
    main.publish(2, 3)
    assert main.keys() == [1, 2, 3]
    assert main.position is not None
    assert parse(main.position.gtid_set, "mysql") == parse(executed(main), "mysql")


def test_every_domain_is_followed(main: Publishing, flavour: Flavour) -> None:
    if flavour != Flavour.MARIADB:
        pytest.skip("MariaDB only")
    main.sql("SET gtid_domain_id = 7", "INSERT INTO t VALUES (1, 'a')")
    main.publish(1)
    main.sql("INSERT INTO t VALUES (2, 'b')", "SET gtid_domain_id = 7", "INSERT INTO t VALUES (3, 'c')")
    main.publish(2, 3)
    assert main.keys() == [1, 2, 3]
    assert main.position is not None
    assert parse(main.position.gtid_set, "mariadb") == parse(executed(main), "mariadb")


def test_a_transaction_below_the_position_that_the_set_lacks_stops(main: Publishing, flavour: Flavour) -> None:
    """Its coordinates lie below what is sent, so that it would be taken for a repeat and lost."""
    main.sql("INSERT INTO t VALUES (1, 'a')", "INSERT INTO t VALUES (2, 'b')")
    before = executed(main)
    main.sql("INSERT INTO t VALUES (3, 'c')")
    main.publish(1, 2, 3)
    assert main.position is not None
    main.store(replace(main.position, gtid_set=before))
    with pytest.raises(StopError, match="before the stored position"):
        main.publish(99)
