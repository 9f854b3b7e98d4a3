"""Looking again: what agrees later is no difference, and what does not is one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from migrate.model.change import Key
from migrate.model.errors import StopError
from migrate.verify.difference import Kind
from migrate.verify.lookup import Seen
from migrate.verify.recheck import Recheck, RecheckOutcome, look_again, settle

KEY: Key = ("1",)
EQUAL = Seen((0, "a"), {0: "a"})
MISSING = Seen((0, "a"), {})


def looks(*states: Seen) -> tuple[Callable[[list[Key]], dict[Key, Seen]], list[int]]:
    """A look-up that shows the states one after the other, and how many keys each look asked for."""
    shown, asked = iter(states), []

    def look(keys: list[Key]) -> dict[Key, Seen]:
        asked.append(len(keys))
        state = next(shown)
        return dict.fromkeys(keys, state)

    return look, asked


def settled(
    look: Callable[[list[Key]], dict[Key, Seen]], rechecks: int, keys: list[Key]
) -> tuple[RecheckOutcome, list[float]]:
    waited: list[float] = []
    return look_again(keys, look, rechecks, 2.0, waited.append), waited


def test_a_key_that_agrees_at_a_later_look_is_no_difference_and_ends_the_looks() -> None:
    look, asked = looks(MISSING, MISSING, EQUAL)
    looked, waited = settled(look, 5, [KEY])
    assert looked == RecheckOutcome()
    assert (asked, waited) == ([1, 1, 1], [2.0, 2.0])


def test_a_key_that_differs_at_every_look_is_a_difference() -> None:
    look, asked = looks(*[MISSING] * 4)
    looked, waited = settled(look, 3, [KEY])
    assert {key: verdict.kind for key, verdict in looked.verdicts.items()} == {KEY: Kind.MISSING}
    assert (len(asked), waited) == (4, [2.0] * 3)


def test_without_rechecks_there_is_one_look() -> None:
    look, asked = looks(MISSING)
    assert list(settled(look, 0, [KEY])[0].verdicts) == [KEY]
    assert asked == [1]


def test_without_suspects_nothing_is_looked_at_twice() -> None:
    look, asked = looks(EQUAL)
    assert settled(look, 3, []) == (RecheckOutcome(), [])
    assert asked == [0]


def test_a_target_that_came_to_what_the_source_had_agrees_though_the_source_went_on() -> None:
    look, asked = looks(Seen((0, "b"), {0: "a"}), Seen((0, "c"), {0: "b"}))
    looked, _ = settled(look, 2, [KEY])
    assert (looked, asked) == (RecheckOutcome(), [1, 1])


def test_a_target_that_follows_and_keeps_a_row_elsewhere_does_not_agree() -> None:
    look, _ = looks(
        Seen((0, "b"), {0: "a", 1: "x"}), Seen((0, "c"), {0: "b", 1: "x"}), Seen((0, "d"), {0: "c", 1: "x"})
    )
    looked, _ = settled(look, 2, [KEY])
    assert [verdict.kind for verdict in looked.verdicts.values()] == [Kind.DIFFERENT]


def test_a_row_that_changes_while_its_target_does_not_is_a_difference() -> None:
    look, _ = looks(Seen((0, "b"), {0: "x"}), Seen((0, "c"), {0: "x"}), Seen((0, "d"), {0: "x"}))
    looked, _ = settled(look, 2, [KEY])
    assert [verdict.kind for verdict in looked.verdicts.values()] == [Kind.DIFFERENT]


def test_a_target_that_changes_between_looks_is_in_motion_though_none_of_its_states_was_seen_at_the_source() -> None:
    look, _ = looks(Seen((0, "d"), {0: "a"}), Seen((0, "e"), {0: "b"}), Seen((0, "f"), {0: "c"}))
    looked, _ = settled(look, 2, [KEY])
    assert looked == RecheckOutcome({}, in_motion=1)
    assert looked.moving == [KEY]


@pytest.mark.parametrize(
    "seen",
    [
        [Seen((0, each), {0: was, 1: "x"}, nodes=2) for each, was in zip("bcd", "abc", strict=True)],
        [Seen((0, each), {0: was}, nodes=2) for each, was in zip("bcd", "abc", strict=True)],
        [Seen((0, each), {0: was}, mirrors={"m": "x"}) for each, was in zip("bcd", "abc", strict=True)],
    ],
)
def test_a_node_that_stays_as_it_was_while_another_follows_is_a_difference(seen: list[Seen]) -> None:
    """Not named: a row of a broadcast table that one node lost, as long as it changes at the others."""
    looked, _ = settled(looks(*seen)[0], 2, [KEY])
    assert [verdict.kind for verdict in looked.verdicts.values()] == [Kind.DIFFERENT]


def test_nodes_that_all_change_between_looks_are_in_motion() -> None:
    look, _ = looks(*[Seen((0, f"{at}"), {0: f"x{at}", 1: f"y{at}"}, nodes=2) for at in range(3)])
    assert settled(look, 2, [KEY])[0] == RecheckOutcome({}, in_motion=1)


def test_keys_that_cannot_be_looked_at_are_dropped_and_the_others_are_judged() -> None:
    def refused(keys: list[Key]) -> dict[Key, Seen]:
        if keys:
            raise StopError("the table is gone")
        return {}

    said: list[StopError] = []
    look, _ = looks(*[MISSING] * 2)
    gone, there = Recheck([KEY], refused, said.append), Recheck([KEY], look)
    settle([gone, there], 1, 0, lambda _: None)
    assert ([error.message for error in said], gone.left, gone.outcome()) == (
        ["the table is gone"],
        0,
        RecheckOutcome(),
    )
    assert list(there.outcome().verdicts) == [KEY]
    with pytest.raises(StopError):
        Recheck([KEY], refused).take()


def test_what_stays_at_a_place_where_a_changing_row_does_not_belong_is_a_difference() -> None:
    look, _ = looks(*[Seen((0, each), {0: each, 2: "old"}) for each in "abc"])
    looked, _ = settled(look, 2, [KEY])
    assert [(verdict.kind, verdict.elsewhere) for verdict in looked.verdicts.values()] == [(Kind.DUPLICATED, (2,))]
    look, _ = looks(Seen((0, "b"), {2: "old"}), Seen((0, "c"), {0: "b", 2: "old"}), Seen(None, {0: "c", 2: "old"}))
    looked, _ = settled(look, 2, [KEY])
    assert [(verdict.kind, verdict.elsewhere) for verdict in looked.verdicts.values()] == [(Kind.EXTRA, (0, 2))]


def test_a_row_that_moves_from_place_to_place_is_in_motion() -> None:
    look, _ = looks(Seen((0, "b"), {2: "a"}), Seen((2, "c"), {0: "b", 2: "a"}), Seen((0, "d"), {2: "b"}))
    assert settled(look, 2, [KEY])[0] == RecheckOutcome({}, in_motion=1)
    look, _ = looks(Seen((0, "b"), {0: "a", 2: "x"}), Seen((0, "c"), {0: "b", 2: "y"}))
    assert settled(look, 1, [KEY])[0] == RecheckOutcome({}, in_motion=1)


def test_a_row_that_never_rests_is_watched_until_its_target_was_seen_to_follow() -> None:
    states = [Seen((0, f"{number}"), {0: f"{number - 5}.5"}) for number in range(3)]  # never what the source had
    states += [Seen((0, f"{number}"), {0: f"{number - 2}"}) for number in range(3, 9)]
    look, asked = looks(*states)
    hurried: list[float] = []
    looked = look_again([KEY], look, 1, 0, lambda _: None, hurried.append)
    assert (looked, len(asked), len(hurried)) == (RecheckOutcome(), 4, 1)


def test_a_difference_is_not_watched_and_a_row_that_is_never_seen_to_follow_stays_in_motion() -> None:
    differing: Key = ("1",)
    moving: Key = ("2",)
    count = 0

    def look(keys: list[Key]) -> dict[Key, Seen]:
        nonlocal count
        count += 1
        states = {differing: MISSING, moving: Seen((0, f"s{count}"), {0: f"t{count}"})}
        return {key: states[key] for key in keys}

    looked = look_again([differing, moving], look, 1, 0, lambda _: None, lambda _seconds: None)
    assert list(looked.verdicts) == [differing]
    assert looked.moving == [moving]
    assert count > 100


def test_a_row_that_comes_and_goes_and_was_never_there_when_looked_at_is_watched_until_it_is() -> None:
    away = [Seen((0, each), {}) for each in "abc"]
    look, asked = looks(*away, Seen((0, "d"), {}), Seen((0, "e"), {0: "d"}))
    assert look_again([KEY], look, 2, 0, lambda _: None, lambda _seconds: None) == RecheckOutcome()
    assert len(asked) == 5


def test_between_two_looks_the_stream_is_waited_for() -> None:
    paused: list[float] = []
    slept: list[float] = []
    look, _ = looks(*[MISSING] * 3)
    settle([Recheck([KEY], look)], 2, 3.0, slept.append, lambda _seconds: None, paused.append)
    assert (paused, slept) == ([3.0, 3.0], [])


def test_a_row_that_keeps_changing_in_another_shard_table_is_a_difference() -> None:
    look, _ = looks(*[Seen((0, each), {0: each}, belongs="t1/shop_1.orders_2") for each in "abc"])
    looked, _ = settled(look, 2, [KEY])
    assert [verdict.kind for verdict in looked.verdicts.values()] == [Kind.MISPLACED]
    assert looked.in_motion == 0
