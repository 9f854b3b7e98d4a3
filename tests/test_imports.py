"""Imports point one way. The contracts are in .importlinter; here they are run, and seen to fail."""

from __future__ import annotations

import ast
import configparser
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.paths import PROJECT

CONTRACT = PROJECT / ".importlinter"
MODULES = sorted((PROJECT / "migrate").rglob("*.py")) + sorted((PROJECT / "jobs").rglob("*.py"))


def lint(directory: Path) -> subprocess.CompletedProcess[str]:
    """Check the packages of a directory against our contracts."""
    command = [str(Path(sys.executable).parent / "lint-imports"), "--config", str(CONTRACT), "--no-cache"]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=100, check=False)


def layers() -> set[str]:
    """Every module that the layers name."""
    config = configparser.ConfigParser()
    config.read(CONTRACT)
    return set(re.findall(r"[a-z_.]+", config["importlinter:contract:layers"]["layers"]))


def within_cli() -> set[str]:
    """Every module that the layers of the command line name."""
    config = configparser.ConfigParser()
    config.read(CONTRACT)
    return set(re.findall(r"[a-z_.]+", config["importlinter:contract:cli"]["layers"]))


def test_the_contracts_are_kept() -> None:
    checked = lint(PROJECT)
    assert checked.returncode == 0, checked.stdout
    assert "0 broken" in checked.stdout


def test_every_part_of_the_package_has_its_layer() -> None:
    parts = {
        f"migrate.{path.stem}"
        for path in (PROJECT / "migrate").iterdir()
        if (path.is_dir() and (path / "__init__.py").exists()) or path.suffix == ".py"
    }
    assert parts - {"migrate.__init__"} <= layers()


@pytest.mark.parametrize(
    ("module", "imported"),
    [
        ("migrate.model.change", "migrate.settings"),
        ("migrate.settings", "migrate.mysql"),
        ("migrate.mysql.catalog", "migrate.state"),
        ("migrate.sharding.rule", "migrate.kafka"),
        ("migrate.state.record", "migrate.target"),
        ("migrate.target.rows", "migrate.merge"),
        ("migrate.publish.emit", "migrate.consume"),
        ("migrate.merge.merger", "migrate.delay"),
        ("migrate.chunks.planner", "migrate.copy"),
        ("migrate.copy.writer", "migrate.verify"),
        ("migrate.verify.compare_range", "migrate.commands"),
        ("migrate.commands.drain", "migrate.cli.main"),
        ("migrate.status.snapshot", "jobs"),
        ("migrate.verify.run", "pyspark"),
        ("jobs.full_copy", "migrate.status"),
        ("jobs.verify", "migrate.publish"),
        ("jobs.session", "migrate.preflight"),
    ],
)
def test_an_import_the_other_way_breaks_them(tmp_path: Path, module: str, imported: str) -> None:
    skeleton(tmp_path)
    path = tmp_path.joinpath(*module.split(".")).with_suffix(".py")
    path.write_text(f"def f():\n    import {imported}\n", encoding="utf-8")
    checked = lint(tmp_path)
    assert checked.returncode == 1, checked.stdout
    assert re.search(rf"{module}\s+->\s+{imported}", checked.stdout), checked.stdout


def skeleton(directory: Path) -> None:
    """The packages without code, so that checking takes a moment."""
    for name in {"migrate", "jobs", *layers(), *within_cli()}:
        folder = directory.joinpath(*name.split("."))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "__init__.py").touch()
    shutil.rmtree(directory / "migrate" / "__main__")
    (directory / "migrate" / "__main__.py").touch()


def imported_by(path: Path) -> set[str]:
    """The top names of all modules a file imports, also inside functions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(str(node.module))
    return found


@pytest.mark.parametrize("path", [path for path in MODULES if "model" in path.parts], ids=lambda path: path.name)
def test_the_model_needs_the_standard_library_alone(path: Path) -> None:
    foreign = {name for name in imported_by(path) if not name.startswith("migrate.model.")}
    assert {name.split(".")[0] for name in foreign} <= sys.stdlib_module_names


def test_the_product_does_not_need_the_sandbox_or_the_tests() -> None:
    using = [str(path) for path in MODULES if {name.split(".")[0] for name in imported_by(path)} & {"sandbox", "tests"}]
    assert using == []


def test_only_jobs_import_spark() -> None:
    using = {path for path in MODULES if {"pyspark", "pyarrow"} & {name.split(".")[0] for name in imported_by(path)}}
    assert {path.relative_to(PROJECT).parts[0] for path in using} == {"jobs"}
