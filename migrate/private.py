"""Files and directories that others on this machine must not read, change, or put in our way."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from migrate.model.errors import ConfigError


def directory(path: Path) -> Path:
    """Make a directory of ours, if it is not there. Returns it.

    Raises: ConfigError for one of another user's, or that others may write to: what stands in it could be theirs.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.stat()
    if found.st_uid != os.geteuid():
        raise ConfigError(
            f"{path} belongs to user {found.st_uid}, and this is user {os.geteuid()}",
            hint=f"name another run_dir, or `chown {os.geteuid()} {path}`",
        )
    if found.st_mode & (stat.S_IWOTH | stat.S_IWGRP):
        who = "everybody" if found.st_mode & stat.S_IWOTH else "its group"
        raise ConfigError(f"{who} may write to {path}", hint=f"name another run_dir, or `chmod go-w {path}`")
    return path


def opened(path: Path, flags: int = 0) -> int:
    """Open a file of ours to write it, made or as it is; nobody else may read it. Returns its number.

    flags: of `os.open`, besides those that this needs. Raises: ConfigError for a link, and for what is no file of ours;
    OSError as `open` does.
    """
    try:
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | flags, 0o600)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise _not_ours(path) from error
        raise
    found = os.fstat(number)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
        os.close(number)
        raise _not_ours(path)
    os.fchmod(number, 0o600)
    return number


def write(path: Path, body: bytes) -> None:
    """Write a whole file of ours. Raises: as `opened`."""
    with os.fdopen(opened(path), "wb") as file:
        file.truncate()
        file.write(body)


def _not_ours(path: Path) -> ConfigError:
    return ConfigError(f"{path} is a link, or no file of this user", hint="remove it, and see who put it there")
