"""Where a publisher begins: stored before configured before current; always at a boundary."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from publishing import Publishing

from migrate.model.errors import ServerError, StopError
from migrate.model.log_position import Place, parse_place
from migrate.mysql.connection import connect
from migrate.mysql.readable import BinlogPosition
from migrate.publish.configured_start import StartFinder
from migrate.publish.start_position import source_end
from sandbox.broker import KafkaBroker
from sandbox.settings import Flavour
from sandbox.stack import Sandbox

Find = Callable[[str], BinlogPosition]


@pytest.fixture
def main(box: Sandbox, kafka: KafkaBroker) -> Iterator[Publishing]:
    made = Publishing(box.source, box.targets[0], kafka)
    yield made
    made.close()


@pytest.fixture
def find(main: Publishing) -> Iterator[Find]:
    source = main.settings.sources[0]
    with closing(connect(source, "source 'main'")) as connection:
        yield lambda text: StartFinder(source, 4712, connection).find(parse_place(text))


def begin_at(main: Publishing, place: str) -> None:
    main.raw["sources"][0]["start"] = place


def groups(main: Publishing, file: str) -> list[tuple[int, int]]:
    """(begin, end) of each transaction that ends with a commit event, as the server itself shows it."""
    found, begin = [], 0
    for row in main.source.query(f"SHOW BINLOG EVENTS IN '{file}'"):
        if row[2] in ("Gtid", "Gtid_tagged_log_event"):
            begin = int(row[1])
        elif row[2] == "Xid":
            found.append((begin, int(row[4])))
    return found


def executed(main: Publishing) -> str:
    sql = "SELECT @@gtid_binlog_pos" if main.source.flavour == "mariadb" else "SELECT @@gtid_executed"
    return str(main.source.query(sql)[0][0]).replace("\n", "")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("binlog.000012:4711", Place(file="binlog.000012", pos=4711)),
        ("my-bin.1000000:4", Place(file="my-bin.1000000", pos=4)),
        ("0-1-5, 7-1-9", Place(gtid_set="0-1-5,7-1-9")),
        (
            "7925bfdf-e5fc-11f1-aea2-02fc00000001:1-7:9-10:tag:1",
            Place(gtid_set="7925bfdf-e5fc-11f1-aea2-02fc00000001:1-7:9-10:tag:1"),
        ),
        ("2026-01-31T12:00:00Z", Place(time=1769860800)),
        ("2026-01-31 14:00:00+02:00", Place(time=1769860800)),
    ],
)
def test_a_place_is_written_in_three_ways(text: str, place: Place) -> None:
    assert parse_place(text) == place


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "binlog.000012",
        "2026-01-31T12:00:00",
        "2026-01-31",
        "2026-10-10",  # and no GTID of domain 2026
        "2999-01-01T00:00:00Z",
        "binlog.000012:",
        "0-1",
    ],
)
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no place|needs its offset|in the future"):
        parse_place(text)


def test_a_place_inside_a_transaction_moves_back_to_its_beginning(main: Publishing, find: Find) -> None:
    main.sql("FLUSH BINARY LOGS", "INSERT INTO t VALUES (1, 'a')")
    between = executed(main)
    main.sql("BEGIN", "INSERT INTO t VALUES (2, 'b')", "INSERT INTO t VALUES (3, 'c')", "COMMIT")
    behind = executed(main)
    file, _ = main.log_end()
    (first, _), (begin, end) = groups(main, file)[-2:]
    assert [find(f"{file}:{pos}") for pos in (begin, begin + 1, (begin + end) // 2, end - 1)] == [
        BinlogPosition(file, begin, between)
    ] * 4
    assert find(f"{file}:{end}") == BinlogPosition(file, end, behind)
    assert find(f"{file}:{first + 5}").pos == first
    assert find(f"{file}:4").gtid_set == find(f"{file}:{first}").gtid_set != between


def test_a_gtid_set_leads_to_the_first_transaction_it_lacks(main: Publishing, find: Find) -> None:
    main.sql("INSERT INTO t VALUES (1, 'a')")
    between = executed(main)
    main.sql("FLUSH BINARY LOGS", "INSERT INTO t VALUES (2, 'b')", "INSERT INTO t VALUES (3, 'c')")
    file, end = main.log_end()
    assert find(between) == BinlogPosition(file, groups(main, file)[-2][0], between)
    behind = find(executed(main))
    assert (behind.file, behind.gtid_set) == (file, executed(main))
    assert end <= behind.pos <= main.log_end()[1]  # MariaDB notes checkpoints behind it


def test_what_the_log_does_not_have_is_named(main: Publishing, find: Find, flavour: Flavour) -> None:
    file, end = main.log_end()
    with pytest.raises(StopError, match=r"has no binlog\.999999, which binlog\.999999:4 is in; it has binlog\.0"):
        find("binlog.999999:4")
    with pytest.raises(StopError, match=f"{file} ends at {end}, before {end + 1}"):
        find(f"{file}:{end + 1}")
    ahead = "0-1-99999999" if flavour == Flavour.MARIADB else "11111111-2222-3333-4444-5555555555ff:1-3"
    with pytest.raises(StopError, match=ahead):
        find(ahead)


def test_the_configured_start_counts_until_a_position_is_stored(main: Publishing) -> None:
    main.sql("INSERT INTO t VALUES (1, 'a')")
    file, pos = main.log_end()
    main.sql("INSERT INTO t VALUES (2, 'b')", "INSERT INTO t VALUES (3, 'c')")
    begin_at(main, f"{file}:{pos}")
    main.publish(2, 3)
    begin_at(main, f"{file}:4")
    main.sql("INSERT INTO t VALUES (4, 'd')")
    main.publish(4)
    assert main.keys() == [2, 3, 4]


def test_without_a_configured_start_the_source_is_read_from_where_it_is(main: Publishing) -> None:
    main.sql("INSERT INTO t VALUES (1, 'a')")
    with main.running():
        main.until(lambda: main.position is not None, "the first position")
        main.sql("INSERT INTO t VALUES (2, 'b')")
        main.until(lambda: main.keys() == [2], "the row")


def test_a_gtid_set_that_the_server_has_not_reached_is_refused_as_that(main: Publishing, find: Find) -> None:
    """MariaDB's own words for it are those of a purged log; MySQL would wait."""
    have = executed(main)
    ahead = have.rpartition("-" if main.source.flavour == "mariadb" else ":")[0]
    wanted = f"{ahead}-999999999" if main.source.flavour == "mariadb" else f"{ahead}:1-999999999"
    with pytest.raises(StopError, match="does not have all of") as refused:
        find(wanted)
    assert have in refused.value.message
    assert refused.value.hint == "name a set that it has, or a file and position of its log"


def test_a_start_by_gtid_set(main: Publishing) -> None:
    main.sql("INSERT INTO t VALUES (1, 'a')")
    begin_at(main, executed(main))
    main.sql("FLUSH BINARY LOGS", "INSERT INTO t VALUES (2, 'b')")
    main.publish(2)
    assert main.keys() == [2]


def test_a_start_by_time(main: Publishing) -> None:
    main.sql("INSERT INTO t VALUES (1, 'a')")
    time.sleep(2.1)  # header timestamps are whole seconds
    wanted = int(time.time())
    main.sql("INSERT INTO t VALUES (2, 'b')")
    begin_at(main, datetime.fromtimestamp(wanted, UTC).isoformat())
    main.publish(2)
    assert main.keys() == [2]


def test_a_log_that_ends_before_what_was_published_is_another_one(main: Publishing) -> None:
    """Lost: rows of a log that was reset in a cutover counted as published, as the old position is behind its end."""
    main.publish()
    assert main.position is not None
    end = source_end(main.settings.sources[0])
    end.refuse_earlier("main", main.position)
    end.refuse_earlier("main", None)
    with pytest.raises(ServerError, match="it is another log now"):
        end.refuse_earlier("main", replace(main.position, file="binlog.999999"))
    end.refuse_earlier("main", replace(main.position, file="binlog.999999", server_id=7))


def test_a_start_ahead_of_the_log_stops(main: Publishing) -> None:
    file, pos = main.log_end()
    begin_at(main, f"{file}:{pos + 1000}")
    with pytest.raises(StopError, match="ends at"), main.running():
        pass
    assert main.position is None
