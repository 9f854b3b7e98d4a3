"""A source table over four target tables, on each flavour."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.helpers import scratch
from tests.preflight.support import Case


@pytest.fixture
def case(box: Sandbox, kafka: KafkaBroker) -> Iterator[Case]:
    with scratch(box.source, "leisure") as database:
        made = Case(box, database, kafka.bootstrap)
        made.at_source(
            "CREATE TABLE t (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, user_id BIGINT, v VARCHAR(40))",
            "INSERT INTO t (user_id) WITH RECURSIVE seq (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM seq WHERE n < 900)"
            " SELECT n DIV 2 FROM seq",
        )
        try:
            yield made
        finally:
            for server in box.targets:
                server.execute(f"DROP DATABASE IF EXISTS {database}")
