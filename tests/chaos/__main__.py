"""`python -m tests.chaos --flavour mysql --kills 200 --seed 7`: exit status 0 when all is equal at the end."""

from __future__ import annotations

import argparse
import secrets
import sys
import time

from sandbox.paths import run_dir
from sandbox.settings import Flavour
from sandbox.stack import Sandbox
from tests.chaos.run import Plan, run


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(arguments: list[str] | None = None) -> int:
    """Servers of its own, one run, and what came of it. The logs are kept when something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--flavour", choices=list(Flavour), default=Flavour.MARIADB, type=Flavour)
    parser.add_argument("--kills", type=int, default=200, help="processes to kill; then it ends")
    parser.add_argument("--gap", type=float, default=3.0, help="seconds between two of them, before the first switch")
    parser.add_argument("--seed", type=int, default=None, help="of the random choices; printed")
    parser.add_argument("--control", action="store_true", help="plant three differences, which must be found")
    asked = parser.parse_args(arguments)
    seed = secrets.randbelow(10**6) if asked.seed is None else asked.seed
    logs = run_dir() / f"chaos-{asked.flavour}-{seed}-{time.strftime('%Y%m%d-%H%M%S')}"
    say(f"chaos on {asked.flavour}: {asked.kills} kills, seed {seed}, log in {logs}")
    began = time.monotonic()
    with Sandbox(asked.flavour, targets=2) as box:
        wrong, summary = run(box, box.kafka, logs, "chaos", Plan(seed, asked.kills, asked.gap), asked.control)
    for line in wrong:
        say(line)
    say(f"seed {seed}: {summary}; {time.monotonic() - began:.0f} s")
    say("WRONG" if wrong else "no difference")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
