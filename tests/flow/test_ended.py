"""A process that ends again and again: `migrate status` says why, until it works."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, Flow, wait
from tests.helpers import unique

_MAY = {"mysql": "REPLICATION CLIENT, SELECT, LOCK TABLES", "mariadb": "BINLOG MONITOR, SELECT"}


@pytest.mark.timeout(300)
def test_why_a_publisher_ended_is_told_until_one_works(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> None:
    user = unique("reads")
    box.source.execute(
        f"CREATE USER {user} IDENTIFIED BY 'A-secret-1'", f"GRANT {_MAY[box.source.flavour]} ON *.* TO {user}"
    )
    with closing(Flow(box, kafka, tmp_path, unique("ended"), box.source)) as flow:
        flow.migration.do("init")
        text = flow.migration.config.read_text("utf-8")
        mine = f"port: {box.source.port}, user: {box.source.user}, password: '{box.source.password}'"
        assert mine in text
        flow.migration.config.write_text(
            text.replace(mine, f"port: {box.source.port}, user: {user}, password: 'A-secret-1'", 1), "utf-8"
        )

        def now() -> dict[str, Any]:
            found: dict[str, Any] = flow.migration.ask("status")
            return found

        assert (now()["stage"], now()["next"], now()["endings"]) == ("created", "migrate run", [])
        failed = flow.child("failed", "publish")
        assert failed.wait(SLOW)
        assert failed.returncode == 4
        found = now()
        assert (found["stage"], found["next"]) == ("capturing", "migrate preflight")
        (told,) = [line for line in found["holds_back"] if "the last one ended at" in line]
        assert "a grant is missing" in told
        page = flow.migration.do("status")
        assert "ENDED publish:main at " in page
        assert "docs/grants.md" in page

        box.source.execute(f"GRANT REPLICATION SLAVE ON *.* TO {user}")
        publishing = flow.child("publish", "publish")
        wait(lambda: "ENDED" not in flow.migration.do("status"), "a publisher that works")
        publishing.stop(SLOW)
        assert now()["endings"] == [], "it was stopped"
    box.source.execute(f"DROP USER {user}")
