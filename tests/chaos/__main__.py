"""`python -m tests.chaos --flavour mysql --kills 200 --seed 7`: exit status 0 when all is equal at the end."""

from __future__ import annotations

import argparse
import secrets
import sys
import time

from sandbox.paths import run_dir
from sandbox.settings import Flavour
from sandbox.stack import Sandbox
from tests.chaos import switches
from tests.chaos.run import Plan, run


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(arguments: list[str] | None = None) -> int:
    """Servers of its own, one run, and what came of it. The logs are kept when something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--flavour", choices=list(Flavour), default=Flavour.MARIADB, type=Flavour)
    parser.add_argument("--kills", type=int, default=200, help="processes to kill; then it ends")
    parser.add_argument("--seconds", type=float, default=None, help="about how long that takes; 3 a kill")
    parser.add_argument("--seed", type=int, default=None, help="of the random choices; printed")
    parser.add_argument("--control", action="store_true", help="plant three differences, which must be found")
    parser.add_argument("--switches", action="store_true", help="cutovers and rollbacks under load, without a copy")
    asked = parser.parse_args(arguments)
    seed = secrets.randbelow(10**6) if asked.seed is None else asked.seed
    seconds = asked.seconds or 3.0 * asked.kills
    logs = run_dir() / f"chaos-{asked.flavour}-{seed}-{time.strftime('%Y%m%d-%H%M%S')}"
    say(f"chaos on {asked.flavour}: {asked.kills} kills in about {seconds:.0f} s, seed {seed}, log in {logs}")
    began = time.monotonic()
    with Sandbox(asked.flavour, targets=2) as box:
        if asked.switches:
            wrong, summary = switches.run(box, box.kafka, logs, "switches", switches.Plan(seed, asked.kills))
        else:
            wrong, summary = run(box, box.kafka, logs, "chaos", Plan(seed, seconds, asked.kills), asked.control)
    for line in wrong:
        say(line)
    say(f"seed {seed}: {summary}; {time.monotonic() - began:.0f} s")
    say("WRONG" if wrong else "no difference")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
