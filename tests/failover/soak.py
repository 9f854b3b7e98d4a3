"""The failover and standby tests, again and again: `python -m tests.failover.soak 10 [pytest arguments]`.

In the first run a publisher stays frozen for a minute past its lease (FREEZE_SECONDS).
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence

TESTS = ("tests/failover/test_failover.py", "tests/failover/test_standby.py")


def main(arguments: Sequence[str]) -> int:
    """Run them that often; exit status 0 when every run passed. Prints a line a run, and what failed."""
    times, more = int(arguments[0]), arguments[1:]
    passed = 0
    for number in range(1, times + 1):
        began = time.monotonic()
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "--no-header", *TESTS, *more],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "ALL": "1", "FREEZE_SECONDS": "60" if number == 1 else "0"},
            check=False,
        )
        ok = ended.returncode == 0
        passed += ok
        if not ok:
            sys.stdout.write(ended.stdout)
        last = ended.stdout.strip().rsplit("\n", 1)[-1]
        sys.stdout.write(f"run {number} of {times}: {last} ({time.monotonic() - began:.0f} s)\n")
        sys.stdout.flush()
    sys.stdout.write(f"{passed} of {times} runs passed\n")
    return 0 if passed == times else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
