"""Packets off a socket: cut anywhere, longer than one packet, out of turn; and the checksum of what is in them."""

from __future__ import annotations

import itertools
import socket
import threading
import zlib
from collections.abc import Iterator
from typing import Any

import pymysql
import pytest

from migrate.model.errors import ServerError, StopError
from migrate.publish.log import binlog
from migrate.publish.log.binlog import BinlogReader, Event
from migrate.publish.log.packets import packets, patient
from migrate.settings import Source

FULL = 0xFFFFFF


def wire(*messages: bytes, sequence: int = 1) -> bytes:
    """Messages as a server sends them."""
    numbers = itertools.count(sequence)
    sent = bytearray()
    for message in messages:
        for start in range(0, len(message) + 1, FULL):
            part = message[start : start + FULL]
            sent += len(part).to_bytes(3, "little") + bytes([next(numbers) & 0xFF]) + part
            if len(part) < FULL:
                break
    return bytes(sent)


def received(data: bytes, step: int, count: int, *, sequence: int = 1) -> list[bytes]:
    """The first messages that are read when the sender writes `step` bytes at a time and then hangs up."""
    ours, theirs = socket.socketpair()

    def send() -> None:
        with theirs:
            for start in range(0, len(data), step):
                theirs.sendall(data[start : start + step])

    with ours:
        ours.settimeout(20)
        sender = threading.Thread(target=send)
        sender.start()
        try:
            reads = packets(ours, sequence, patient)
            return list(itertools.islice(itertools.chain.from_iterable(reads), count))
        finally:
            ours.close()
            sender.join()


@pytest.mark.parametrize("step", [1, 2, 3, 4, 5, 7, 1000])
def test_messages_come_whole_wherever_the_stream_is_cut(step: int) -> None:
    messages = [b"\0" + bytes([number % 251]) * size for number, size in enumerate([0, 1, 30, 255, 256, 3000, 2])]
    assert received(wire(*messages), step, len(messages)) == messages


def test_sequence_numbers_begin_again_after_255() -> None:
    messages = [b"\0" + str(number).encode() for number in range(600)]
    assert received(wire(*messages, sequence=200), 4096, 600, sequence=200) == messages


@pytest.mark.parametrize("size", [FULL - 1, FULL, FULL + 1, 2 * FULL, 2 * FULL + 5])
def test_a_message_longer_than_a_packet_is_put_together(size: int) -> None:
    messages = [b"\0first", bytes(size - 3) + b"end", b"\0last"]
    assert received(wire(*messages), 1 << 20, 3) == messages


def test_a_missing_packet_is_noticed() -> None:
    with pytest.raises(pymysql.OperationalError, match="packet 2 was expected, 7 came"):
        received(wire(b"\0one") + wire(b"\0two", sequence=7), 1000, 2)


@pytest.mark.parametrize("left", [0, 3, 4, 20])
def test_a_connection_that_ends_is_an_error_and_no_short_message(left: int) -> None:
    first = wire(b"\0one")
    with pytest.raises(pymysql.OperationalError, match="Lost connection"):
        received(first + wire(b"\0" + b"x" * 50, sequence=2)[:left], 1000, 2)


def test_a_silent_connection_ends_after_its_time_out() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(0.05)
        with pytest.raises(pymysql.OperationalError, match="timed out"):
            next(packets(ours, 1, patient))


def test_a_pause_comes_again_after_the_seconds_that_it_asked_for_until_it_ends_the_reading() -> None:
    """Also in the middle of a message, of which nothing is lost; and the time-out counts over all of them."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(20)
        message = b"\0" + bytes(70_000)
        sent = wire(message, b"\0last")
        waits = iter([0.01] * 3 + [20.0] + [0.01] * 2 + [20.0, 0.01, 0.0])
        calls: list[int] = []

        def pause() -> float:
            calls.append(len(calls))
            if len(calls) == 4:
                theirs.sendall(sent[:40_000])
            if len(calls) == 7:
                theirs.sendall(sent[40_000:])
            return next(waits)

        assert list(itertools.chain.from_iterable(packets(ours, 1, pause))) == [message, b"\0last"]
        assert len(calls) == 9
        ours.settimeout(0.2)
        with pytest.raises(pymysql.OperationalError, match="timed out"):
            next(packets(ours, 1, lambda: 0.05))


# -- events


def event(timestamp: int, kind: int, server: int, _size: int, end: int, flags: int, body: bytes = b"") -> bytes:
    """A packet with an event and its checksum."""
    size = 19 + len(body) + 4
    raw = binlog._HEADER.pack(timestamp, kind, server, size, end, flags) + body
    return b"\0" + raw + zlib.crc32(raw).to_bytes(4, "little")


@pytest.fixture
def line() -> Iterator[tuple[BinlogReader, socket.socket]]:
    """A reader in the middle of a file with checksums, and the server's end of its connection."""
    ours, theirs = socket.socketpair()
    source = Source(name="main", host="127.0.0.1", user="u", password="not-a-sample")
    reader = BinlogReader(source, 1, 1.0, "binlog.000001", 4)
    connection: Any = type("Connection", (), {"_sock": ours, "_read_timeout": 5, "_next_seq_id": 1})
    reader._stream._stream_connection = connection
    reader._checksum = True
    with ours, theirs:
        yield reader, theirs


def test_an_event_comes_out_without_header_and_checksum(line: tuple[BinlogReader, socket.socket]) -> None:
    reader, server = line
    server.sendall(wire(event(7, binlog.XID, 3, 0, 1000, 0, b"12345678")))
    assert next(reader.events()) == Event(7, binlog.XID, 3, 31, 1000, 0, b"12345678")


@pytest.mark.parametrize("at", [1, 5, 19, 20, 24, 27, 28, 31])
def test_any_changed_byte_of_an_event_stops(line: tuple[BinlogReader, socket.socket], at: int) -> None:
    reader, server = line
    damaged = bytearray(event(7, binlog.XID, 3, 0, 1000, 0, b"12345678"))
    damaged[at] ^= 0x10
    server.sendall(wire(bytes(damaged)))
    with pytest.raises(StopError, match="wrong checksum"):
        next(reader.events())


def test_what_comes_before_a_damaged_event_comes_out(line: tuple[BinlogReader, socket.socket]) -> None:
    reader, server = line
    good = [event(7, binlog.XID, 3, 0, end, 0, b"12345678") for end in (1000, 1031)]
    server.sendall(wire(*good, good[0][:-1] + b"x"))
    reads = reader.reads(patient)
    assert [one.end for one in next(reads)] == [1000, 1031]
    with pytest.raises(StopError, match="wrong checksum"):
        next(reads)


def test_an_error_packet_says_what_the_server_said(line: tuple[BinlogReader, socket.socket]) -> None:
    reader, server = line
    server.sendall(wire(b"\xff\xd4\x04#HY000Could not find first log file name in binary log index file"))
    with pytest.raises(StopError, match=r"cannot send the binlog from the stored position.*: Could not find first log"):
        next(reader.events())


def test_the_end_of_the_stream_is_a_server_error(line: tuple[BinlogReader, socket.socket]) -> None:
    reader, server = line
    server.sendall(wire(b"\xfe\0\0\2\0"))
    with pytest.raises(ServerError, match="ended the binlog stream"):
        next(reader.events())


def test_a_cut_connection_is_a_server_error(line: tuple[BinlogReader, socket.socket]) -> None:
    reader, server = line
    server.close()
    with pytest.raises(ServerError, match="the server does not answer"):
        next(reader.events())
