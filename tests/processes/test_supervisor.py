"""`migrate run` on a directory that another one works in. Costs 1 s."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from migrate.model.errors import ConfigError
from migrate.processes.supervisor import refuse_second, write_config
from tests.helpers import make_settings


def test_a_second_supervisor_in_one_directory_is_refused(tmp_path: Path) -> None:
    """The second wrote over the config file and the pid file of the first, which then stopped by neither."""
    path = write_config(make_settings(), tmp_path / "migrate.yaml", tmp_path)
    refuse_second(tmp_path)
    pid = tmp_path / "supervisord.pid"
    wait = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen([*wait, "-c", str(path)], stdin=subprocess.PIPE) as runs:
        pid.write_text(str(runs.pid), "ascii")
        with pytest.raises(ConfigError, match=f"process {runs.pid} is a `migrate run` in {tmp_path} already"):
            refuse_second(tmp_path)
        runs.communicate()
    refuse_second(tmp_path)
    with subprocess.Popen([*wait, "another.conf"], stdin=subprocess.PIPE) as other:  # the number was given again
        pid.write_text(str(other.pid), "ascii")
        refuse_second(tmp_path)
        other.communicate()
