"""An init that is killed leaves nothing that keeps the next one from going on."""

from __future__ import annotations

from pathlib import Path

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.flow.launcher import run_killed
from tests.flow.support import Pipeline
from tests.helpers import unique

_KILLED_BEFORE = (
    ("migrate.state.database:upgrade", 1),  # the state database is there, and empty
    ("migrate.kafka.admin:create_topic", 2),
    ("migrate.commands.init:create_own_tables", 3),
    ("migrate.commands.init:create_place", 6),
    ("migrate.state.migration:create", 1),
)


def test_an_init_that_is_killed_anywhere_is_gone_on_with(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> None:
    pipeline = Pipeline(box, kafka, tmp_path, unique("ended"))
    for where, call in _KILLED_BEFORE:
        run_killed(pipeline.migration, "before", where, call, "init")
    assert "orders: 0 of 16 target tables created" in pipeline.migration.do("init")
    assert pipeline.differences() == [], "every target table is there"
    assert pipeline.migration.ask("status")["stage"]
