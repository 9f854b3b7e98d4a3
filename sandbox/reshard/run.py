"""The re-sharding demo's course: load, copy and verify under the application, there, back and there, compare."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from sandbox.demo.config import STATE
from sandbox.demo.migration import Migration
from sandbox.demo.run import end, say, tell_moves
from sandbox.demo.there_and_back import ThereAndBack
from sandbox.reshard import config
from sandbox.reshard.shop import ReshardShop, differences, load
from sandbox.stack import Sandbox


def run(box: Sandbox, directory: Path, orders: int, of: type[Migration] = Migration) -> int:
    """The whole demo. Returns the number of differences and of writes that were lost. Raises SandboxError.

    of: how its commands and processes are started.
    """
    old, migration = len(box.sources), of(box, directory, config.text(box, directory))
    say(f"loading {orders:,} orders into {old} × {old} tables; then the application writes, and gives orders to others")
    load(box, orders)
    try:
        for command in ("preflight", "init"):
            say(migration.do(command).splitlines()[-1])
        migration.start()  # a publisher for each source
        shop = ReshardShop(box, STATE, config.NAME)
        shop.start()
        shop.wait_for(20)
        copied = migration.ask("copy")
        rate = f"{copied['rows_per_second']:,} rows/s"
        say(f"copied {copied['rows_read']:,} rows into {2 * old} × {2 * old} tables, {rate}")
        with closing(ThereAndBack(box, migration, say)) as moving:
            moving.prepare()
            moves = moving.go(shop)
    finally:
        migration.stop()
    end(migration)
    found = differences(box)
    tell_moves(moves, "orders")
    say(f"moved               {shop.moves:>12,}   from one source server to another, at the side that was open")
    for line in found[:20]:
        say(f"  {line}")
    return moves.differences + len(moves.lost) + len(found)
