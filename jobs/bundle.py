"""The program as a zip that Spark brings to its executors, and the scripts that spark-submit starts."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path

import migrate
from migrate.model.errors import ConfigError

ZIP = "migrate.zip"
SCRIPTS = ("full_copy.py", "verify.py")
_PARTS = (("migrate", "*.py"), ("jobs", "*.py"), ("sql", "*.sql"))
_TIME = (1980, 1, 1, 0, 0, 0)
_ROOT = Path(migrate.__file__).parent.parent


def from_archive() -> bool:
    """Whether this process has the program from an archive, as with spark-submit's --py-files: Spark ships that one."""
    return not Path(migrate.__file__).is_file()


def zip_to(file: Path) -> None:
    """Write the program, without what it needs from others, as a zip; the same bytes for the same program."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for folder, pattern in _PARTS:
            for path in sorted((_ROOT / folder).rglob(pattern)):
                name = zipfile.ZipInfo(path.relative_to(_ROOT).as_posix(), _TIME)
                archive.writestr(name, path.read_bytes(), zipfile.ZIP_DEFLATED)


def bundle(directory: Path) -> list[Path]:
    """Write the zip and the scripts into a directory, made when it is not there; returns the files.

    Raises: ConfigError when they cannot be written there.
    """
    files = [directory / name for name in (ZIP, *SCRIPTS)]
    try:
        directory.mkdir(parents=True, exist_ok=True)
        zip_to(part := files[0].with_name(f"{ZIP}.{os.getpid()}"))
        part.replace(files[0])
        for name in SCRIPTS:
            shutil.copyfile(_ROOT / "jobs" / name, directory / name)
    except OSError as error:
        raise ConfigError(f"cannot write to {directory}: {error}") from None
    return files
