from __future__ import annotations

from migrate.model.words import counted, some


def test_one_of_a_thing_is_not_told_as_several() -> None:
    assert [counted(number, "row") for number in (0, 1, 2)] == ["0 rows", "1 row", "2 rows"]
    assert [counted(number, "batch", "batches") for number in (1, 2)] == ["1 batch", "2 batches"]


def test_of_many_names_the_first_ones_are_told_and_how_many_are_left() -> None:
    assert [some("abcd", most) for most in (1, 3, 4, 5)] == ["a and 3 more", "a, b, c and 1 more", *["a, b, c, d"] * 2]
