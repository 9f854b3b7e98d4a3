"""A disk that can be full: a small file system of its own in memory, which only root may mount."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_CHUNK = 64 * 1024


class Disk:
    """Mounted at `path`. `fill` takes what is left, and again what was given back since; `free` gives it back."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self) -> None:
        number = os.open(self._ballast, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            for size in (_CHUNK, 1):
                while _written(number, size):
                    pass
        finally:
            os.close(number)

    def free(self) -> None:
        self._ballast.unlink()

    def grow(self, megabytes: int) -> None:
        """The same disk with so much more space; what is on it stays."""
        found = os.statvfs(self.path)
        size = found.f_blocks * found.f_frsize + megabytes * 1024 * 1024
        subprocess.run(["mount", "-o", f"remount,size={size}", str(self.path)], check=True)


def _written(number: int, size: int) -> bool:
    try:
        return os.write(number, b"\0" * size) > 0
    except OSError as error:
        if error.errno == errno.ENOSPC:
            return False
        raise


@contextmanager
def small_disk(path: Path, megabytes: int) -> Iterator[Disk]:
    """A disk of that size, empty, for the time of the block. Skips the test for who may not mount."""
    if os.geteuid() != 0:
        pytest.skip("a full disk needs a small file system of its own, which only root may mount")
    path.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=700", "tmpfs", str(path)], check=True)
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)  # whoever was killed there may not be gone yet
