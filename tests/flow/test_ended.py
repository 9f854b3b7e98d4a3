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
        assert (found["stage"], found["next"]) == ("created", "migrate preflight"), "it has no place in a log yet"
        (told,) = [line for line in found["holds_back"] if "the last one ended at" in line]
        assert "a grant is missing" in told
        page = flow.migration.do("status")
        assert "ENDED publish:main at " in page
        assert "docs/grants.md" in page
        again = flow.child("again", "publish")
        wait(lambda: not again.running or flow.state_of("SELECT COUNT(*) FROM ending")[0][0] == 0, "the next one's end")
        assert again.returncode == 4, "its end was cleared before it failed again"

        box.source.execute(f"GRANT REPLICATION SLAVE ON *.* TO {user}")
        publishing = flow.child("publish", "publish")
        wait(lambda: "ENDED" not in flow.migration.do("status"), "a publisher that works")
        publishing.stop(SLOW)
        assert now()["endings"] == [], "it was stopped"
    box.source.execute(f"DROP USER {user}")


@pytest.mark.timeout(300)
def test_how_one_ended_is_over_once_another_works(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> None:
    """When everything is killed later, `migrate run` is next, and not a look at what was the matter days ago."""
    with closing(Flow(box, kafka, tmp_path, unique("ended"), box.source, lease=2)) as flow:
        flow.migration.do("init")
        processes = ("publish", "consume", "commit", "requeue", "check")
        for process in processes:
            name = "publish:main" if process == "publish" else process
            flow.state(
                "INSERT INTO ending (migration, process, reason, hint, at)"
                f" VALUES ('{flow.name}', '{name}', 'it was away', '', NOW(6) - INTERVAL 3 DAY)"
            )
        children = [flow.child(process, process) for process in processes]
        left = "SELECT process FROM ending"
        wait(lambda: not flow.state_of(left), "each to work")
        assert all(child.running for child in children)
        for child in children:
            child.kill()
        wait(
            lambda: not flow.state_of("SELECT name FROM lease WHERE expires > NOW(6)"), "the leases of the killed ones"
        )
        found = flow.migration.ask("status")
        assert (found["next"], found["endings"]) == ("migrate run", [])
