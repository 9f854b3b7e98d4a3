"""A failover by time goes back before statements that changed the table: rows have their columns of then, or it stops.

With `binlog_row_metadata=MINIMAL` the log does not name columns, so that wrong ones would be taken without a word.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.replicated import Replicated, replicated
from tests.failover.support import TABLES, wait

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
_BACK = 4  # seconds
_ROW = "INSERT INTO orders (id, user_id, value, history, a, b) VALUES ({0}, {0}, 1, '', {1}, {2})"


@contextmanager
def failed_over_behind(
    alter: str, box: Sandbox, kafka: KafkaBroker, directory: Path, root: Path
) -> Iterator[Replicated]:
    """Row 1, the statement, row 2, all of one second; each published and applied. Then another server, without GTID."""
    with replicated(
        box,
        kafka,
        directory,
        root,
        gtid=False,
        back=_BACK,
        options={"binlog_row_metadata": "MINIMAL"},
        columns=", a INT NULL, b INT NULL",
        table="    ddl: ignore\n",
    ) as made:
        begun = time.monotonic()
        made.primary.execute(_ROW.format(9, 9, 9), database=made.flow.database)
        wait(lambda: time.monotonic() > begun + _BACK + 2, "a transaction from before the interval")
        then = f"SET timestamp = {int(time.time())}"
        made.primary.execute(then, _ROW.format(1, 1, 2), database=made.flow.database)
        made.flow.drain()
        for number in range(TABLES):
            made.flow.box.targets[number].execute(
                *(f"ALTER TABLE orders_{table} {alter}" for table in range(TABLES)),
                database=f"{made.flow.name}_{number}",
            )
        made.primary.execute(then, f"ALTER TABLE orders {alter}", _ROW.format(2, 3, 4), database=made.flow.database)
        made.fail_over(made.forget_gtids)
        made.flow.migration.start()
        yield made


@pytest.mark.parametrize(
    "alter",
    ["ADD COLUMN extra INT NOT NULL DEFAULT 3 AFTER user_id", "MODIFY COLUMN a INT NULL AFTER b"],
    ids=["added", "reordered"],
)
def test_rows_from_before_a_statement_have_the_columns_of_then(
    alter: str, box: Sandbox, kafka: KafkaBroker, tmp_path: Path, run_root: Path
) -> None:
    with failed_over_behind(alter, box, kafka, tmp_path, run_root) as made:
        wait(made.switched, "the publisher to go on")
        made.flow.drain()
        assert made.flow.differences(made.replica) == []
        assert len(made.flow.source_rows(made.replica)) == 3
        made.primary = made.replica
        made.primary.execute(_ROW.format(3, 5, 6), database=made.flow.database)
        made.flow.drain()
        assert made.flow.differences(made.replica) == []


def test_before_a_statement_that_renames_columns_nothing_is_published_again(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path, run_root: Path
) -> None:
    """The targets have the new names: a row from before it, with its names of then, would put its values wrong."""
    swap = "CHANGE COLUMN a b INT NULL, CHANGE COLUMN b a INT NULL"
    with failed_over_behind(swap, box, kafka, tmp_path, run_root) as made:
        halted = wait(lambda: made.status()["halted"], "the publisher to stop")
        assert f"may have given columns of {made.flow.database}.orders other names" in halted[0]["reason"]
        assert not made.switched()
        assert made.flow.differences(made.replica) == []
