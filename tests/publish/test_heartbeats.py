"""Heartbeats say where a server is in its log, which may not be the file that is read by now. No server; costs 1 s."""

from __future__ import annotations

import pytest
from reader_support import Collected, reader

from migrate.publish.log import binlog
from migrate.publish.log.binlog import FLAG_ARTIFICIAL, Event
from migrate.publish.reader import TransactionReader

LEFT, ENTERED = b"binlog.000013", b"binlog.000014"


def heartbeat(file: bytes, end: int, version: int) -> Event:
    """As a server sends it; of version 2 with the position before the name, which comes in a field of its own."""
    if version == 1:
        return Event(0, binlog.HEARTBEAT, 1, 39, end, 0, file)
    fields = bytes([2, 3, 0xFC, *end.to_bytes(2, "little"), 1, len(file)]) + file + b"\0"
    return Event(0, binlog.HEARTBEAT_V2, 1, 50, end, 0, fields)


def rotate(file: bytes, end: int, flags: int = 0) -> Event:
    return Event(0 if flags else 1, binlog.ROTATE, 1, 44, end, flags, (4).to_bytes(8, "little") + file)


@pytest.fixture
def seen() -> Collected:
    return Collected()


@pytest.fixture
def entered(seen: Collected) -> TransactionReader:
    """The file that follows was named, and the server has not opened it yet."""
    follows = reader({}, {}, LEFT.decode(), seen, mariadb=True)
    follows.follow([Event(1, binlog.BINLOG_CHECKPOINT, 1, 40, 835, 0, b""), rotate(ENTERED, 879)])
    return follows


@pytest.mark.parametrize("version", [1, 2])
def test_one_of_the_file_before_is_no_place_in_the_next(
    entered: TransactionReader, seen: Collected, version: int
) -> None:
    """Lost: transactions up to 879 of the next file, where a position is stored then and a publisher starts from it."""
    entered.follow([heartbeat(LEFT, 879, version)] * 3)
    assert (seen.boundaries[-1], entered.idle) == ((ENTERED.decode(), 4), False)
    entered.follow(
        [
            rotate(ENTERED, 0, FLAG_ARTIFICIAL),
            Event(1, binlog.FORMAT_DESCRIPTION, 1, 252, 256, 0, b""),
            Event(1, binlog.GTID_LIST, 1, 43, 299, 0, b""),
        ]
    )
    assert seen.boundaries[-1] == (ENTERED.decode(), 299)


@pytest.mark.parametrize("version", [1, 2])
def test_one_of_the_file_itself_moves_the_place_and_says_when_there_is_nothing_more(
    entered: TransactionReader, seen: Collected, version: int
) -> None:
    entered.follow([heartbeat(ENTERED, 879, version)])
    assert (seen.boundaries[-1], entered.idle) == ((ENTERED.decode(), 879), False)
    entered.follow([heartbeat(ENTERED, 879, version)])
    assert entered.idle
