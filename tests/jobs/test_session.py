"""Spark's session: one a process, started with nothing secret, and a plain word when it does not start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs.session import spark_session
from tests.helpers import make_settings

_ROOT = Path(__file__).resolve().parents[2]
_START = """
from pathlib import Path
from jobs.session import spark_session
from migrate.model.errors import MigrateError
from tests.helpers import make_settings
try:
    with spark_session(make_settings(run_dir={directory!r}), "local[1]"):
        pass
except MigrateError as error:
    print(error.exit_code, error)
"""


def test_a_process_has_one_session(spark: SparkSession, tmp_path: Path) -> None:
    with spark_session(make_settings(run_dir=str(tmp_path)), "local[1]") as again:
        assert again is spark
    assert spark.range(1).count() == 1, "the inner block ended the session"


def test_what_its_jvm_unpacks_is_removed_with_its_files(spark: SparkSession) -> None:
    jvm: Any = spark.sparkContext._jvm
    unpacked = Path(jvm.java.lang.System.getProperty("java.io.tmpdir"))
    assert (unpacked.name, unpacked.is_dir()) == (f"local-{os.getpid()}", True)


def test_no_task_runs_twice(spark: SparkSession) -> None:
    settings = dict(spark.sparkContext.getConf().getAll())
    assert (settings["spark.speculation"], settings["spark.task.maxFailures"]) == ("false", "1")


def test_its_classes_come_out_of_the_archive_that_make_servers_wrote(tmp_path: Path) -> None:
    loaded = tmp_path / "loaded"
    env = {**os.environ, "JDK_JAVA_OPTIONS": f"-Xlog:class+load:file={loaded}"}
    script = _START.format(directory=str(tmp_path))
    subprocess.run([sys.executable, "-c", script], cwd=_ROOT, env=env, check=True, timeout=120, capture_output=True)
    assert loaded.read_text("utf-8").count("source: shared objects file (top)") > 1000


def test_without_java_it_says_what_is_missing(tmp_path: Path) -> None:
    script = _START.format(directory=str(tmp_path))
    env = {**os.environ, "JAVA_HOME": str(tmp_path / "nowhere")}
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=_ROOT, env=env, capture_output=True, text=True, timeout=120
    )
    assert ran.stdout.startswith("3 Spark did not start: "), ran.stdout + ran.stderr
    assert "it needs Java 17 or later" in ran.stdout
    assert "nowhere/bin/java" in (tmp_path / "spark" / "spark.log").read_text()
    assert ran.stderr == ""


_ENVIRONMENT = """
import json, os
from jobs.session import spark_session
from tests.helpers import make_settings
canary = "canary-4711-0815"
settings = make_settings(
    run_dir={directory!r},
    web={{"token": canary}},
    kafka={{"bootstrap": "x", "security": {{"sasl.password": canary + "k"}}}},
)
with spark_session(settings, "local[1]") as session:
    jvm = dict(session.sparkContext._jvm.java.lang.System.getenv())
    task = session.sparkContext.parallelize([0], 1).map(lambda _: dict(os.environ)).first()
print(json.dumps([jvm, task, dict(os.environ)]))
"""
SECRETS = {"WEB_TOKEN": "canary-4711-0815", "KAFKA_PW": "canary-4711-0815k", "SOURCE_PASSWORD": "not-a-sample"}
Environment = dict[str, str]


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Environment]]:
    """A process of its own that had a session: the directory, with what others left there before, and the environments
    of its JVM, of a task and its own."""
    directory = tmp_path_factory.mktemp("other")
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for owner in (ended.pid, os.getppid()):
        (directory / "spark" / f"local-{owner}").mkdir(parents=True)
    script, env = _ENVIRONMENT.format(directory=str(directory)), {**os.environ, **SECRETS, "HARMLESS": "canary"}
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=_ROOT, env=env, check=True, capture_output=True, timeout=120
    )
    return directory, json.loads(ran.stdout.splitlines()[-1])


def test_what_killed_processes_left_is_removed(other: tuple[Path, list[Environment]]) -> None:
    directory, _ = other
    left = [entry.name for entry in (directory / "spark").iterdir() if entry.name.startswith("local-")]
    assert left == [f"local-{os.getppid()}"], "nothing but another process's files"


def test_its_processes_inherit_no_secret_of_the_config(other: tuple[Path, list[Environment]]) -> None:
    """Lost to who reads a worker's environment: passwords."""
    _, (jvm, task, ours) = other
    for inherited in (jvm, task):
        assert (SECRETS.keys() & inherited.keys(), inherited["HARMLESS"]) == (set(), "canary")
    assert SECRETS.items() <= ours.items(), "the process itself needs them"
