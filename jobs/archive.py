"""Spark's classes in the form that the JVM maps into memory: with it Spark starts in half the time.

    python -m jobs.archive              # once an installation; `make servers` and `make install` do it

The JVM takes an archive only with the very Java and jars that wrote it, and starts as ever without.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark
from pyspark import SparkContext

from jobs.session import CLASSES, own_machine, started, warm

_SECONDS = 300


def main() -> int:
    java = _java()
    if java is None:
        _say("no Java found: nothing done")
        return 0
    told = CLASSES.with_suffix(".java")
    made_by = f"{java}Spark {pyspark.__version__}\n"
    if CLASSES.exists() and told.exists() and told.read_text("utf-8") == made_by:
        return 0
    try:
        CLASSES.parent.mkdir(parents=True, exist_ok=True)
        make(CLASSES)
    except OSError as error:
        _say(f"not made, Spark starts without: {error}")
        return 0
    told.write_text(made_by, "utf-8")
    return 0


def make(path: Path) -> None:
    """Write the archive: run a small job, and have the JVM keep what it loaded. Raises OSError."""
    _say("archiving Spark's classes, for shorter starts: 150 MB")
    with tempfile.TemporaryDirectory(dir=path.parent) as name, tempfile.TemporaryDirectory() as sockets:
        directory = Path(name)
        written = directory / path.name
        options = own_machine("local[2]", directory, sockets, f'-XX:ArchiveClassesAtExit="{written}" -Xlog:cds=off')
        session = started("archive", options, directory)
        warm(session)
        jvm: subprocess.Popen[bytes] = SparkContext._gateway.proc  # type: ignore[union-attr]
        session.stop()
        if jvm.stdin is not None:
            jvm.stdin.close()  # it ends then
        try:
            jvm.wait(_SECONDS)
        except subprocess.TimeoutExpired:
            jvm.kill()
            raise OSError(f"Java did not end within {_SECONDS} s") from None
        os.replace(written, path)


def _java() -> str | None:
    """What the Java that Spark takes says of its version; None where there is none."""
    home = os.environ.get("JAVA_HOME")
    command = [str(Path(home, "bin", "java")) if home else "java", "-version"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stderr
    except (OSError, subprocess.SubprocessError):
        return None


def _say(what: str) -> None:
    sys.stdout.write(f"spark: {what}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
