from __future__ import annotations

from migrate.model.words import counted


def test_one_of_a_thing_is_not_told_as_several() -> None:
    assert [counted(number, "row") for number in (0, 1, 2)] == ["0 rows", "1 row", "2 rows"]
    assert [counted(number, "batch", "batches") for number in (1, 2)] == ["1 batch", "2 batches"]
