"""No hint, error or help names a command, an option or a page that is not there: all texts in the code are read."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.test_docs import CLI, ROOT, anchors

_QUOTED = re.compile(r"`(migrate [^`\n]+)`")
_PAGE = re.compile(r"\b(docs/[\w/-]+\.md)(#[\w-]+)?")
PART = "\0"
"""What is only known when it is said."""


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, text) of every text, those with parts that are put in among them; neighbours are one text already."""
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [str(one.value) if isinstance(one, ast.Constant) else PART for one in node.values]
            yield node.lineno, "".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.lineno, node.value


@cache
def named() -> tuple[tuple[str, int, str], ...]:
    """(file, line, text)."""
    return tuple(
        (str(path.relative_to(ROOT)), line, text)
        for folder in ("migrate", "jobs")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, text in texts(ast.parse(path.read_text("utf-8")))
    )


def quoted() -> list[tuple[str, str]]:
    """(where, command line) of each that is quoted."""
    found = {(f"{file}:{line}", one) for file, line, text in named() for one in _QUOTED.findall(text)}
    return sorted(found)


def missing(line: str) -> list[str]:
    """What a command line names that is not there: a command, or an option of it. A mention need not be complete."""
    line = re.sub(rf"^migrate {PART}+(?=\w)", "migrate ", line)  # whichever way round
    given = re.sub(rf"[|…{PART}]", " ", line).split()[1:]
    group: Any = CLI
    lacking, known = [], {"--help", *(option for one in CLI.params for option in (*one.opts, *one.secondary_opts))}
    for word in given:
        if word.startswith("--") and word not in known:
            lacking.append(word)
        elif not word.startswith("-") and hasattr(group, "commands"):
            if word not in group.commands:
                lacking += [word] if word.islower() else []
                continue
            group = group.commands[word]
            known |= {option for one in group.params for option in (*one.opts, *one.secondary_opts)}
    return lacking


def test_every_command_that_is_named_is_there() -> None:
    """Lost: the way out, where a hint named a command that there is none of."""
    lines = quoted()
    assert lines
    assert [(where, line) for where, line in lines if missing(line)] == []


@pytest.mark.parametrize(
    ("line", "lacking"),
    [
        ("migrate reshard", ["reshard"]),
        ("migrate parked skp", ["skp"]),
        ("migrate verify --repare", ["--repare"]),
        ("migrate --reverse verify --repair", []),
        (f"migrate {PART}status", []),
        (f"migrate publish --source {PART} --from …", []),
    ],
)
def test_what_is_not_there_is_found(line: str, lacking: list[str]) -> None:
    assert missing(line) == lacking


def test_a_page_that_is_named_is_there() -> None:
    missing = []
    for file, line, text in named():
        for page, anchor in _PAGE.findall(text):
            path = Path(ROOT, page)
            if not path.is_file() or (anchor and anchor[1:] not in anchors(path)):
                missing.append(f"{file}:{line}: {page}{anchor}")
    assert missing == []


def test_commands_and_pages_are_found() -> None:
    assert len(quoted()) > 100
    assert any(_PAGE.search(text) for _, _, text in named())
