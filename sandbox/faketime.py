"""Programs whose clock is not the host's: Debian's libfaketime, and what it leaves out (data/waits.c)."""

import os
import subprocess
from pathlib import Path

from sandbox.binaries import which
from sandbox.errors import SandboxError

_WAITS = Path(__file__).parent / "data" / "waits.c"


def library() -> Path | None:
    """libfaketime for programs with threads; None when it is not installed."""
    return next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)


def faketime(seconds: int, directory: Path) -> dict[str, str]:
    """Environment variables for a program whose clock is ahead by so many seconds; its monotonic clock is the host's.

    `directory` gets a small library, once: a program that is starting may be loading it. Raises SandboxError when
    libfaketime or a C compiler is not installed.
    """
    found, compiler = library(), which("cc")
    if found is None or compiler is None:
        raise SandboxError("libfaketime or a C compiler is not installed; run: make servers")
    waits = directory / "waits.so"
    if not waits.exists():
        made = waits.with_suffix(f".{os.getpid()}")
        command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(made), str(_WAITS)]
        compiled = subprocess.run(command, capture_output=True, text=True, timeout=60)
        if compiled.returncode != 0:
            raise SandboxError(f"{_WAITS} does not compile: {compiled.stderr}")
        made.replace(waits)
    return {"LD_PRELOAD": f"{waits} {found}", "FAKETIME": f"{seconds:+d}", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
