"""A cutover and foreign keys that cascade outside the binlog: MariaDB's (tests/preflight/test_cascades.py has both)."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import Flow
from tests.helpers import unique

_ABOVE = ", above BIGINT UNSIGNED NULL, CONSTRAINT up FOREIGN KEY (above) REFERENCES orders (id) ON DELETE CASCADE"


def test_a_cutover_refuses_tables_that_change_outside_the_binlog_unless_they_are_said_not_to(
    mariadb_box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    box = mariadb_box
    with closing(Flow(box, kafka, tmp_path, unique("cascade"), box.source, columns=_ABOVE)) as flow:
        told = f"{flow.database}.orders: rows that these foreign keys change by cascade are not in the binlog: up"
        flow.migration.do("init")
        flow.migration.do("--reverse", "init")

        def refused() -> str:
            child = flow.migration.run("cutover")
            assert child.returncode == 3
            assert "no clean verification of all tables" in child.stderr, "the rest is named as ever"
            return child.stderr

        assert f"{told} (ON DELETE CASCADE); drop the cascade" in refused()
        config = flow.migration.config
        config.write_text(config.read_text("utf-8") + "cutover: {cascades: unused}\n", "utf-8")
        assert told not in refused()
