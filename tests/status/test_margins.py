"""What is left before something runs out, of real servers and a real broker."""

from __future__ import annotations

from pathlib import Path

from migrate.kafka import admin
from migrate.state import database
from migrate.status import margins
from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.helpers import address, globally, make_settings, unique


def test_what_each_server_keeps_is_read_and_one_that_is_away_is_unknown(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    name = unique("margins")
    settings = make_settings(
        name=name,
        state={**address(box.targets[0]), "database": name},
        sources=[{"name": "s", **address(box.source)}],
        targets=[
            {"name": "t0", **address(box.targets[0])},
            {"name": "t1", **address(box.targets[1], port=1)},
        ],
        kafka={"bootstrap": kafka.bootstrap, "retention_hours": 5},
        run_dir=str(tmp_path / "not" / "there"),
    )
    database.create(settings.state)
    admin.create_topic(settings.kafka, settings.topic, 1)
    try:
        with globally(box.source, "binlog_expire_logs_seconds", 7200), database.opened(settings.state) as state:
            found = margins.read(state, settings)
        with globally(box.source, "binlog_expire_logs_seconds", 0), database.opened(settings.state) as state:
            for_ever = margins.read(state, settings)
    finally:
        box.targets[0].execute(f"DROP DATABASE IF EXISTS {name}", f"DROP DATABASE IF EXISTS {name}_shadow")
        admin.delete_topics(settings.kafka, [settings.topic])
    assert found.kept == {"s": 7200.0, "kafka": 5 * 3600.0}
    assert found.unknown == {"target 't1'"}
    assert found.free["run_dir"] > 0
    assert "s" not in for_ever.kept
