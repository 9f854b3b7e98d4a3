"""`migrate doctor`: a line for each part, whatever else is away, and a remedy for what is not in order."""

from __future__ import annotations

import json
from pathlib import Path

from migrate.kafka.admin import describe
from migrate.model.partition import Partition
from migrate.settings import load
from migrate.state import database
from migrate.state.lease import Leases
from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.cli.support import Outcome, config_of, migrate, written
from tests.helpers import address, scratch

NOWHERE = {"host": "127.0.0.1", "port": 1, "user": "u", "password": "not-a-sample"}


def lines(shown: Outcome) -> list[str]:
    assert "Traceback" not in shown.out + shown.err, shown
    return [line.strip() for line in shown.out.splitlines()]


def test_parts_that_are_away_are_lines_and_the_others_are_told_all_the_same(tmp_path: Path, box: Sandbox) -> None:
    raw = config_of(
        box, "nowhere", targets=[{"name": "t0", **NOWHERE}], state=NOWHERE, kafka={"bootstrap": "127.0.0.1:1"}
    )
    shown = migrate(written(tmp_path, raw), "doctor")
    found = lines(shown)
    assert shown.code == 3, shown
    assert any(line.startswith(f"pass  source 'main': {box.flavour} ") for line in found), found
    assert "pass  source 'main': its clock is as this machine's" in found
    for part in ("target 't0' at 127.0.0.1:1", "state server at 127.0.0.1:1", "kafka: Kafka at 127.0.0.1:1"):
        assert len([line for line in found if line.startswith("could not look") and part in line]) == 1, found
    assert "→ check that the broker is up, and that kafka.bootstrap is right" in found


def test_before_init_the_next_command_is_the_remedy(tmp_path: Path, box: Sandbox, kafka: KafkaBroker) -> None:
    raw = config_of(box, "not_begun", kafka={"bootstrap": kafka.bootstrap})
    shown = migrate(written(tmp_path, raw), "doctor", "--json")
    assert shown.code == 3, shown
    results = json.loads(shown.out)
    (one,) = [one for one in results["results"] if one["verdict"] != "pass"]
    assert (results["ok"], one["check"], one["subject"]) == (False, "state", "not_begun_state")
    assert "`migrate init`" in one["mend"]
    checks = {(one["check"], one["subject"]) for one in results["results"]}
    servers = ("source 'main'", "target 't0'", "state server")
    assert {(check, where) for check in ("version", "clock", "disk") for where in servers} <= checks
    assert {("version", "program"), ("kafka", "kafka")} <= checks


def test_processes_that_do_not_run_are_named_and_with_all_of_them_it_is_in_order(
    tmp_path: Path, mariadb_box: Sandbox, kafka: KafkaBroker
) -> None:
    box = mariadb_box
    with scratch(box.source, "doctor") as made:
        box.source.execute("CREATE TABLE t (id INT PRIMARY KEY)", database=made)
        raw = config_of(box, made, name=made, kafka={"bootstrap": kafka.bootstrap, "partitions": 2})
        path = written(tmp_path, {**raw, "state": {**address(box.targets[0]), "database": f"{made}_state"}})
        assert migrate(path, "init").code == 0
        shown = migrate(path, "doctor")
        settings = load(path)
        with database.opened(settings.state) as state:
            leases = Leases(state, made, 60)
            try:
                for one in ("publish:main", "commit", "cleanup", "requeue", "check"):
                    assert leases.acquire(one)
                one_left = migrate(path, "doctor")
                topic = describe(settings.kafka, settings.topic)
                assert topic is not None
                for number in range(2):
                    assert leases.acquire(Partition(made, topic.id, number).lease)
                well = migrate(path, "doctor")
            finally:
                leases.close()
        for server in box.targets:
            server.execute(f"DROP DATABASE IF EXISTS {made}_target", f"DROP DATABASE IF EXISTS {made}_state")
    assert shown.code == 3, shown
    assert "problem  lease publish:main: held by nobody" in lines(shown)
    assert "→ start `migrate run`; `migrate status` says why, where something stopped" in lines(shown)
    assert f"pass  topic {settings.topic}: 2 partitions, 1 of each" in lines(shown)
    assert one_left.code == 3, one_left
    assert "problem  leases of partitions: 0 of 2 held by consumers" in lines(one_left)
    assert well.code == 0, well
    assert "→" not in well.out
