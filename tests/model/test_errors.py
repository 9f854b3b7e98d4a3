"""Every error that a person sees leads on."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import migrate
from migrate.model import errors
from migrate.model.errors import MigrateError

_ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted((_ROOT / "migrate").rglob("*.py"))
KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, MigrateError)]
_FILLED_IN = frozenset({"Result", "Problem"})
"""What is not shown without words of its own where it is given none."""
_OF_LOGS = frozenset({"debug", "info", "warning", "error", "exception"})


def below(kind: type[MigrateError]) -> Iterator[type[MigrateError]]:
    yield kind
    for one in kind.__subclasses__():
        yield from below(one)


@cache
def nodes() -> dict[str, list[ast.AST]]:
    """All of the code, by file."""
    files = (*MODULES, *sorted((_ROOT / "jobs").rglob("*.py")))
    return {str(path.relative_to(_ROOT)): [*ast.walk(ast.parse(path.read_text("utf-8")))] for path in files}


def goes_on(node: ast.AST) -> list[ast.expr]:
    """What of it is not shown as it is: the hint of another error, what is filled in where it is empty."""
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        return node.values[:-1]
    if not isinstance(node, ast.Call) or (isinstance(node.func, ast.Attribute) and node.func.attr in _OF_LOGS):
        return []
    filled = isinstance(node.func, ast.Name) and node.func.id in _FILLED_IN
    return [*(one.value for one in node.keywords if one.arg == "hint"), *(node.args if filled else ())]


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_without_a_hint_has_the_way_out_of_its_kind(kind: type[MigrateError]) -> None:
    assert kind("it went wrong").hint == kind.usual != ""
    assert str(kind("it went wrong")) == "it went wrong", "inside another message it would only be in the way"
    assert kind("it went wrong", hint="do that").hint == "do that"


def test_each_kind_has_words_of_its_own() -> None:
    assert len({kind.usual for kind in KINDS}) == len(KINDS) == 9


def test_no_kind_of_error_is_without_a_way_out() -> None:
    """A class that is added anywhere: what an error shows is never empty."""
    for module in pkgutil.walk_packages(migrate.__path__, "migrate."):
        importlib.import_module(module.name)
    kinds = set(below(MigrateError))
    assert len(kinds) > 30
    assert [kind for kind in kinds if not kind.usual.strip() or "hint" in vars(kind)] == [MigrateError]
    assert MigrateError("").hint


def test_no_error_is_made_without_a_kind_or_with_an_empty_hint() -> None:
    """The words of an error of no kind are those of a defect."""
    names = {kind.__name__ for kind in below(MigrateError)}
    made = [
        (f"{file}:{call.lineno}", call.func.id, {one.arg: one.value for one in call.keywords})
        for file, found in nodes().items()
        for call in found
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in names
    ]
    assert len(made) > 500
    assert [where for where, name, _ in made if name == "MigrateError"] == []
    empty = [where for where, _, given in made if isinstance(at := given.get("hint"), ast.Constant) and not at.value]
    assert empty == []


def test_what_an_error_was_given_is_shown_to_nobody() -> None:
    """It may be empty: it goes into another error, or where an empty one is filled in."""
    shown = []
    for file, found in nodes().items():
        taken = {id(part) for node in found for value in goes_on(node) for part in ast.walk(value)}
        given = [node for node in found if isinstance(node, ast.Attribute) and node.attr == "given"]
        assert given or file != "migrate/model/errors.py"
        shown += [f"{file}:{one.lineno}" for one in given if id(one) not in taken and file != "migrate/model/errors.py"]
    assert shown == []


def test_what_stops_for_good_says_of_what_kind_it_is() -> None:
    """A program that watches compares codes: one that is not said would be told as a defect."""
    unsaid, kinds = [], 0
    for path in nodes():
        for node in nodes()[path]:
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
