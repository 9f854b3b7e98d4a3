"""Data directories of database servers that were never started: made once by the server's own program, then copied.

Making one takes MySQL four seconds of processor time, most of them for keys and system tables that are always the same.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from sandbox.paths import cache_dir

_OWN = ("auto.cnf",)  # the server's UUID: without the file it makes a new one (MySQL manual, "server_uuid")


def copy(command: Sequence[str], data: Path, make: Callable[[Path], None]) -> None:
    """Make the directory `data` as `command` would, which `make(path)` runs where there is no copy of that yet.

    Raises what `make` raises; nothing is kept then.
    """
    kept = cache_dir() / "fresh" / _name(command)
    kept.parent.mkdir(parents=True, exist_ok=True)
    with kept.with_suffix(".lock").open("w") as lock:  # several servers of several processes may begin at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            part = kept.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)  # of one that was killed
            make(part)
            for name in _OWN:
                (part / name).unlink(missing_ok=True)
            part.rename(kept)
    shutil.copytree(kept, data)


def _name(command: Sequence[str]) -> str:
    """Another program, or another version of it, makes another directory."""
    digest = hashlib.sha256()
    for word in command:
        digest.update(word.replace(str(cache_dir()), "").encode() + b"\0")
        if os.path.isabs(word) and (file := Path(word)).is_file():
            digest.update(f"{file.stat().st_size} {file.stat().st_mtime_ns}\0".encode())
    return digest.hexdigest()[:16]
