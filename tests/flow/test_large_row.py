"""A row of 64 MB: above the limit it stops the publisher by name, below it arrives, in bounded memory."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # they are there
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, Flow, wait
from tests.helpers import log_end, memory_mb, unique

_SIZE = 64 * 1024 * 1024
_RAISED = 200_000_000  # its bytes above 0x7F take two in JSON, some of those below 0x20 take six
_BOUND_MB = 1000
"""It takes about 750: the row twice in an update's event, as text, in its message, and in the client's copy of that."""


def test_a_row_of_64_mb_stops_by_name_and_arrives_once_the_limit_is_raised(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    with closing(
        Flow(box, kafka, tmp_path, unique("mb64"), box.source, columns=", body LONGBLOB NULL", lease=60)
    ) as flow:
        flow.migration.do("init")
        first = flow.child("publish", "publish", "--source", "main")
        wait(flow.position, "the publisher to begin")
        flow.start_targets()
        every = bytes(range(256)).hex()
        box.source.execute(
            "INSERT INTO orders VALUES (1, 1, 1, '', NULL)",
            f"INSERT INTO orders VALUES (2, 2, 2, '', REPEAT(x'{every}', {_SIZE // 256}))",
            "UPDATE orders SET value = 3 WHERE id = 2",
            "INSERT INTO orders VALUES (3, 3, 3, '', x'00')",
            database=flow.database,
        )
        assert first.wait(SLOW), "the publisher still runs"
        assert first.returncode == 5
        (halted,) = flow.migration.ask("status")["halted"]
        assert f'{flow.database}.orders key ["2"] at (1, ' in halted["reason"]
        assert "raise kafka.max_message_bytes and the topic's max.message.bytes" in halted["hint"]

        raised = ConfigEntry("max.message.bytes", str(_RAISED), incremental_operation=AlterConfigOpType.SET)
        topic = ConfigResource(ResourceType.TOPIC, f"migrate.{flow.name}", incremental_configs=[raised])
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        admin.incremental_alter_configs([topic])[topic].result(20)
        config = flow.migration.config
        config.write_text(
            config.read_text("utf-8").replace("max_message_bytes: 1000000", f"max_message_bytes: {_RAISED}")
        )
        again = flow.child("publish-again", "publish", "--source", "main")
        wait(lambda: (flow.position()["file"], flow.position()["pos"]) >= log_end(box.source), "all to be published")
        assert memory_mb(again.pid) < _BOUND_MB
        flow.drain()
        assert again.running
        assert flow.differences(box.source) == []
        assert sorted(flow.source_rows(box.source)) == [1, 2, 3]
