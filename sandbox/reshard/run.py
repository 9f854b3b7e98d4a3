"""The re-sharding demo's course: load, copy and verify under the application, there, back and there, compare."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from sandbox.demo.config import STATE
from sandbox.demo.migration import Migration
from sandbox.demo.run import end, say, tell_moves
from sandbox.demo.there_and_back import Moves, ThereAndBack
from sandbox.reshard import config
from sandbox.reshard.shop import ReshardShop, differences, load
from sandbox.stack import Sandbox


class Reshard:
    """The steps, so that a test can put something between them."""

    def __init__(self, box: Sandbox, directory: Path, orders: int) -> None:
        self.box = box
        self.migration = Migration(box, directory, config.text(box, directory))
        self._orders = orders
        self.shop: ReshardShop | None = None

    def prepare(self) -> ReshardShop:
        """Preflight, init, a publisher for each source and the other processes, and the application."""
        load(self.box, self._orders)
        say(self.migration.do("preflight").splitlines()[-1])
        say(self.migration.do("init").splitlines()[-1])
        self.migration.start()
        self.shop = ReshardShop(self.box, STATE, config.NAME)
        self.shop.start()
        self.shop.wait_for(20)
        return self.shop

    def there_and_back(self, shop: ReshardShop) -> Moves:
        """The reverse stream, a verification, cutover, rollback and cutover, under the application; then it ends."""
        with closing(ThereAndBack(self.box, self.migration, say)) as moving:
            moving.prepare()
            return moving.go(shop)


def run(box: Sandbox, directory: Path, orders: int) -> int:
    """The whole demo. Returns the number of differences and of writes that were lost. Raises SandboxError."""
    made, old = Reshard(box, directory, orders), len(box.sources)
    say(f"loading {orders:,} orders into {old} × {old} tables; then the application writes, and gives orders to others")
    try:
        shop = made.prepare()
        copied = made.migration.ask("copy")
        rate = f"{copied['rows_per_second']:,} rows/s"
        say(f"copied {copied['rows_read']:,} rows into {2 * old} × {2 * old} tables, {rate}")
        moves = made.there_and_back(shop)
    finally:
        made.migration.stop()
    end(made.migration)
    found = differences(box)
    tell_moves(moves, "orders")
    say(f"moved               {shop.moves:>12,}   from one source server to another, at the side that was open")
    for line in found[:20]:
        say(f"  {line}")
    return moves.differences + len(moves.lost) + len(found)
