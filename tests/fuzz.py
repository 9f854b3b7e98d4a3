"""The property tests with fresh examples, again and again: `python -m tests.fuzz 60 [pytest arguments]`.

The suite itself runs with the same examples each time. What fails here becomes one of them (`@example`).
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    """Run them for so many minutes; exit status 1 at the first round that fails, with what it printed."""
    minutes, more = float(arguments[0]), arguments[1:]
    until, rounds = time.monotonic() + minutes * 60, 0
    while time.monotonic() < until:
        began = time.monotonic()
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "--no-header", "-m", "hypothesis", *more],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "FUZZ": "1"},
            check=False,
        )
        rounds += 1
        if ended.returncode:
            sys.stdout.write(f"{ended.stdout}\nround {rounds} failed\n")
            return 1
        last = ended.stdout.strip().rsplit("\n", 1)[-1]
        sys.stdout.write(f"round {rounds}: {last} ({time.monotonic() - began:.0f} s)\n")
        sys.stdout.flush()
    sys.stdout.write(f"{rounds} rounds passed\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
