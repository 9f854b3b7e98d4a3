"""`python -m sandbox.demo`: exit status 0 when nothing differs, and no freeze was too long."""

from __future__ import annotations

import argparse
import signal
import sys
import time

from sandbox.demo.run import run, say
from sandbox.errors import SandboxError
from sandbox.paths import run_dir
from sandbox.settings import Flavour
from sandbox.stack import Sandbox


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m sandbox.demo", description="Migrate a real database live, and verify it."
    )
    parser.add_argument("--flavour", choices=[flavour.value for flavour in Flavour], default="mariadb")
    parser.add_argument(
        "--orders", type=int, default=200_000, help="rows of the generated orders table (default: 200000)"
    )
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    run_dir().mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    try:
        say(f"starting a {options.flavour} source, two {options.flavour} targets and Kafka")
        with Sandbox(options.flavour, targets=2, kafka=True) as box:
            differences = run(box, box.root / "migrate", options.orders)
    except (SandboxError, KeyboardInterrupt) as error:
        say(f"demo: {error or 'interrupted'}")
        return 1
    verdict = "source and target are equal" if not differences else f"{differences} DIFFERENCES"
    say(f"\n{verdict}; {time.monotonic() - began:.0f} s in all; every server is stopped")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
