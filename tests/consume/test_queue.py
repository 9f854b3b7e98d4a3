"""The swap queue: nothing lost, nothing twice, order kept, bounded by bytes."""

from __future__ import annotations

import threading

from migrate.consume.queue import SwapQueue
from migrate.model.message import Message, Received
from migrate.model.partition import Partition

MESSAGE = Message("d", "t", "INSERT", (), "s", 1, 1, 1, ())


def items(*offsets: int, size: int = 10, partition: int = 0) -> list[Received]:
    return [Received(Partition("m", "t", partition), offset, size, MESSAGE) for offset in offsets]


def test_a_swap_takes_everything_in_order_and_leaves_nothing() -> None:
    queue = SwapQueue(1000)
    queue.put(items(1, 2))
    queue.put(items(3))
    assert [item.offset for item in queue.swap()] == [1, 2, 3]
    assert queue.swap() == []


def test_it_is_full_until_enough_was_merged_not_merely_swapped() -> None:
    queue = SwapQueue(30)
    queue.put(items(1, 2))
    assert not queue.full
    queue.put(items(3))
    assert queue.full
    taken = queue.swap()
    assert queue.full
    queue.put(items(4))
    queue.done(taken)
    assert not queue.full
    queue.put(items(5, size=20))
    assert queue.full


def test_writers_and_a_merger_at_once_lose_and_double_nothing() -> None:
    queue = SwapQueue(10**9)
    taken: list[Received] = []

    def write(start: int) -> None:
        for number in range(2000):
            queue.put(items(start + number))

    writers = [threading.Thread(target=write, args=(start,)) for start in (0, 10_000, 20_000)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        taken += queue.swap()
    taken += queue.swap()
    offsets = [item.offset for item in taken]
    assert sorted(offsets) == [start + n for start in (0, 10_000, 20_000) for n in range(2000)]
    for start in (0, 10_000, 20_000):
        mine = [offset for offset in offsets if start <= offset < start + 2000]
        assert mine == sorted(mine)


def test_what_waits_of_a_partition_is_dropped_and_its_bytes_are_free() -> None:
    queue = SwapQueue(40)
    queue.put(items(1, 2))
    queue.put(items(7, 8, partition=1))
    assert queue.full
    queue.drop(Partition("m", "t", 0))
    assert not queue.full
    assert [item.offset for item in queue.swap()] == [7, 8]
