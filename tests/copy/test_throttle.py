"""How many chunks are begun, by load and limits."""

from __future__ import annotations

from math import inf

import pytest
from typer.main import get_command

from migrate.cli.main import build
from migrate.copy.throttle import Decision, Limits, LoadReading, Pace, RowDebt, Signal, decide, higher, most_rows

LIMITS = Limits(8, 2, max_threads_running=50, max_history_length=1000, max_replica_lag_seconds=10)


def threads(value: float | None) -> LoadReading:
    return LoadReading("target 't0'", Signal.THREADS, value)


def lag(value: float) -> LoadReading:
    return LoadReading("replica r:3306", Signal.LAG, value, "replication is stopped" if value == inf else "")


@pytest.mark.parametrize(
    ("before", "load", "chunks", "pace"),
    [
        (8, [], 8, Pace.FULL),
        (8, [threads(1)], 8, Pace.FULL),
        (8, [threads(50)], 8, Pace.FULL),  # at the limit, not above it
        (8, [threads(51)], 4, Pace.SLOWED),
        (4, [threads(51)], 2, Pace.SLOWED),
        (2, [threads(51)], 2, Pace.SLOWED),  # not below the least
        (2, [threads(99)], 2, Pace.SLOWED),
        (2, [threads(100)], 0, Pace.HELD),
        (8, [threads(100)], 0, Pace.HELD),
        (0, [threads(99)], 2, Pace.SLOWED),  # out of the hold at the least
        (0, [threads(1)], 2, Pace.SLOWED),
        (2, [threads(46)], 2, Pace.SLOWED),  # near the limit it stays
        (2, [threads(45)], 4, Pace.SLOWED),
        (4, [threads(45)], 8, Pace.FULL),
        (8, [threads(1), lag(11)], 4, Pace.SLOWED),  # the worst one counts
        (8, [lag(11), threads(1)], 4, Pace.SLOWED),
        (8, [lag(inf)], 0, Pace.HELD),
        (8, [threads(None)], 8, Pace.FULL),  # not known
        (8, [threads(None), lag(11)], 4, Pace.SLOWED),
        (16, [threads(1)], 8, Pace.FULL),  # the most was lowered meanwhile
        (4, [threads(1)], 8, Pace.FULL),  # or raised
    ],
)
def test_chunks_by_load(before: int, load: list[LoadReading], chunks: int, pace: Pace) -> None:
    found = decide(before, LIMITS, load)
    assert (found.chunks, found.pace) == (chunks, pace)
    assert bool(found.reason) == (pace is not Pace.FULL)


def test_a_limit_of_zero_is_none() -> None:
    assert decide(4, Limits(4), [threads(10_000), lag(inf)]) == Decision(4, Pace.FULL)


def test_paused_goes_before_any_load() -> None:
    found = decide(4, Limits(4, paused=True, max_threads_running=1), [threads(1000)])
    assert (found.chunks, found.pace) == (0, Pace.PAUSED)


def test_one_chunk_that_is_both_least_and_most_is_slowed_above_a_limit() -> None:
    found = decide(1, Limits(1, max_threads_running=10), [threads(15)])
    assert (found.chunks, found.pace) == (1, Pace.SLOWED)


def test_the_reason_names_server_signal_value_and_limit() -> None:
    assert decide(8, LIMITS, [threads(51)]).reason == "target 't0': 51 threads running, limit 50"


def test_what_holds_a_copy_names_the_option_that_changes_the_limit() -> None:
    way = "`migrate throttle --max-threads-running N` sets another"
    assert decide(8, LIMITS, [threads(100)]).reason == f"target 't0': 100 threads running, limit 50; {way}"
    way = "`migrate throttle --max-replica-lag-seconds 0` has it count no more"
    assert decide(8, LIMITS, [lag(inf)]).reason == f"replica r:3306: replication is stopped, limit 10; {way}"
    command = get_command(build()).commands["throttle"]  # type: ignore[attr-defined]
    options = {option for parameter in command.params for option in parameter.opts}
    assert {signal.option for signal in Signal} <= options


def test_the_highest_reading_of_each_server_and_signal_is_kept() -> None:
    before = [threads(5), lag(3)]
    assert higher(before, [threads(4), lag(9)]) == [threads(5), lag(9)]
    assert higher([threads(None)], [threads(4)]) == [threads(4)]
    assert higher([threads(4)], [threads(None)]) == [threads(4)]
    assert higher([], [threads(4)]) == [threads(4)]


def test_rows_above_the_rate_are_waited_for() -> None:
    owed = RowDebt(100.0)
    assert owed.seconds(1000, 100.0) == 0
    owed.note(5000)
    assert owed.seconds(1000, 100.0) == 5.0
    assert owed.seconds(1000, 102.0) == 3.0
    assert owed.seconds(3000, 102.0) == 1.0  # a higher rate counts from now on
    owed.note(3000)
    assert owed.seconds(3000, 102.5) == 1.5
    assert owed.seconds(0, 102.5) == 0  # no rate: nothing is owed, then neither
    assert owed.seconds(1000, 102.5) == 0


def test_time_without_rows_is_not_saved_up() -> None:
    owed = RowDebt(0.0)
    assert owed.seconds(1000, 1000.0) == 0
    owed.note(2000)
    assert owed.seconds(1000, 1000.0) == 2.0


def test_chunks_are_small_where_rows_are_counted_by_the_second() -> None:
    assert most_rows(Limits(4), 4) is None
    assert most_rows(Limits(4, rows_per_second=10_000), 4) == 12_500
    assert most_rows(Limits(4, rows_per_second=1), 4) == 100
    assert most_rows(Limits(4, rows_per_second=1000), 0) == 5000
