"""Settings of the source that change while it runs: the publisher stops at the event and names the setting."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, Flow, wait
from tests.helpers import globally, unique


def ended(flow: Flow, label: str) -> tuple[int | None, str]:
    """Exit code and last words of a publisher that is to end by itself."""
    publisher = flow.child(label, "publish", "--source", "main")
    assert publisher.wait(SLOW), "the publisher still runs"
    lines = publisher.log.read_text("utf-8").splitlines()
    return publisher.returncode, next(line for line in lines if line.startswith("migrate: "))


@pytest.mark.parametrize(
    ("setting", "value"),
    [("binlog_row_image", "MINIMAL"), ("binlog_row_image", "NOBLOB"), ("binlog_format", "STATEMENT")],
)
def test_a_setting_that_loses_rows_stops_the_publisher_there_also_after_it_is_mended(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path, setting: str, value: str
) -> None:
    with closing(Flow(box, kafka, tmp_path, unique("settings"), box.source)) as flow:
        flow.migration.do("init")
        publisher = flow.child("publish", "publish", "--source", "main")
        wait(flow.position, "the publisher to begin")
        box.source.execute("INSERT INTO orders VALUES (1, 1, 1, '1')", database=flow.database)
        with globally(box.source, setting, value):
            box.source.execute("UPDATE orders SET value = 2 WHERE id = 1", database=flow.database)
        assert publisher.wait(SLOW), "the publisher still runs"
        position = flow.position()
        said = next(line for line in publisher.log.read_text("utf-8").splitlines() if line.startswith("migrate: "))
        assert publisher.returncode == 5
        assert setting in publisher.log.read_text("utf-8")
        assert f"source 'main' {position['file']}:" in said
        box.source.execute("UPDATE orders SET value = 3 WHERE id = 1", database=flow.database)  # as it should be
        assert ended(flow, "publish-again") == (5, said)
        assert flow.position() == position
        (halted,) = flow.migration.ask("status")["halted"]
        assert f"migrate: {halted['reason']}" == said
