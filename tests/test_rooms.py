"""Each package says in one sentence what belongs in it, and names what others use: modules that are there, and used."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = sorted(path.parent for path in (ROOT / "migrate").rglob("__init__.py"))
_NAMED = re.compile(r"`([a-z_]+(?:\.[A-Za-z_]+)?)`")
_USERS = re.compile(r"^(?:Others use|The programs start at) .*?\.$", re.M | re.S)


def docstring(package: Path) -> str:
    return ast.get_docstring(ast.parse((package / "__init__.py").read_text("utf-8"))) or ""


def face(package: Path) -> list[str]:
    """`module` or `module.Name` of each that the package's docstring names as used by others."""
    sentence = _USERS.search(docstring(package))
    return _NAMED.findall(sentence.group(0)) if sentence else []


@cache
def imported() -> dict[str, set[Path]]:
    """Files by the dotted name of each module and of each name that they import."""
    found: dict[str, set[Path]] = {}
    for path in [*(ROOT / "migrate").rglob("*.py"), *(ROOT / "jobs").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names)):
                    found.setdefault(name, set()).add(path)
    return found


def defined(module: Path) -> set[str]:
    """What a module gives a name to, at its top."""
    names: set[str] = set()
    for node in ast.parse(module.read_text("utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
            if node.value is not None and any(isinstance(one, ast.Name) and one.id == "__all__" for one in targets):
                names |= {str(one.value) for one in ast.walk(node.value) if isinstance(one, ast.Constant)}
    return names


def missing(package: Path, named: str) -> bool:
    module, _, name = named.partition(".")
    path = package / f"{module}.py"
    folder = package / module / "__init__.py"
    if folder.exists():  # a room inside: its module
        return not (folder.parent / f"{name}.py").exists()
    return not path.exists() or (name != "" and name not in defined(path))


def unused(package: Path, named: str) -> bool:
    """Whether nobody outside of the package imports it; what `__init__` gives on counts for its module."""
    dotted = ".".join(package.relative_to(ROOT).parts)
    name = named.rpartition(".")[2]
    users = imported().get(f"{dotted}.{named}", set()) | imported().get(f"{dotted}.{name}", set())
    return all(user.is_relative_to(package) for user in users)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_package_says_in_one_sentence_what_belongs_in_it(package: Path) -> None:
    first, _, rest = docstring(package).partition("\n\n")
    assert re.fullmatch(r"\S[^\n]{20,116}\.", first), "one line that ends with a full stop"
    assert not re.search(r"\. [A-Z]", first), "one sentence"
    assert rest


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_package_says_others_use_is_there_and_used(package: Path) -> None:
    named = face(package)
    assert 1 <= len(named) <= 6
    assert [one for one in named if missing(package, one)] == []
    if package.name != "migrate":  # where programs start: nobody imports that
        assert [one for one in named if unused(package, one)] == []


def test_the_packages_are_found_and_what_is_not_there_is_seen() -> None:
    """Negative control of the checks above."""
    assert len(PACKAGES) > 20
    merge = ROOT / "migrate" / "merge"
    assert not missing(merge, "merger.Merger")
    assert missing(merge, "merger.Mergers")
    assert missing(merge, "mergers")
    assert unused(merge, "fold.fold_all")
