"""Executables of the user's: one at a time, and with all that they start they end in their time."""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path

import pytest

from migrate.cutover import hook
from migrate.model.errors import ConfigError, ServerError
from tests.failover.support import SLOW, wait

_WAITS = (
    "import pathlib, time; pathlib.Path({began!r}).touch()\nwhile pathlib.Path({hold!r}).exists(): time.sleep(0.01)"
)
_STARTS = (
    "import subprocess, sys, time; child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    "open({pid!r}, 'w').write(str(child.pid)); time.sleep(600)"
)


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_a_second_one_waits_for_the_first(tmp_path: Path) -> None:
    lock, hold, began = (tmp_path / name for name in ("lock", "hold", "began"))
    hold.touch()
    first = python(_WAITS.format(began=str(began), hold=str(hold)))
    thread = threading.Thread(target=hook.run, args=(first, SLOW, lock), daemon=True)
    thread.start()
    wait(began.exists, "the first to run")
    with pytest.raises(ServerError, match=r"an earlier one still runs after 0\.2 s"):
        hook.run(python("pass"), 0.2, lock)
    hold.unlink()
    hook.run(python("pass"), SLOW, lock)
    thread.join(SLOW)
    assert not thread.is_alive()


def test_one_that_takes_too_long_is_ended_with_what_it_started(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    began = time.monotonic()
    with pytest.raises(ServerError, match="did not end within 3 s"):
        hook.run(python(_STARTS.format(pid=str(pid))), 3, tmp_path / "lock")
    assert time.monotonic() - began < SLOW
    child = Path(f"/proc/{pid.read_text('ascii')}")
    wait(lambda: not child.exists() or "Z" in (child / "stat").read_text("ascii").split()[2], "its child to end")


def test_what_it_said_last_is_told(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with pytest.raises(ServerError, match="exit status 1: the load balancer does not answer"):
        hook.run(
            python("import sys; print('first', file=sys.stderr); sys.exit('the load balancer does not answer')"),
            9,
            tmp_path / "lock",
        )
    with pytest.raises(ServerError, match="No such file"):
        hook.run([str(tmp_path / "none")], 9, lock)


def test_it_gets_no_secret_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost to whoever sees a hook's environment: every password of the config."""
    for name in ("SOURCE_PASSWORD", "VAULT_ROLE"):
        monkeypatch.setenv(name, "canary-4711")
    seen = tmp_path / "seen"
    code = f"import json, os; open({str(seen)!r}, 'w').write(json.dumps(dict(os.environ)))"
    hook.run(python(code), SLOW, tmp_path / "lock", ["VAULT_ROLE"])
    found = json.loads(seen.read_text("utf-8"))
    assert (found.get("SOURCE_PASSWORD"), found["VAULT_ROLE"], "PATH" in found) == (None, "canary-4711", True)


def test_its_lock_is_no_link_to_what_somebody_wants_emptied(tmp_path: Path) -> None:
    """Lost: the file that a link in run_dir named, emptied by the lock."""
    precious = tmp_path / "precious"
    precious.write_text("all of it")
    (tmp_path / "lock").symlink_to(precious)
    with pytest.raises(ConfigError, match="is a link, or no file of this user"):
        hook.run(python("pass"), SLOW, tmp_path / "lock")
    assert precious.read_text() == "all of it"
