"""Every error that a person sees leads on."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from migrate.model import errors
from migrate.model.errors import MigrateError

MODULES = sorted((Path(__file__).resolve().parents[2] / "migrate").rglob("*.py"))
KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, MigrateError)]


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_without_a_hint_has_the_way_out_of_its_kind(kind: type[MigrateError]) -> None:
    assert kind("it went wrong").way_out == kind.usual != ""
    assert str(kind("it went wrong")) == "it went wrong", "inside another message it would only be in the way"
    assert kind("it went wrong", hint="do that").way_out == "do that"


def test_each_kind_has_words_of_its_own() -> None:
    assert len({kind.usual for kind in KINDS}) == len(KINDS) == 9


def test_what_stops_for_good_says_of_what_kind_it_is() -> None:
    """A program that watches compares codes: one that is not said would be told as a defect."""
    unsaid, kinds = [], 0
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "StopError":
                kinds += 1
                if not any(one.arg == "code" for one in node.keywords):
                    unsaid.append(f"{path}:{node.lineno}")
            if isinstance(node, ast.ClassDef) and any(getattr(one, "id", "") == "StopError" for one in node.bases):
                said = [one for one in node.body if isinstance(one, ast.Assign) and one.targets[0].id == "code"]  # type: ignore[attr-defined]
                if not said:
                    unsaid.append(f"{path}: {node.name}")
    assert kinds > 100
    assert unsaid == []
