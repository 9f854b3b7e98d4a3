"""Which boundary a search by time chooses, judged on groups made by hand."""

from __future__ import annotations

import pytest

from migrate.publish.log.locate import Group, Search

END = ("b.000002", 900)
OLD, NEW = 11, 12


def search(
    times: list[int | tuple[int, int]],
    wanted: int = 100,
    own: int | None = None,
    known: int | None = None,
    latest: int | None = None,
) -> tuple[tuple[str, int], bool, int]:
    """Feed groups of (time, server id), 10 bytes each; returns the boundary, whether it is proven, groups looked at."""
    looked = Search(wanted, own, known, latest)
    count = 0
    for item in times:
        time, server = item if isinstance(item, tuple) else (item, OLD)
        looked.feed(Group("b.000001", count * 10, count * 10 + 10, server, time, time))
        count += 1
        if looked.over:
            break
    return looked.boundary(END), looked.proven, count


@pytest.mark.parametrize(
    ("times", "place"),
    [
        ([90, 95, 100, 105], 20),
        ([90, 99, 99, 101], 30),
        ([90, 100, 95, 105], 10),  # not monotonic: before the first one, whatever follows
        ([90, 105, 95, 95], 10),
    ],
)
def test_the_boundary_is_before_the_first_transaction_at_or_after_the_time(times: list[int], place: int) -> None:
    assert search(list(times)) == (("b.000001", place), True, place // 10 + 1)


def test_without_a_later_transaction_the_boundary_is_the_end_as_read_before() -> None:
    assert search([90, 95]) == (END, True, 2)


def test_a_first_transaction_at_the_time_is_no_early_enough_boundary() -> None:
    assert search([100, 105])[:2] == (("b.000001", 0), False)


def test_what_the_promoted_server_wrote_with_a_clock_behind_is_not_passed_over() -> None:
    """Its clock is behind: by time alone the end of the log would be chosen, and its writes be lost."""
    assert search([90, 95, (20, NEW), (21, NEW)], own=NEW)[:2] == (("b.000001", 20), True)
    assert search([90, 95, (20, NEW), (100, NEW)], own=NEW)[:2] == (("b.000001", 20), True)


def test_what_it_wrote_before_it_became_a_replica_does_not_hold_the_boundary_back() -> None:
    assert search([90, (50, NEW), 95, 100, 105], own=NEW)[:2] == (("b.000001", 30), True)


def test_its_own_transactions_prove_nothing_of_what_it_replicated() -> None:
    assert search([(80, NEW), (90, NEW), (100, NEW)], own=NEW)[1] is False


def test_it_looks_on_for_proof_that_the_new_server_has_more_than_we_had() -> None:
    assert search([90, 100, 110, 120, 130], own=NEW, known=110) == (("b.000001", 10), True, 4)


def test_statements_older_than_the_time_are_told_where_they_stand_behind_the_place() -> None:
    """A long ALTER is logged at its end with the time of its beginning."""
    looked = Search(100)
    for count, (time, statement) in enumerate(
        [(90, True), (95, False), (100, False), (50, True), (99, False), (101, True)]
    ):
        looked.feed(Group("b.000001", count * 10, count * 10 + 10, OLD, time, time, statement))
    assert looked.behind(looked.boundary(END)) == {50}


def test_a_time_that_is_not_yet_tells_nothing() -> None:
    """A session had dated a transaction a day ahead: the place was there, long before what was wanted, and the new
    server counted as having all that was published, though it lacked the newest."""
    times: list[int | tuple[int, int]] = [90, 86_500, 95, 100, 105]
    assert search(times, known=110, latest=200) == (("b.000001", 30), True, 5)
    looked = Search(100, NEW, 110, 200)
    for number, time in enumerate((90, 86_500, 95, 100, 105)):
        looked.feed(Group("b.000001", number * 10, number * 10 + 10, OLD, time, time))
    assert (looked.reached, looked.over) == (105, False)
