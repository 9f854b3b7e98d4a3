"""`migrate run`: all processes of a migration on one machine, under supervisord.

supervisord starts them, restarts what dies, and stops them with it. A process that ends because a restart would meet
the same error again (exit codes 2, 3 and 5) stays down; `migrate status` says why.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from migrate import private
from migrate.model.errors import ConfigError, ServerError
from migrate.settings import Settings
from migrate.state import database
from migrate.state import migration as migrations

STAY_DOWN = (0, 2, 3, 5)
_STOP_SECONDS = 30
_CONF, _PID = "supervisord.conf", "supervisord.pid"


def process_names(settings: Settings, *, reverse: bool = False) -> dict[str, list[str]]:
    """The processes of a migration, or of its reverse stream: name → arguments of `migrate`."""
    publishers = {f"publish-{source.name}": ["publish", "--source", source.name] for source in settings.sources}
    more = {"alarms": ["alarms", "run"]} if settings.alarms.to else {}
    if settings.web.answers and not reverse:  # one serves the switch of both streams
        more["web"] = ["web"]
    single = {name: [name] for name in ("consume", "commit", "requeue", "check")}
    return {**publishers, **single, **more}


def write_config(settings: Settings, config: Path, directory: Path, *, reverse: bool = False) -> Path:
    """Write supervisord's config file below `directory` and return it. It holds no secret.

    reverse: for the reverse stream. Raises ConfigError where that is no directory of ours.
    """
    options = ["--reverse"] if reverse else []
    private.directory(directory).chmod(0o700)
    logs = private.directory(directory / "logs")
    sections = [
        "[supervisord]",
        "nodaemon = true",
        "silent = true",
        f"logfile = {_value(logs / 'supervisord.log')}",
        f"pidfile = {_value(directory / _PID)}",
        f"childlogdir = {_value(logs)}",
        "identifier = migrate",
    ]
    for name, arguments in process_names(settings, reverse=reverse).items():
        command = [sys.executable, "-P", "-m", "migrate", "--config", str(config.resolve()), *options, *arguments]
        sections += [
            "",
            f"[program:{name}]",
            f"command = {_value(shlex.join(command))}",
            f"directory = {_value(Path.cwd())}",
            'environment = MIGRATE_SUPERVISED="1"',
            "autorestart = unexpected",
            f"exitcodes = {','.join(map(str, STAY_DOWN))}",
            "startsecs = 3",
            "startretries = 1000000",
            f"stopwaitsecs = {_STOP_SECONDS}",
            "stopsignal = TERM",
            "redirect_stderr = true",
            f"stdout_logfile = {_value(logs / (name + '.log'))}",
            "stdout_logfile_maxbytes = 50MB",
            "stdout_logfile_backups = 5",
        ]
    path = directory / _CONF
    private.write(path, ("\n".join(sections) + "\n").encode())
    return path


def refuse_second(directory: Path) -> None:
    """Raise ConfigError where a supervisor runs by the config file in a directory: it would be written over, and two
    would start the same processes."""
    try:
        number = int((directory / _PID).read_text("ascii"))
        words = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):  # none was started there, or it is gone
        return
    if str(directory / _CONF).encode() in words:
        raise ConfigError(
            f"run_dir: process {number} is a `migrate run` in {directory} already",
            hint="stop it first; another migration needs its own run_dir",
        )


def _value(value: Path | str) -> str:
    return str(value).replace("%", "%%")


def run(settings: Settings, config: Path, *, reverse: bool = False) -> None:
    """Become supervisord; returns only by exception.

    Raises: PreflightError, NotSetUp before init and after finish; ConfigError where one runs already. A state server
    that is away does not matter: the processes wait for it.
    """
    try:
        with database.opened(settings.state) as state, state.connect() as connection:
            migrations.get(connection, settings.name)
    except database.NotSetUp:
        raise
    except ServerError:  # it is away: the processes wait for it
        pass
    directory = settings.run_dir.resolve()
    refuse_second(directory)
    path = write_config(settings, config, directory, reverse=reverse)
    os.umask(0o077)  # of its logs and its pid file; in the foreground supervisord sets none itself
    os.execv(sys.executable, [sys.executable, "-m", "supervisor.supervisord", "-c", str(path)])  # noqa: S606 - fixed words
