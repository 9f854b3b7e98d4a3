"""What stands in run_dir is ours, and nobody else's to read, change, or lead astray."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jobs import session
from migrate import private
from migrate.model.errors import ConfigError
from migrate.processes import supervisor
from tests.helpers import make_settings


def test_a_file_is_for_its_owner_alone_and_written_whole(tmp_path: Path) -> None:
    file = tmp_path / "supervisord.conf"
    file.write_text("a longer text than before")
    file.chmod(0o644)
    private.write(file, b"short")
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"short", 0o600)


def test_links_pipes_and_directories_are_not_written_to(tmp_path: Path) -> None:
    """Lost: what a link in run_dir, made by somebody else, leads to."""
    precious, link, pipe = tmp_path / "precious", tmp_path / "link", tmp_path / "pipe"
    precious.write_text("all of it")
    link.symlink_to(precious)
    os.mkfifo(pipe)
    for path in (link, pipe):
        with pytest.raises(ConfigError, match="is a link, or no file of this user"):
            private.write(path, b"nothing")
    with pytest.raises(IsADirectoryError):
        private.write(tmp_path, b"nothing")
    assert precious.read_text() == "all of it"


def test_the_supervisors_file_leads_nowhere_else(tmp_path: Path) -> None:
    """Lost: any file of the user's that a link in run_dir names, written over when `migrate run` starts."""
    precious, directory = tmp_path / "precious", private.directory(tmp_path / "run")
    precious.write_text("all of it")
    (directory / "supervisord.conf").symlink_to(precious)
    settings = make_settings(run_dir=str(directory))
    with pytest.raises(ConfigError, match="is a link, or no file of this user"):
        supervisor.write_config(settings, tmp_path / "migrate.yaml", directory)
    assert precious.read_text() == "all of it"


@pytest.mark.parametrize("name", ["log4j2.properties", "spark.log"])
def test_what_spark_is_started_by_leads_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Lost: any file of the user's that a link in run_dir names, written over when Spark starts."""
    monkeypatch.setattr(os, "environ", dict(os.environ))
    precious = tmp_path / "precious"
    precious.write_text("all of it")
    (tmp_path / name).symlink_to(precious)
    with pytest.raises(ConfigError, match="is a link, or no file of this user"):
        session.started("of a test", session.own_machine("local[1]", tmp_path, str(tmp_path), ""), tmp_path)
    assert precious.read_text() == "all of it"


@pytest.mark.parametrize(("mode", "who"), [(0o777, "everybody"), (0o702, "everybody"), (0o770, "its group")])
def test_a_directory_that_others_may_write_to_is_refused(tmp_path: Path, mode: int, who: str) -> None:
    """Lost: what others put where the supervisor's file and the logs are looked for."""
    made = private.directory(tmp_path / "run" / "logs")
    assert made.stat().st_mode & 0o777 == 0o700
    made.chmod(mode)
    with pytest.raises(ConfigError, match=f"{who} may write to"):
        private.directory(made)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    made = private.directory(tmp_path / "run")
    os.chown(made, 12345, 12345)
    with pytest.raises(ConfigError, match="belongs to user 12345, and this is user 0"):
        private.directory(made)
