"""`python -m sandbox.demo`: exit status 0 when nothing differs, and no freeze was too long."""

from __future__ import annotations

import argparse
import sys

from sandbox.demo.course import course
from sandbox.demo.run import run
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
    return course(
        "demo",
        f"a {options.flavour} source, two {options.flavour} targets and Kafka",
        lambda: Sandbox(options.flavour, targets=2, kafka=True),
        lambda box: run(box, box.root / "migrate", options.orders),
        "source and target are equal",
    )


if __name__ == "__main__":
    sys.exit(main())
