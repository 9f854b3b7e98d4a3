"""What the programs of the demos share: servers for as long as one runs, and its verdict."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable

from sandbox.demo.run import say
from sandbox.errors import SandboxError
from sandbox.paths import run_dir
from sandbox.stack import Sandbox


def course(name: str, servers: str, made: Callable[[], Sandbox], run: Callable[[Sandbox], int], equal: str) -> int:
    """The exit status: 0 when nothing differs. servers: which are started; run: returns the number of differences;
    equal: what is said where there are none."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    run_dir().mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    try:
        say(f"starting {servers}")
        with made() as box:
            differences = run(box)
    except (SandboxError, KeyboardInterrupt) as error:
        say(f"{name}: {error or 'interrupted'}")
        return 1
    verdict = equal if not differences else f"{differences} DIFFERENCES"
    say(f"\n{verdict}; {time.monotonic() - began:.0f} s in all; every server is stopped")
    return 1 if differences else 0
