"""What Spark's tasks are given: the accounts at sources and targets, and no other secret."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from pyspark.serializers import CloudPickleSerializer

from jobs import full_copy, verify
from migrate.copy.tasks import CopyJob
from migrate.verify.chunk_check import CheckJob
from sandbox.stack import Sandbox
from tests.copy.setup import lay, spread
from tests.helpers import address, make_settings, plain_table, plan_of, unique

CANARY = "canary-4711"
FILL = "INSERT INTO {t} WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 60) SELECT n FROM s"


@pytest.fixture
def shipped(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Everything that the driver pickles for its executors."""
    found: list[bytes] = []
    dumps = CloudPickleSerializer.dumps

    def noted(self: CloudPickleSerializer, value: object) -> bytes:
        found.append(dumps(self, value))  # type: ignore[no-untyped-call]
        return found[-1]

    monkeypatch.setattr(CloudPickleSerializer, "dumps", noted)
    return found


def secrets(**state: Any) -> dict[str, Any]:
    """Every section of the config that has a secret, besides sources and targets."""
    return {
        "state": {**state, "database": unique("shipped")},
        "kafka": {"bootstrap": "127.0.0.1:1", "security": {"sasl.username": "u", "sasl.password": f"{CANARY}-kafka"}},
        "web": {"token": f"{CANARY}-web-shared", "tokens": {"web-1": f"{CANARY}-web-instance"}},
        "copy": {"master": "local[2]", "throttle": {"replicas": [state], "max_replica_lag_seconds": 0}},
        "verify": {"master": "local[2]", "rechecks": 1, "recheck_seconds": 0.1},
    }


@pytest.mark.usefixtures("spark")
def test_a_copy_and_a_verification_ship_no_secret_but_those_of_sources_and_targets(
    mariadb_box: Sandbox, tmp_path: Path, shipped: list[bytes]
) -> None:
    """Lost to who has Spark's machines: the passwords of the state, of Kafka and of the web."""
    server, account = mariadb_box.targets[0], unique("account")
    server.execute(f"CREATE USER {account}@'%' IDENTIFIED BY '{CANARY}-state'", f"GRANT ALL ON *.* TO {account}@'%'")
    extra = secrets(**address(server, user=account, password=f"{CANARY}-state"))
    create = "CREATE TABLE {t} (id INT PRIMARY KEY)"
    laid = lay(mariadb_box, tmp_path, create, spread("id", "t"), fill=[FILL], extra=extra)
    full_copy.run(laid.settings)
    copied = len(shipped)
    verify.run(laid.settings)
    assert 0 < copied < len(shipped)
    assert all(any(mariadb_box.source.password.encode() in one for one in some) for some in (shipped[:copied], shipped))
    assert [one[max(0, one.index(CANARY.encode()) - 200) :][:300] for one in shipped if CANARY.encode() in one] == []


def test_a_job_holds_no_other_secret_whatever_it_is_made_with() -> None:
    """Lost to a worker of Spark: the secrets of state, Kafka and web, which it does not need."""
    server = {"host": "127.0.0.1", "port": 3306, "user": "u", "password": f"{CANARY}-state"}
    settings = make_settings(**secrets(**server))
    assert CANARY.encode() in pickle.dumps(settings)
    (planned,) = plan_of(plain_table(), settings=settings).tables.values()
    for job in (CopyJob(settings, planned), CheckJob(settings, (planned,))):
        assert CANARY not in repr(job)
        text = pickle.dumps(job)
        assert CANARY.encode() not in text
        assert b"not-a-sample" in text, "its sources and targets are there"
        again: CopyJob | CheckJob = pickle.loads(text)  # noqa: S301 - our own
        assert again.settings.targets == settings.targets
        assert again.settings.copy_.chunk_rows == settings.copy_.chunk_rows
        with pytest.raises(AttributeError):
            _ = again.settings.state
