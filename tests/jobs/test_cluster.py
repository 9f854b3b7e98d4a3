"""Copy and verification on a standalone Spark cluster, where no worker has the project."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from migrate.model.errors import ConfigError
from sandbox.ports import free_port
from sandbox.stack import Sandbox
from tests.copy.setup import Laid, lay, spread
from tests.jobs.cluster import SPARK_HOME, Cluster, command_line, kill, parents
from tests.jobs.commands import attempts, config_of, ended, held, run, started
from tests.jobs.test_full_copy import CREATE, numbers, raw_rows
from tests.sharding.test_class_based import install
from tests.waiting import until as wait

_ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
_SPECULATING = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from jobs import full_copy
from migrate.settings import load
settings = load(Path(sys.argv[1]))
options = {
    **settings.spark_conf,
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.task.duration.threshold": "200ms",
    "spark.ui.enabled": "false",
}
builder = SparkSession.builder.master(settings.copy_.master)
for name, value in options.items():
    builder = builder.config(name, value)
builder.getOrCreate()
print(full_copy.run(settings).rows_read)
"""

FUNCTION = """\
def by_half(value, names, props):
    return names[value // 7 % len(names)]
"""
POINTS = "[migrate.sharding]\ncom.example.ByHalf = halves_of_a_shop:by_half\n"


@pytest.fixture(scope="module")
def cluster(run_root: Path) -> Iterator[Cluster]:
    with Cluster(run_root / "spark") as started:
        yield started


def laid_on(
    cluster: Cluster, box: Sandbox, directory: Path, rows: int, chunk: int, by: dict[str, Any] | None = None
) -> tuple[Laid, Path]:
    """A migration with that many rows, and its config file."""
    extra: dict[str, Any] = {
        "copy": {"chunk_rows": chunk, "chunks_at_once": 2, "master": cluster.master},
        "verify": {"chunk_rows": chunk, "master": cluster.master, "rechecks": 0},
        "spark_conf": cluster.conf(),
    }
    laid = lay(box, directory, CREATE, by or spread("id", "t"), fill=numbers(rows), extra=extra)
    return laid, config_of(laid, directory)


def test_the_copy_goes_on_when_an_executor_and_a_worker_die_in_mid_chunk(
    box: Sandbox, cluster: Cluster, tmp_path: Path
) -> None:
    cluster.complete()
    laid, config = laid_on(cluster, box, tmp_path, rows=4000, chunk=200)
    copy = started(config, "copy")
    with held(laid, copy, 2, cluster.told):
        executors = cluster.executors()
        assert len(executors) == 2
        secrets = {laid.box.source.password, *(target.password for target in laid.box.targets)}
        shown = "".join(map(command_line, parents())) + cluster.page()
        kill(executors[0])
        wait(lambda: executors[0] not in cluster.executors(), "the executor's end")
    with held(laid, copy, 2, cluster.told):
        cluster.kill_worker()
    told = ended(copy)
    assert "copied 4000 rows" in told
    assert "executor" in told
    assert "An error occurred" not in told, "the reason is not told"
    assert max(attempts(laid)) > 1, "nothing was under way when they died"
    here, there = raw_rows(laid)
    assert here == there
    cluster.complete()
    laid.connect(0).execute("UPDATE t_0 SET v = 'other' WHERE id = 8")
    told = ended(started(config, "verify"), code=1)
    assert "4000 rows" in told
    assert "1 difference; first: " in told
    assert 'key ["8"] different' in told
    assert not [secret for secret in secrets if secret in shown + written(cluster.directory)]


def written(directory: Path) -> str:
    """Everything that the cluster has on its disk: logs, its applications' folders."""
    files = [path for path in directory.rglob("*") if path.is_file() and path.suffix not in (".zip", ".jar")]
    assert [path for path in files if path.name == "stderr"], "no log of an executor"
    return "".join(path.read_text("utf-8", errors="replace") for path in files)


def test_spark_submit_runs_the_bundle_from_an_empty_folder(
    mysql_box: Sandbox, cluster: Cluster, tmp_path: Path
) -> None:
    cluster.complete()
    laid, config = laid_on(cluster, mysql_box, tmp_path, rows=1000, chunk=200)
    bundle, empty = tmp_path / "bundle", tmp_path / "empty"
    empty.mkdir()
    assert "migrate.zip" in ended(started(config, "bundle", str(bundle)))
    environment = cluster.environment(PYSPARK_PYTHON=str(cluster.python))

    def submit(script: str) -> str:
        command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", cluster.master]
        command += ["--conf", "spark.speculation=true", "--py-files", str(bundle / "migrate.zip")]
        command += [str(bundle / script), "--config", str(config)]
        return ended(run(command, empty, environment))

    assert "1000 rows read" in submit("full_copy.py")
    here, there = raw_rows(laid)
    assert here == there
    assert "0 differences" in submit("verify.py")


def test_a_class_that_decides_has_its_function_at_the_workers_too(
    mariadb_box: Sandbox, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the package there a copy says which is missing, and copies nothing."""
    cluster.complete()
    install(tmp_path, "halves_of_a_shop", FUNCTION, POINTS)
    monkeypatch.syspath_prepend(tmp_path)  # where the rule is built, here and in the commands
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(tmp_path), str(_ROOT))))
    level = {
        "column": "id",
        "algorithm": "CLASS_BASED",
        "props": {"strategy": "STANDARD", "algorithmClassName": "com.example.ByHalf"},
        "examples": [[1, "t_0"], [6, "t_0"], [7, "t_1"]],
    }
    laid, config = laid_on(cluster, mariadb_box, tmp_path, 600, 100, {**spread("id", "t"), "table": level})
    refused = ended(started(config, "copy"), code=ConfigError.exit_code)
    assert "at Spark's workers: table " in refused.splitlines()[-2], refused
    assert "com.example.ByHalf decides" in refused.splitlines()[-2]
    assert "install the same packages for their Python" in refused.splitlines()[-1]
    assert raw_rows(laid)[1] == []

    packages = cluster.directory / "packages"
    packages.mkdir()
    install(packages, "halves_of_a_shop", FUNCTION, POINTS)
    assert "copied 600 rows" in ended(started(config, "copy"))
    here, there = raw_rows(laid)
    assert here == there
    assert {id_ // 7 % 2 for place in (0, 2, 4, 6) for (id_,) in laid.connect(place).query("SELECT id FROM t_0")} == {0}
    assert "0 differences" in ended(started(config, "verify"))


def test_a_task_that_spark_runs_twice_at_a_time_writes_nothing_twice(
    mariadb_box: Sandbox, cluster: Cluster, tmp_path: Path
) -> None:
    """In a session that others began, with speculation: ours have none."""
    cluster.complete()
    laid, config = laid_on(cluster, mariadb_box, tmp_path, rows=500, chunk=1000)
    environment = {**os.environ, "PYSPARK_PYTHON": str(cluster.python)}
    command = [sys.executable, "-c", _SPECULATING, str(config)]
    copy = run(command, _ROOT, environment)
    with held(laid, copy, 1):
        wait(lambda: max(attempts(laid)) > 1, "the chunk's second attempt")
    assert ended(copy).splitlines()[-1] == "500"
    here, there = raw_rows(laid)
    assert here == there


def test_a_verification_whose_driver_was_killed_is_gone_on_with(
    mariadb_box: Sandbox, cluster: Cluster, tmp_path: Path
) -> None:
    cluster.complete()
    laid, config = laid_on(cluster, mariadb_box, tmp_path, rows=2000, chunk=500)
    assert "copied 2000 rows" in ended(started(config, "copy"))
    for number in (8, 1992):
        laid.connect(0).execute("UPDATE t_0 SET v = 'other' WHERE id = %s", (number,))
    config_of(laid, tmp_path, verify={**laid.raw["verify"], "chunk_rows": 20}, lease={"seconds": 2})
    verification = started(config, "verify")

    def rows_before() -> int:
        """Compared, by what the state has."""
        with laid.state().connect() as connection:
            kept = connection.exec_driver_sql("SELECT progress FROM verification_progress").scalars().all()
        return int(json.loads(kept[0])["rows"]) if kept else 0

    wait(lambda: rows_before() or verification.poll() is not None, "progress that is kept")
    with held(laid, verification, 2):
        verification.kill()
        verification.communicate()
    before = rows_before()
    assert 0 < before < 1900
    told = ended(started(config, "verify"), code=1)
    assert f"{before} rows compared before" in told
    assert "resumed   1 time" in told
    assert ": 2000 rows in 101 chunks over 8 places, 2 differences" in told
    assert ("different 8: " in told, "different 1992: " in told) == (True, True)


def test_a_master_that_does_not_answer_is_named_at_once(mysql_box: Sandbox, cluster: Cluster, tmp_path: Path) -> None:
    laid, config = laid_on(cluster, mysql_box, tmp_path, rows=10, chunk=10)
    nobody = f"spark://127.0.0.1:{free_port()}"
    config_of(laid, tmp_path, copy={"master": nobody})
    assert f"no Spark master answers at {nobody}" in ended(started(config, "copy"), code=3)
