"""The re-sharding demo, small: two sources that are sharded themselves, each with a publisher of its own.

Costs 118 s on two busy cores (ten processes that want to run): servers of its own, and the whole course. Its commands
and processes are forked, without supervisors, which took 80 s more; `make demo-reshard SOURCES=2` has them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.reshard.__main__ import SMALL
from sandbox.reshard.run import run
from sandbox.reshard.shop import Order, at_sources, differences
from sandbox.settings import Flavour
from sandbox.stack import Sandbox
from tests.forked import Unsupervised

pytestmark = pytest.mark.timeout(900)


def test_two_sharded_sources_are_left_entered_and_left_again_while_rows_move_between_them(
    flavour: Flavour, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Sandbox(flavour, sources=2, targets=2, kafka=True, options=SMALL) as box:
        assert run(box, tmp_path, orders=2_000, of=Unsupervised) == 0
        told = capsys.readouterr().out
        assert "writes lost                    0" in told
        assert all(f"freeze, {command}" in told for command in ("predicted", "cutover", "rollback"))
        assert len({row.database for row in at_sources(box)}) == 2
        first: Order = min(at_sources(box), key=lambda row: row.id)
        move = f"UPDATE orders_{first.table} SET user_id = user_id + 1 WHERE id = {first.id}"
        box.sources[first.database].execute("SET GLOBAL read_only = 0", move, database=f"old_{first.database}")
        assert f"order {first.id} is misplaced at the sources" in differences(box), "the demo's own comparison"
