"""A password from a program: run for each session, and told nowhere."""

from __future__ import annotations

import logging
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from migrate.model.errors import ConfigError, ServerError
from migrate.mysql.connection import connect
from migrate.settings import State, parse
from migrate.state import database
from sandbox.stack import Sandbox
from tests.helpers import address, raw_settings, unique

FIRST, SECOND = "First-Canary-4711", "Second-Canary-4711"


def program(directory: Path, text: str) -> list[str]:
    file = directory / "token.py"
    file.write_text(text, "utf-8")
    return [sys.executable, str(file)]


def by_program(command: list[str], box: Sandbox, user: str, **more: Any) -> dict[str, Any]:
    where = address(box.source, user=user, password_command=command, **more)
    del where["password"]
    return where


def test_each_session_has_the_password_of_its_moment_and_none_is_told(
    box: Sandbox, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lost to sessions an hour later: a cloud's token is valid for minutes."""
    user, token = unique("by_program"), tmp_path / "token"
    box.source.execute(f"CREATE USER {user}@'%' IDENTIFIED BY '{FIRST}'", f"GRANT SELECT ON *.* TO {user}@'%'")
    monkeypatch.setenv("TOKEN_FILE", str(token))
    monkeypatch.setenv("STATE_PASSWORD", "Other-Canary-4711")
    code = "import os\nassert 'STATE_PASSWORD' not in os.environ\nprint(open(os.environ['TOKEN_FILE']).read())"
    where = by_program(program(tmp_path, code), box, user, password_environment=["TOKEN_FILE"])
    with caplog.at_level(logging.DEBUG):
        for password in (FIRST, SECOND):
            token.write_text(password)
            box.source.execute(f"ALTER USER {user}@'%' IDENTIFIED BY '{password}'")
            state = State.model_validate({**where, "database": "mysql"})
            with closing(connect(state, "source 's'")) as session, database.opened(state) as pool:
                assert session.query("SELECT 1") == [(1,)]
                with pool.connect() as connection:
                    assert connection.exec_driver_sql("SELECT 1").scalar() == 1
        token.write_text(FIRST)
        with pytest.raises(ServerError, match="wrong user or password") as caught:
            connect(state, "source 's'")
    assert "Canary" not in caplog.text + str(caught.value) + repr(state)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("print('Canary'); raise SystemExit(3)", "exit status 3"),
        ("", "printed 0 lines"),
        ("print('Canary'); print('Canary')", "printed 2 lines"),
        ("import time; time.sleep(60)", "did not end within 1 s"),
    ],
    ids=["fails", "silent", "talkative", "hangs"],
)
def test_a_program_that_gives_no_password_is_named(mariadb_box: Sandbox, tmp_path: Path, code: str, said: str) -> None:
    where = by_program(program(tmp_path, code), mariadb_box, "u", connect_timeout=1)
    with pytest.raises(ServerError) as caught:
        connect(State.model_validate(where), "source 's'")
    assert caught.value.message.startswith(f"password_command '{sys.executable}' for u at 127.0.0.1:")
    assert said in caught.value.message
    assert "Canary" not in str(caught.value)


def test_a_program_that_is_not_there_is_named(mariadb_box: Sandbox) -> None:
    with pytest.raises(ServerError, match=r"'/nowhere/token' .*: No such file"):
        connect(State.model_validate(by_program(["/nowhere/token"], mariadb_box, "u")), "source 's'")


@pytest.mark.parametrize("more", [{}, {"password": "Strong-4711", "password_command": ["x"]}], ids=["none", "both"])
def test_a_server_has_a_password_or_a_program(more: dict[str, Any]) -> None:
    state = {"host": "127.0.0.1", "user": "u", **more}
    with pytest.raises(ConfigError, match="password or password_command: one of the two is needed"):
        parse(raw_settings(state=state), {})
