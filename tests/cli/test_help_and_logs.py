"""`--help` of every command says something; logs hold neither values nor passwords."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import structlog
import typer

from migrate.cli.main import build, main
from migrate.processes import logs
from migrate.settings import Logging
from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.cli.support import SECRET, config_of, migrate, python_m_migrate, written
from tests.helpers import address, scratch, unique

COMMANDS = sorted(typer.main.get_command(build()).commands)  # type: ignore[attr-defined]


def test_the_commands_are_the_documented_ones() -> None:
    assert {"preflight", "init", "run", "copy", "drain", "verify", "status"} <= set(COMMANDS)
    assert {"publish", "consume", "commit", "requeue"} <= set(COMMANDS)


@pytest.mark.parametrize(
    ("typed", "offered"), [("migrate cut", ["cutover"]), ("migrate ddl ", ["plan", "run", "resume", "undo", "status"])]
)
def test_a_shell_completes_commands(typed: str, offered: list[str]) -> None:
    """As its script asks. Costs a start of 2 s each."""
    asked = {"_MIGRATE_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    program = Path(sys.executable).with_name("migrate")
    done = subprocess.run([program], env={**os.environ, **asked}, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.split()) == (0, offered), done.stderr


def test_help_lists_every_command_with_a_clause_and_the_exit_codes() -> None:
    shown = python_m_migrate("--help")
    assert (shown.code, shown.err) == (0, "")
    for command in COMMANDS:
        assert re.search(rf"\b{command} +[A-Z][a-z]+", shown.out), command
    assert "Exit codes: 0 done" in " ".join(shown.out.split())


@pytest.mark.parametrize("command", COMMANDS)
def test_every_commands_help_says_something(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    text = re.sub(r"[^A-Za-z ]", " ", shown.split(command, 1)[1])
    assert len(text.split()) > 12
    for option in re.findall(r"--[a-z-]+", shown):
        line = next(line for line in shown.splitlines() if option in line)
        assert re.search(r"[A-Z][a-z]+", line.split(option, 1)[1]), line


def test_without_a_command_the_help_is_shown() -> None:
    shown = migrate(None)
    assert "Usage:" in shown.out + shown.err
    assert "Traceback" not in shown.err


@pytest.mark.parametrize(
    "arguments", [["migrat"], ["status", "--yaml"], ["copy", "--table"], ["drain", "--timeout", "x"]]
)
def test_a_wrong_command_line_is_refused(arguments: list[str]) -> None:
    shown = migrate(None, *arguments)
    assert shown.code == 2
    assert "Traceback" not in shown.err
    assert shown.err


@pytest.mark.parametrize("kind", ["console", "json"])
def test_statements_are_logged_without_values_and_nothing_shows_a_password(
    tmp_path: Path, mariadb_box: Sandbox, kafka: KafkaBroker, kind: str
) -> None:
    user = unique("logs")[:30]
    source = mariadb_box.source
    source.execute(
        f"CREATE USER {user}@'127.0.0.1' IDENTIFIED BY '{SECRET}'", f"GRANT ALL ON *.* TO {user}@'127.0.0.1'"
    )
    try:
        with scratch(source, "canary_value") as database:
            source.execute("CREATE TABLE t (id INT PRIMARY KEY)", database=database)
            login = {"name": "main", **address(source, user=user, password=SECRET)}
            logging = {"level": "DEBUG", "log_sql": True, "format": kind}
            broker = {"bootstrap": kafka.bootstrap}
            raw = config_of(mariadb_box, database, sources=[login], kafka=broker)
            shown = migrate(written(tmp_path, {**raw, "logging": logging}), "preflight")
            silent = migrate(written(tmp_path, raw), "preflight")
    finally:
        source.execute(f"DROP USER {user}@'127.0.0.1'")
    assert shown.code == 0, shown
    assert "FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s" in shown.err
    assert database in shown.out
    assert f"'{database}'" not in shown.err  # the value of a parameter; names of tables are part of statements
    assert SECRET not in shown.out + shown.err
    assert silent.code == 0
    assert silent.err == ""


def test_preflight_passes_and_says_what_it_saw(tmp_path: Path, box: Sandbox, kafka: KafkaBroker) -> None:
    with scratch(box.source, "good") as database:
        box.source.execute("CREATE TABLE t (id INT PRIMARY KEY, u INT UNIQUE)", database=database)
        raw = config_of(box, database, kafka={"bootstrap": kafka.bootstrap})
        shown = migrate(written(tmp_path, raw), "preflight")
    assert shown.code == 0, shown
    assert "source 'main': binlog is ROW with full images" in shown.out
    assert "source 'main': the user may replicate" in shown.out
    assert f"{database}.t: key (id); with further unique keys all its changes travel in one partition" in shown.out
    assert f"target 't0' answers: {box.flavour}" in shown.out


@pytest.mark.parametrize("style", ["console", "json"])
def test_a_defect_is_logged_with_its_place_and_without_values(capsys: pytest.CaptureFixture[str], style: str) -> None:
    """The console showed the variables of each frame, keys and rows among them."""
    before = structlog.get_config()
    row = {"id": "canary-4711"}
    try:
        logs.configure(Logging(format=style), "copy")
        try:
            row[row["id"]]
        except KeyError as error:
            structlog.get_logger("migrate.copy").error("a table is not copied", exc_info=error)
    finally:
        structlog.configure(**before)
    told = capsys.readouterr().err
    assert "canary" not in told
    assert "a defect of this program: KeyError at" in told
    assert 'row[row["id"]]' in told.replace("\\", "")
