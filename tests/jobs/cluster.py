"""A standalone Spark cluster from the pip package: a master and workers as processes, on the loopback interface."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyspark

from sandbox.ports import free_port
from sandbox.process import Child
from tests.waiting import until as wait

SPARK_HOME = Path(pyspark.__file__).parent
_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_EXECUTOR = "CoarseGrainedExecutorBackend"
_PACKAGES = SPARK_HOME.parent
EXECUTOR = {"spark.executor.memory": "512m", "spark.executor.extraJavaOptions": _JAVA}


class Cluster:
    """Started by `with`; each worker has one core, so that each executor runs one task."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True)
        self._port, self._web = free_port(), free_port()
        self.master = f"spark://127.0.0.1:{self._port}"
        self.python = bare_python(directory)
        self._master = Child("spark master", directory / "master.log", directory)
        self._workers = [Child(f"spark worker {i}", directory / f"worker{i}.log", directory) for i in range(2)]

    def __enter__(self) -> Cluster:
        java = "org.apache.spark.deploy.master.Master"
        where = ["--host", "127.0.0.1", "--port", str(self._port), "--webui-port", str(self._web)]
        self._master.start([str(SPARK_HOME / "bin" / "spark-class"), java, *where], self.environment())
        self._master.wait_until_ready(lambda: None if self._told() else "its page does not answer", 90)
        self.complete()
        return self

    def __exit__(self, *_: object) -> None:
        for child in (*self._workers, self._master):
            child.kill()

    def complete(self) -> None:
        """Start the workers that do not run; wait until the master knows all of them."""
        for index, worker in enumerate(self._workers):
            if not worker.running:
                home = self.directory / f"worker{index}"
                host = f"127.0.0.{1 + index}"  # a task's twin goes to another host
                options = ["--host", host, "--cores", "1", "--memory", "600m", "--work-dir", str(home)]
                options += ["--webui-port", "0", self.master]
                java = "org.apache.spark.deploy.worker.Worker"
                self._workers[index].start(
                    [str(SPARK_HOME / "bin" / "spark-class"), java, *options], self.environment()
                )
        wait(lambda: (self._told() or {}).get("aliveworkers") == len(self._workers), "the workers to register")

    def environment(self, **more: str) -> dict[str, str]:
        """Where neither the project nor this test's own Python can be found."""
        kept = {name: os.environ[name] for name in ("PATH", "JAVA_HOME", "LANG") if name in os.environ}
        return {
            **kept,
            "HOME": str(self.directory),
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self.directory / "local"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": _JAVA,
            **more,
        }

    def conf(self) -> dict[str, str]:
        """`spark_conf` of a migration that runs here."""
        address = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        return {**EXECUTOR, **address, "spark.pyspark.python": str(self.python)}

    def page(self) -> str:
        """What the master's page says, for people and for programs."""
        found = ""
        for path in ("", "json/"):
            with urllib.request.urlopen(f"http://127.0.0.1:{self._web}/{path}", timeout=10) as answer:
                found += answer.read().decode()
        return found

    def told(self) -> str:
        """What master and workers know of each other, and the last lines of each log, for a test that fails."""
        logs = [path for path in self.directory.rglob("*") if path.suffix == ".log" or path.name == "stderr"]
        newest = sorted(logs, key=lambda path: path.stat().st_mtime)[-6:]
        last = "\n".join(f"{path}: {path.read_text('utf-8', errors='replace')[-2000:]}" for path in newest)
        return f"executors {self.executors()}, master {self._told()}\n{last}"

    def executors(self) -> list[int]:
        """Process ids of the executors that run below our workers."""
        mine = {worker.pid for worker in self._workers if worker.running}
        return sorted(pid for pid, parent in parents().items() if parent in mine and _EXECUTOR in command_line(pid))

    def kill_worker(self) -> None:
        self._workers[-1].kill()

    def _told(self) -> Mapping[str, Any] | None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._web}/json/", timeout=10) as answer:
                told: Mapping[str, Any] = json.load(answer)
                return told
        except (OSError, ValueError):  # while it starts, another page may answer at this address
            return None


def bare_python(directory: Path) -> Path:
    """This Python with the packages that the project needs, and those that a test installs in `packages`, and without
    the project, which is only in .venv."""
    script, installed = directory / "python", directory / "packages"
    base = Path(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}")
    script.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{_PACKAGES}:{installed}" exec {base} -s "$@"\n')
    script.chmod(0o755)
    probe = "import pyspark, pymysql, pyarrow; import migrate"
    told = subprocess.run([script, "-c", probe], cwd=directory, env={}, capture_output=True, text=True, timeout=60)
    assert "No module named 'migrate'" in told.stderr, told.stderr
    return script


def parents() -> dict[int, int]:
    """Each process's parent."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            found[int(entry.parent.name)] = int(entry.read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue  # it ended meanwhile
    return found


def command_line(pid: int) -> str:
    """A process's command line; nothing when it ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
