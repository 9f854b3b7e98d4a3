"""Looking again: what agrees later is no difference, and what does not is one."""

from __future__ import annotations

from collections.abc import Callable

from migrate.model.change import Key
from migrate.scroll.lookup import Seen
from migrate.verify.kinds import Kind
from migrate.verify.looks import Looked, look_again

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


def settled(look: Callable[[list[Key]], dict[Key, Seen]], rechecks: int, keys: list[Key]) -> tuple[Looked, list[float]]:
    waited: list[float] = []
    return look_again(keys, look, rechecks, 2.0, waited.append), waited


def test_a_key_that_agrees_at_a_later_look_is_no_difference_and_ends_the_looks() -> None:
    look, asked = looks(MISSING, MISSING, EQUAL)
    looked, waited = settled(look, 5, [KEY])
    assert looked == Looked()
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
    assert settled(look, 3, []) == (Looked(), [])
    assert asked == [0]


def test_a_row_that_keeps_changing_ahead_of_the_target_is_in_motion() -> None:
    look, _ = looks(Seen((0, "b"), {0: "a"}), Seen((0, "c"), {0: "b"}), Seen((0, "d"), {0: "c"}))
    looked, _ = settled(look, 2, [KEY])
    assert looked == Looked({}, in_motion=1)


def test_a_row_that_changes_while_its_target_does_not_is_a_difference() -> None:
    look, _ = looks(Seen((0, "b"), {0: "x"}), Seen((0, "c"), {0: "x"}), Seen((0, "d"), {0: "x"}))
    looked, _ = settled(look, 2, [KEY])
    assert [verdict.kind for verdict in looked.verdicts.values()] == [Kind.DIFFERENT]
