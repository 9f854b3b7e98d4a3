"""Which of the two builds of the publisher these tests run on: plain Python, or C with `make test-compiled`."""

from __future__ import annotations

import ast
import importlib
import os
from pathlib import Path

import pytest

from migrate.publish.compiled import compiled

EXPECTED = os.environ.get("EXPECT_COMPILED") == "1"
ROOT = Path(__file__).parents[2]


def listed() -> list[str]:
    """The modules that setup.py compiles."""
    for node in ast.parse((ROOT / "setup.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "COMPILED":
            return [path.removesuffix(".py").replace("/", ".") for path in ast.literal_eval(node.value)]
    raise AssertionError("setup.py has no COMPILED")


def test_the_build_is_the_one_that_is_to_be_tested() -> None:
    assert compiled() == EXPECTED


@pytest.mark.parametrize("name", listed())
def test_each_module_is_what_the_build_says(name: str) -> None:
    module = importlib.import_module(name)
    assert str(module.__file__).endswith(".so" if EXPECTED else ".py")
