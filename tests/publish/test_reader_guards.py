"""Raw events that must not be in a log, between real ones: each stops the reader (invariant unknown-stops)."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from reader_support import DATABASE, Collected, Log

from migrate.kafka.producer import AcknowledgedLost
from migrate.model.errors import Code, LogPlace, StopError
from migrate.mysql.readable import BinlogPosition
from migrate.publish.log import binlog
from migrate.publish.log.binlog import Event
from sandbox.stack import Sandbox

_OPENS = (binlog.GTID, binlog.ANONYMOUS_GTID, binlog.MARIADB_GTID)


@pytest.fixture(scope="module")
def log(box: Sandbox) -> Iterator[Log]:
    made = Log(box.source)
    yield made
    made.connection.close()


@pytest.fixture
def two(log: Log) -> tuple[BinlogPosition, list[Event]]:
    """The events of two transactions of a row each."""
    log.server.execute("DELETE FROM t", database=DATABASE)
    return log.events("INSERT INTO t VALUES (1, 'a')", "INSERT INTO t VALUES (2, 'b')")


def place(events: list[Event], *kinds: int, last: bool = False) -> int:
    found = [at for at, event in enumerate(events) if event.type in kinds]
    return found[-1 if last else 0]


def stopped(log: Log, start: BinlogPosition, events: list[Event], at: Event, message: str) -> StopError:
    """Follow them; the reader must stop at `at`, and name its place."""
    with pytest.raises(StopError) as caught:
        log.reader(start, Collected()).follow(events)
    assert re.match(rf"source 'main' {re.escape(start.file)}:{at.end}: {message}", caught.value.message)
    return caught.value


@pytest.mark.parametrize(
    ("kind", "message", "hint"),
    [
        (binlog.INCIDENT, "an incident: the server lost events", "copy again under a new migration"),
        (binlog.EXECUTE_LOAD_QUERY, "LOAD DATA was logged as a statement", "binlog_format = 'ROW'"),
        (250, "event type 250 is not known", "this version of the program cannot read it"),
    ],
    ids=["incident", "load-data", "unknown"],
)
def test_an_event_that_loses_rows_or_is_not_known_stops(
    log: Log, two: tuple[BinlogPosition, list[Event]], kind: int, message: str, hint: str
) -> None:
    start, events = two
    at = place(events, binlog.XID)
    odd = events[at]._replace(type=kind, body=b"\0" * 32)
    assert hint in stopped(log, start, [*events[:at], odd, *events[at:]], odd, message).hint


def test_an_unknown_event_that_may_be_ignored_passes(log: Log, two: tuple[BinlogPosition, list[Event]]) -> None:
    start, events = two
    at = place(events, binlog.XID)
    odd = events[at]._replace(type=250, flags=events[at].flags | binlog.FLAG_IGNORABLE)
    seen = Collected()
    log.reader(start, seen).follow([*events[:at], odd, *events[at:]])
    assert len(seen.rows_) == 2


def test_rows_without_their_table_map_stop(log: Log, two: tuple[BinlogPosition, list[Event]]) -> None:
    start, events = two
    del events[place(events, binlog.TABLE_MAP, last=True)]
    rows = events[place(events, *binlog.ROWS, last=True)]
    number = int.from_bytes(rows.body[:6], "little")
    stopped(log, start, events, rows, f"rows of table id {number} without its TABLE_MAP")


def test_a_file_that_ends_inside_a_transaction_stops(log: Log, two: tuple[BinlogPosition, list[Event]]) -> None:
    start, events = two
    commit = events[place(events, binlog.XID)]
    name, number = start.file.rsplit(".", 1)
    following = f"{name}.{int(number) + 1:06}".encode()
    rotate = commit._replace(type=binlog.ROTATE, body=(4).to_bytes(8, "little") + following)
    stopped(log, start, [*events[: events.index(commit)], rotate], rotate, "the file ends inside a transaction")


def next_file(start: BinlogPosition, kind: int, *, started: bool) -> tuple[str, Event, Event]:
    """The name of the next file, and its first events; kind: of the one that names it. started: whether it is that of a
    start."""
    name, number = start.file.rsplit(".", 1)
    following = f"{name}.{int(number) + 1:06}"
    body = (4).to_bytes(8, "little") + following.encode()
    rotate = Event(0, kind, 0, 44, 0, binlog.FLAG_ARTIFICIAL, body)
    created = (1_700_000_000 if started else 0).to_bytes(4, "little")
    described = Event(1_700_000_000, binlog.FORMAT_DESCRIPTION, 1, 252, 256, 0, b"\0" * 52 + created + b"\0" * 100)
    return following, rotate, described


@pytest.mark.parametrize("started", [True, False])
def test_a_transaction_that_a_server_died_in_is_taken_back_where_the_next_file_is_a_starts(
    log: Log, two: tuple[BinlogPosition, list[Event]], *, started: bool
) -> None:
    """Lost: the migration: the publisher stopped for good. MySQL cuts such a transaction off itself."""
    start, events = two
    commit = events[place(events, binlog.XID)]
    following, rotate, described = next_file(start, binlog.ROTATE, started=started)
    torn = [*events[: events.index(commit)], rotate, described]
    if log.server.flavour == "mysql":
        stopped(log, start, torn, rotate, "the file ends inside a transaction")
    elif not started:
        told = f"source 'main' {following}:256: the file ends inside a transaction"
        with pytest.raises(StopError, match=re.escape(told)):
            log.reader(start, Collected()).follow(torn)
    else:
        seen = Collected()
        log.reader(start, seen).follow([*torn, *events[place(events, *_OPENS, last=True) :]])
        assert seen.keys == ["2"]
        assert seen.boundaries[0] == (following, 256), "none before the next file is known to be a start's"


@pytest.mark.parametrize("started", [True, False])
def test_what_a_torn_file_may_have_had_is_missed_only_where_the_next_one_is_a_starts(
    log: Log, two: tuple[BinlogPosition, list[Event]], *, started: bool
) -> None:
    """Lost: what stood behind a damaged event, between transactions, in a file that the server had ended itself."""
    start, events = two
    following, rotate, described = next_file(start, binlog.TORN, started=started)
    torn = [*events[: place(events, binlog.XID) + 1], rotate, described]
    seen = Collected()
    if log.server.flavour == "mariadb" and started:
        log.reader(start, seen).follow(torn)
        assert (seen.keys, seen.boundaries[-1]) == (["1"], (following, 256))
    else:
        with pytest.raises(StopError, match="the file ends inside a transaction"):
            log.reader(start, seen).follow(torn)
        assert seen.boundaries[-1][0] == start.file


def test_a_transaction_inside_another_one_stops(log: Log, two: tuple[BinlogPosition, list[Event]]) -> None:
    start, events = two
    del events[place(events, binlog.XID)]
    second = events[place(events, *_OPENS, last=True)]
    stopped(log, start, events, second, "a transaction begins inside another one")


def test_positions_that_fall_stop(log: Log, two: tuple[BinlogPosition, list[Event]]) -> None:
    """Above 4 GiB they begin again at 0: they have 32 bits."""
    start, events = two
    at = place(events, *_OPENS, last=True)
    end = events[at - 1].end
    fallen = [event._replace(end=event.end - end + 40) for event in events[at:]]
    message = f"positions fall below {end}; the file is above 4 GiB"
    assert "FLUSH BINARY LOGS" in stopped(log, start, [*events[:at], *fallen], fallen[0], message).hint


class Refusing(Collected):
    """A sink that takes no rows."""

    def __init__(self, why: StopError) -> None:
        super().__init__()
        self._why = why

    def rows(self, *_: object) -> None:
        raise self._why


def test_what_the_sink_raises_keeps_its_kind_and_gets_the_place(
    log: Log, two: tuple[BinlogPosition, list[Event]]
) -> None:
    """Lost: that Kafka lost messages, met while rows were given to it, was noted nowhere."""
    start, events = two
    rows = events[place(events, *binlog.ROWS)]
    lost = AcknowledgedLost("topic", 3, 7, 9, "publish again")
    with pytest.raises(
        AcknowledgedLost, match=rf"source 'main' {re.escape(start.file)}:{rows.end}: Kafka lost"
    ) as caught:
        log.reader(start, Refusing(lost)).follow(events)
    assert (caught.value.where, caught.value.hint) == (LogPlace("main", start.file, rows.end), "publish again")


def test_a_place_that_an_error_names_is_named_once(log: Log, two: tuple[BinlogPosition, list[Event]]) -> None:
    start, events = two
    named, there = "source 'main' sent what is not its own", LogPlace("main", "binlog.000001", 4)
    refusing = Refusing(StopError(named, code=Code.POSITION, where=there))
    with pytest.raises(StopError) as caught:
        log.reader(start, refusing).follow(events)
    assert (caught.value.message, caught.value.where) == (named, there)
    unplaced = Refusing(StopError(named, code=Code.POSITION))
    rows = events[place(events, *binlog.ROWS)]
    with pytest.raises(StopError) as caught:
        log.reader(start, unplaced).follow(events)
    assert caught.value.message == f"source 'main' {start.file}:{rows.end}: {named}"


def test_a_file_that_comes_before_the_one_that_is_read_stops(log: Log, two: tuple[BinlogPosition, list[Event]]) -> None:
    start, events = two
    rotate = events[-1]._replace(type=binlog.ROTATE, body=(4).to_bytes(8, "little") + b"binlog.000000")
    with pytest.raises(StopError) as caught:
        log.reader(start, Collected()).follow([*events, rotate])
    assert caught.value.message == f"source 'main': binlog.000000 follows {start.file}"
