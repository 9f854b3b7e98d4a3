"""`migrate run`: its processes, and a directory that another one works in. Costs 1 s."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from migrate.model.errors import ConfigError
from migrate.processes.supervisor import process_names, refuse_second, write_config
from tests.helpers import make_settings


def _started(*words: str) -> subprocess.Popen[bytes]:
    """A process with these words in its command line, which ends with its input. It has said that it runs: before
    that, /proc shows an empty command line, as execve() closes files before it sets the arguments."""
    code = "import sys; print(flush=True); sys.stdin.read()"
    process = subprocess.Popen([sys.executable, "-c", code, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"\n"
    return process


def test_a_second_supervisor_in_one_directory_is_refused(tmp_path: Path) -> None:
    """The second wrote over the config file and the pid file of the first, which then stopped by neither."""
    path = write_config(make_settings(), tmp_path / "migrate.yaml", tmp_path)
    refuse_second(tmp_path)
    pid = tmp_path / "supervisord.pid"
    with _started("-c", str(path)) as runs:
        pid.write_text(str(runs.pid), "ascii")
        with pytest.raises(ConfigError, match=f"process {runs.pid} is a `migrate run` in {tmp_path} already"):
            refuse_second(tmp_path)
        runs.communicate()
    refuse_second(tmp_path)
    with _started("another.conf") as other:  # the number was given again
        pid.write_text(str(other.pid), "ascii")
        refuse_second(tmp_path)
        other.communicate()


def test_the_switch_is_served_where_somebody_has_a_token() -> None:
    web = ["web"]
    assert process_names(make_settings()).get("web") is None
    for tokens in ({"token": "long enough, one"}, {"metrics_token": "long enough, two"}, {"tokens": {"a": "x" * 16}}):
        settings = make_settings(web=tokens)
        assert process_names(settings).get("web") == web
        assert process_names(settings, reverse=True).get("web") is None  # the port is taken, by the same switch


def test_alarms_have_a_process_where_somebody_is_told() -> None:
    assert "alarms" not in process_names(make_settings())
    told = make_settings(alarms={"to": [{"name": "one", "command": ["page"]}]})
    assert process_names(told)["alarms"] == ["alarms", "run"]
