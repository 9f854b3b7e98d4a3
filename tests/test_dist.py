"""What is shipped: wheel and sdist, systemd units, the Dockerfile. No engine builds the image here."""

from __future__ import annotations

import ast
import configparser
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from migrate.processes.supervisor import STAY_DOWN, process_names
from migrate.state.database import sql_steps
from sandbox.paths import PROJECT
from tests.helpers import make_settings

UNITS = sorted((PROJECT / "examples" / "systemd").glob("*.service"))
SHIPPED = ("migrate", "jobs", "sql", "config", "sandbox")
WITH_JVM = ("migrate-run@.service", "migrate-check@.service")
DOCKERFILE = (PROJECT / "Dockerfile").read_text()
BROUGHT = {"py4j": "pyspark", "h11": "uvicorn"}
"""Libraries that another one always brings with it."""
TIMEOUT = 280


def unit(path: Path) -> configparser.ConfigParser:
    """Of a setting that is there twice the last one."""
    read = configparser.ConfigParser(strict=False, interpolation=None)
    read.optionxform = str  # type: ignore[assignment,method-assign]
    read.read_string(path.read_text())
    return read


def imported() -> Iterator[str]:
    """Top names that the program imports."""
    for folder in ("migrate", "jobs"):
        for path in (PROJECT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    yield node.module.partition(".")[0]
                elif isinstance(node, ast.Import):
                    yield from (alias.name.partition(".")[0] for alias in node.names)


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


# -- wheel and sdist


def test_every_library_that_the_program_imports_is_one_that_it_asks_for() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]["apprise"]
    asked = {plain(re.split(r"[<>=!~\[; ]", one)[0]) for one in (*project["dependencies"], *extras)}
    owners = metadata.packages_distributions()
    others = {name for name in imported() if name not in sys.stdlib_module_names and name not in SHIPPED}
    assert len(others) > 10
    lacking = {name for name in others if not asked & {plain(owner) for owner in owners.get(name, ())}}
    assert lacking == set(BROUGHT)
    for name, by in BROUGHT.items():
        needs = [one for one in metadata.requires(by) or () if "extra ==" not in one]
        assert any(re.match(rf"{name}\b", one) for one in needs), needs


@pytest.mark.long
def test_the_wheel_runs_in_an_environment_without_the_repository(tmp_path: Path) -> None:
    """Libraries are those of this environment, put behind the wheel: the test above says that it asks for each."""
    project, dist = tmp_path / "project", tmp_path / "dist"
    kept = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=PROJECT, capture_output=True, check=True
    )
    for name in filter(None, kept.stdout.decode().split("\0")):
        if not name.startswith("tests/") and (PROJECT / name).is_file():
            (project / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(PROJECT / name, project / name)
    environment = {**os.environ, "VENV": sys.prefix, "DIST": str(dist), "COMPILE": "0"}
    subprocess.run(["sh", "sandbox/dist.sh"], cwd=project, env=environment, check=True, timeout=TIMEOUT)
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    shutil.rmtree(project)
    listed = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        str(path.relative_to(PROJECT))
        for folder in SHIPPED
        for path in (PROJECT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert sorted(wanted - listed) == []
    assert sdist.stat().st_size > wheel.stat().st_size / 2
    assert (
        "SQLAlchemy==" in (dist / "constraints.txt").read_text()
        or "sqlalchemy==" in (dist / "constraints.txt").read_text()
    )

    made = tmp_path / "venv"
    venv.create(made, with_pip=False, symlinks=True)
    (site,) = made.glob("lib/python*/site-packages")
    installed = [sys.executable, "-m", "pip", "--python", str(made / "bin" / "python"), "install", "-q", "--no-deps"]
    subprocess.run([*installed, "--no-index", str(wheel)], check=True, timeout=TIMEOUT)
    (site / "libraries.pth").write_text("".join(f"{path}\n" for path in sys.path if path.endswith("site-packages")))
    (tmp_path / "empty").mkdir()

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        clean = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "NO_COLOR": "1", "COLUMNS": "200"}
        return subprocess.run(
            [str(made / "bin" / command[0]), *command[1:]],
            cwd=tmp_path / "empty",
            env=clean,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )

    shown = run("migrate", "--help")
    assert shown.returncode == 0, shown
    assert "Exit codes: 0 done" in " ".join(shown.stdout.split())
    where = run("python", "-c", "import migrate, jobs; print(migrate.__file__, jobs.__file__)")
    assert where.stdout.split() == [str(site / "migrate" / "__init__.py"), str(site / "jobs" / "__init__.py")]
    for folder in ("state", "target"):
        steps = run("python", "-c", f"from migrate.state.database import sql_steps; print(len(sql_steps({folder!r})))")
        assert steps.stdout.strip() == str(len(sql_steps(folder))), steps
    example = site / "config" / "example.yaml"
    told = run("migrate", "--config", str(example), "status")
    assert told.returncode == 2
    assert "environment variable STATE_PASSWORD, named by 'state.password', is not set" in told.stderr


# -- systemd


def test_each_process_that_migrate_run_starts_has_a_unit_and_so_have_run_and_web() -> None:
    settings = make_settings(alarms={"to": [{"name": "a", "command": ["true"]}]})
    commands = {tuple(arguments) for arguments in process_names(settings).values()}
    found = {tuple(unit(path)["Service"]["ExecStart"].split()[1:]) for path in UNITS}
    publish = {one for one in commands if one[0] == "publish"}
    assert found == (commands - publish) | {("publish", "$PUBLISH"), ("run",), ("web",)}
    assert {path.name for path in UNITS} == {f"migrate-{one[0]}@.service" for one in found}


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_a_unit_stays_down_where_a_restart_would_meet_the_same_error(path: Path) -> None:
    service = unit(path)["Service"]
    assert service["Restart"] == "on-failure"
    stay = {int(one) for one in service["RestartPreventExitStatus"].split()}
    assert stay | {0} == set(STAY_DOWN)
    assert (service["User"], service["NoNewPrivileges"], service["ProtectSystem"]) == ("migrate", "yes", "strict")
    assert ("MemoryDenyWriteExecute" in service) == (path.name not in WITH_JVM)
    assert re.search(r"(?i)password *=", path.read_text()) is None


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_systemd_finds_nothing_wrong_with_the_units_and_little_exposed(tmp_path: Path) -> None:
    """systemd wants the program to be there."""
    program = tmp_path / "migrate"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    copies = []
    for path in UNITS:
        copies.append(tmp_path / path.name)
        copies[-1].write_text(path.read_text().replace("/opt/migrate/bin/migrate", str(program)))
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *map(str, copies)], capture_output=True, text=True, timeout=120
    )
    assert (verified.returncode, verified.stderr) == (0, "")
    rated = subprocess.run(
        ["systemd-analyze", "security", "--no-pager", "--offline=true", "--threshold=20", *map(str, copies)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert rated.returncode == 0, rated.stdout


# -- the image


def test_the_image_installs_the_wheel_by_the_versions_that_are_tested_and_runs_as_nobody_special() -> None:
    (base,) = re.findall(r"^FROM (\S+)$", DOCKERFILE, re.MULTILINE)
    assert re.fullmatch(r"python:3\.11\.\d+-slim-bookworm", base)
    assert re.search(r"pip install .*--constraint /tmp/dist/constraints\.txt /tmp/dist/migrate-\*\.whl", DOCKERFILE)
    assert DOCKERFILE.index("\nUSER migrate\n") < DOCKERFILE.index("\nENTRYPOINT [")
    ignored = (PROJECT / ".dockerignore").read_text().split()
    assert ignored == ["*", "!dist/*.whl", "!dist/constraints.txt"]
    assert re.search(r"password *=", DOCKERFILE, re.IGNORECASE) is None
