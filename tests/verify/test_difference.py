"""The verdict on one key, as a table."""

from __future__ import annotations

import pytest

from migrate.verify.difference import Kind, Verdict, follows, judge
from migrate.verify.lookup import Seen
from migrate.verify.repair import mendable, way_out

HOME = (1, "d")


@pytest.mark.parametrize(
    ("source", "targets", "verdict"),
    [
        (None, {}, None),
        (HOME, {1: "d"}, None),
        (HOME, {}, Verdict(Kind.MISSING, 1)),
        (None, {2: "d"}, Verdict(Kind.EXTRA, None, (2,))),
        (None, {3: "d", 2: "e"}, Verdict(Kind.EXTRA, None, (2, 3))),
        (HOME, {1: "x"}, Verdict(Kind.DIFFERENT, 1)),
        (HOME, {2: "d"}, Verdict(Kind.MISPLACED, 1, (2,))),
        (HOME, {2: "x"}, Verdict(Kind.MISPLACED, 1, (2,))),
        (HOME, {1: "d", 0: "d"}, Verdict(Kind.DUPLICATED, 1, (0,))),
        (HOME, {1: "d", 0: "x", 5: "y"}, Verdict(Kind.DUPLICATED, 1, (0, 5))),
        (HOME, {1: "x", 2: "d"}, Verdict(Kind.DIFFERENT, 1, (2,))),
    ],
)
def test_verdict(source: tuple[int, str] | None, targets: dict[int, str], verdict: Verdict | None) -> None:
    assert judge(Seen(source, targets)) == verdict


ROW = (0, "d")
NODES = {"s/a.t": "d", "s/b.t": "d"}


@pytest.mark.parametrize(
    ("source", "targets", "verdict"),
    [
        (None, {}, None),
        (ROW, {0: "d", 1: "d"}, None),
        (ROW, {0: "d"}, Verdict(Kind.MISSING, 0, lacking=(1,))),
        (ROW, {}, Verdict(Kind.MISSING, 0, lacking=(0, 1))),
        (ROW, {0: "d", 1: "x"}, Verdict(Kind.DIFFERENT, 0, differing=(1,))),
        (ROW, {1: "x"}, Verdict(Kind.DIFFERENT, 0, lacking=(0,), differing=(1,))),
        (None, {1: "d"}, Verdict(Kind.EXTRA, None, (1,))),
    ],
)
def test_verdict_on_a_row_that_is_to_be_at_every_node(
    source: tuple[int, str] | None, targets: dict[int, str], verdict: Verdict | None
) -> None:
    assert judge(Seen(source, targets, nodes=2)) == verdict
    assert verdict is None or mendable({("1",): verdict}) == [("1",)]


@pytest.mark.parametrize(
    ("source", "mirrors", "verdict"),
    [
        (ROW, NODES, None),
        (ROW, {**NODES, "s/b.t": "x"}, Verdict(Kind.DIFFERENT, 0, mirrors=("s/b.t",))),
        (ROW, {**NODES, "s/a.t": None}, Verdict(Kind.MISSING, 0, mirrors=("s/a.t",))),
        (ROW, {"s/a.t": None, "s/b.t": "x"}, Verdict(Kind.DIFFERENT, 0, mirrors=("s/a.t", "s/b.t"))),
        (None, dict.fromkeys(NODES), None),
        (None, {**NODES, "s/b.t": None}, Verdict(Kind.EXTRA, None, mirrors=("s/a.t",))),
    ],
)
def test_verdict_on_a_row_that_is_read_at_several_nodes(
    source: tuple[int, str] | None, mirrors: dict[str, str | None], verdict: Verdict | None
) -> None:
    """The first node and the target agree: a person gives the others the same row."""
    targets = {} if source is None else {0: "d"}
    assert judge(Seen(source, targets, mirrors=mirrors)) == verdict
    assert verdict is None or mendable({("1",): verdict}) == []


def test_nodes_follow_one_by_one() -> None:
    earlier = [Seen((0, "a"), {0: "z", 1: "z"}, nodes=2), Seen((0, "b"), {0: "a", 1: "z"}, nodes=2)]
    assert follows(Seen((0, "c"), {0: "c", 1: "b"}, nodes=2), earlier)
    assert not follows(Seen((0, "c"), {0: "c", 1: "z"}, nodes=2), earlier)
    assert not follows(Seen((0, "c"), {0: "c"}, nodes=2), earlier)
    assert not follows(Seen((0, "a"), {0: "a", 1: "b"}, nodes=2), earlier[:1])


def test_a_stream_that_follows_says_nothing_of_another_node_that_does_not() -> None:
    earlier = [Seen((0, "a"), {0: "z"}, mirrors={"s/b.t": "y"})]
    assert not follows(Seen((0, "b"), {0: "a"}, mirrors={"s/b.t": "y"}), earlier)
    assert follows(Seen((0, "b"), {0: "a"}, mirrors={"s/b.t": "a"}), earlier)


def test_a_target_that_has_what_the_source_had_follows() -> None:
    earlier = Seen((1, "old"), {1: "older"})
    assert follows(Seen((1, "new"), {1: "old"}), [earlier])
    assert follows(Seen((1, "new"), {}), [Seen(None, {1: "x"})])
    assert follows(Seen(None, {1: "old"}), [earlier])


def test_a_target_that_has_what_the_source_never_had_does_not() -> None:
    earlier = Seen((1, "old"), {1: "older"})
    assert not follows(Seen((1, "new"), {1: "older"}), [earlier])
    assert not follows(Seen((1, "old"), {1: "older"}), [earlier])
    assert not follows(Seen((1, "new"), {1: "old", 2: "old"}), [earlier])
    assert not follows(Seen((2, "old"), {1: "older"}), [])


def test_a_row_at_a_source_table_where_it_does_not_belong_is_misplaced_whatever_the_target_has() -> None:
    """And a person has to move it: to refresh it would set nothing right, and the stream does not bring it."""
    belongs = "s/shop.u by `home`"
    for targets in ({}, {1: "d"}, {2: "x"}):
        seen = Seen(HOME, targets, belongs=belongs)
        verdict = judge(seen)
        assert verdict == Verdict(Kind.MISPLACED, 1, tuple(targets), belongs=belongs)
        assert mendable({("1",): verdict}) == []
        assert not follows(seen, [Seen((1, "old"), {1: "older"})])
    assert mendable({("1",): Verdict(Kind.MISPLACED, 1, (2,))}) == [("1",)]


def test_what_differs_is_repaired_by_a_refresh_or_by_a_person() -> None:
    belongs, missing = Verdict(Kind.MISPLACED, 1, belongs="s/shop.u by `home`"), Verdict(Kind.MISSING, 1)
    repair = "`--repair` repairs them"
    assert way_out([missing.by_hand, missing.by_hand], repair) == repair
    move = "move the row to the table where it belongs, on the side of applications"
    assert way_out([belongs.by_hand, belongs.by_hand], repair) == f"{move} (docs/verification.md)"
    every = [belongs.by_hand, missing.by_hand, Verdict(Kind.TWICE, None).by_hand]
    delete = "delete the row in the table where it does not belong"
    assert way_out(every, repair) == f"{move}, {delete}, {repair} (docs/verification.md)"


ASTRAY = Seen((0, "d"), {0: "d"}, belongs="t1/shop_1.orders_2")
"""Of the reverse stream: read in another shard table than the forward rule's."""


@pytest.mark.parametrize("there", [{0: "d"}, {0: "x"}, {}])
def test_a_row_in_another_shard_table_is_misplaced_whatever_the_standby_side_has(there: dict[int, str]) -> None:
    verdict = judge(Seen(ASTRAY.source, there, belongs=ASTRAY.belongs))
    assert verdict == Verdict(Kind.MISPLACED, 0, tuple(there), belongs=ASTRAY.belongs)


def test_a_row_in_another_shard_table_follows_nothing() -> None:
    assert not follows(Seen((0, "new"), {0: "d"}, belongs=ASTRAY.belongs), [ASTRAY])
    assert follows(Seen((0, "new"), {0: "d"}), [ASTRAY]), "once it was moved"
