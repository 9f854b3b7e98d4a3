"""Data directories that do not pile up: each is locked by its process, and swept once that is dead."""

import contextlib
import fcntl
import shutil
from collections.abc import Iterator
from pathlib import Path

from sandbox.errors import SandboxError
from sandbox.paths import run_dir

_LOCK = "owner.lock"


@contextlib.contextmanager
def owned(directory: Path, *, keep: bool) -> Iterator[Path]:
    """Make and lock the directory for the time of the block; removed at the end unless `keep`.

    Raises SandboxError when another process uses it.
    """
    sweep()
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / _LOCK).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SandboxError(f"another sandbox uses {directory}") from None
        try:
            yield directory
        finally:
            if keep:
                (directory / _LOCK).unlink(missing_ok=True)  # what is kept is not to be swept
            else:
                shutil.rmtree(directory, ignore_errors=True)


def sweep() -> None:
    """Remove what killed processes left in `.sandbox/run`: directories with a lock file that nobody holds."""
    for lock in run_dir().glob(f"*/{_LOCK}"):
        with contextlib.suppress(OSError), lock.open("a") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.parent, ignore_errors=True)
