"""Every error that a person sees leads on."""

from __future__ import annotations

import pytest

from migrate.model import errors
from migrate.model.errors import MigrateError

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, MigrateError)]


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_without_a_hint_has_the_way_out_of_its_kind(kind: type[MigrateError]) -> None:
    assert kind("it went wrong").way_out == kind.usual != ""
    assert str(kind("it went wrong")) == "it went wrong", "inside another message it would only be in the way"
    assert kind("it went wrong", hint="do that").way_out == "do that"


def test_each_kind_has_words_of_its_own() -> None:
    assert len({kind.usual for kind in KINDS}) == len(KINDS) == 8
