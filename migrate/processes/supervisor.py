"""`migrate run`: all processes of a migration on one machine, under supervisord.

supervisord starts them, restarts what dies, and stops them with it. A process that ends because a restart would meet
the same error again (exit codes 2, 3 and 5) stays down; `migrate status` says why.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from migrate import private
from migrate.model.errors import ServerError
from migrate.settings import Settings
from migrate.state import database
from migrate.state import migration as migrations

STAY_DOWN = (0, 2, 3, 5)
_STOP_SECONDS = 30


def process_names(settings: Settings) -> dict[str, list[str]]:
    """The processes of a migration: name → arguments of `migrate`."""
    publishers = {f"publish-{source.name}": ["publish", "--source", source.name] for source in settings.sources}
    return {**publishers, "consume": ["consume"], "commit": ["commit"], "requeue": ["requeue"], "check": ["check"]}


def write_config(settings: Settings, config: Path, directory: Path, options: Sequence[str] = ()) -> Path:
    """Write supervisord's config file below `directory` and return it. It holds no secret.

    options: of `migrate`, before the name of each process. Raises ConfigError where that is no directory of ours.
    """
    private.directory(directory).chmod(0o700)
    logs = private.directory(directory / "logs")
    sections = [
        "[supervisord]",
        "nodaemon = true",
        "silent = true",
        f"logfile = {_value(logs / 'supervisord.log')}",
        f"pidfile = {_value(directory / 'supervisord.pid')}",
        f"childlogdir = {_value(logs)}",
        "identifier = migrate",
    ]
    for name, arguments in process_names(settings).items():
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
    path = directory / "supervisord.conf"
    private.write(path, ("\n".join(sections) + "\n").encode())
    return path


def _value(value: Path | str) -> str:
    return str(value).replace("%", "%%")


def run(settings: Settings, config: Path, options: Sequence[str] = ()) -> None:
    """Become supervisord; returns only by exception. Raises PreflightError, ServerError before init and after finish.

    A state server that is away does not matter: the processes wait for it.
    """
    try:
        with database.opened(settings.state) as state, state.connect() as connection:
            migrations.get(connection, settings.name)
    except ServerError as error:
        if error.hint == database.FIRST:
            raise
    directory = settings.run_dir.resolve()
    path = write_config(settings, config, directory, options)
    os.umask(0o077)  # of its logs and its pid file; in the foreground supervisord sets none itself
    os.execv(sys.executable, [sys.executable, "-m", "supervisor.supervisord", "-c", str(path)])  # noqa: S606 - fixed words
