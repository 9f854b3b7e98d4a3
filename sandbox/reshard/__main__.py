"""`python -m sandbox.reshard`: exit status 0 when nothing differs, and no acknowledged write is lost."""

from __future__ import annotations

import argparse
import sys

from sandbox.demo.course import course
from sandbox.reshard.run import run
from sandbox.settings import Flavour
from sandbox.stack import Sandbox

SMALL = {"innodb_buffer_pool_size": "32M"}
"""Of each server: there are many."""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m sandbox.reshard", description="Re-shard sources that are sharded themselves, there and back."
    )
    parser.add_argument("--flavour", choices=[flavour.value for flavour in Flavour], default="mariadb")
    parser.add_argument("--sources", type=int, default=8, metavar="N", help="source servers, from 2 on (default: 8)")
    parser.add_argument("--orders", type=int, default=64_000, help="rows at the start (default: 64000)")
    options = parser.parse_args()
    if options.sources < 2:
        parser.error("--sources: there must be 2 at least")
    return course(
        "demo-reshard",
        f"{options.sources} {options.flavour} sources, two {options.flavour} targets and Kafka",
        lambda: Sandbox(options.flavour, sources=options.sources, targets=2, kafka=True, options=SMALL),
        lambda box: run(box, box.root / "migrate", options.orders),
        "sources and targets are equal",
    )


if __name__ == "__main__":
    sys.exit(main())
