"""Debezium's MySQL connector in Kafka Connect standalone, under measurement; its jars come from Maven Central.

Settings: JSON without schemas, one partition, `acks=all`, lz4, and the larger batches and queues that make it fast.
"""

from __future__ import annotations

import shutil
import tarfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from bench.topic import Run, Topic
from bench.workload import Workload
from sandbox.binaries import java, which
from sandbox.errors import SandboxError
from sandbox.install.system import run, say
from sandbox.paths import cache_dir
from sandbox.ports import free_port
from sandbox.process import Child
from sandbox.settings import KAFKA_VERSION
from sandbox.stack import Sandbox
from sandbox.state import private_file

VERSION = "3.6.1.Final"
SINK_VERSION = "3.6.0.Final"  # the newest on Maven Central
_DEPENDENCY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
_HERE = Path(__file__).parent


def home() -> Path:
    return cache_dir() / f"debezium-{VERSION}"


def sink_home() -> Path:
    return cache_dir() / f"debezium-jdbc-{SINK_VERSION}"


def install(*, sink: bool = False) -> None:
    """Fetch Kafka Connect and the connector, with `sink` the JDBC sink too, into the cache. Raises SandboxError."""
    _fetch(home(), f"io.debezium:debezium-connector-mysql:{VERSION}:tar.gz:plugin", connect=True)
    if sink:
        _fetch(sink_home(), f"io.debezium:debezium-connector-jdbc:{SINK_VERSION}:tar.gz:plugin", connect=False)


def _fetch(home: Path, plugin: str, *, connect: bool) -> None:
    if home.exists():
        return
    maven = which("mvn")
    if maven is None:
        raise SandboxError("Maven is not installed; run: make servers")
    part = home.with_name(home.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    (part / "pom.xml").write_text((_HERE / "connect-pom.xml").read_text().replace("@KAFKA@", KAFKA_VERSION))
    say(f"fetching {plugin} with Maven into {home}: about 100 MB")
    maven_run = [maven, "-B", "-q", "-f", str(part / "pom.xml"), "--strict-checksums"]
    if connect:
        run(
            [*maven_run, f"{_DEPENDENCY}:copy-dependencies", f"-DoutputDirectory={part / 'lib'}"],
            900,
            "fetching Connect",
        )
    run(
        [*maven_run, f"{_DEPENDENCY}:copy", f"-Dartifact={plugin}", f"-DoutputDirectory={part / 'plugin'}"],
        900,
        "fetching Debezium",
    )
    for archive in (part / "plugin").glob("*.tar.gz"):
        with tarfile.open(archive) as files:
            files.extractall(part / "plugins", filter="data")
    part.rename(home)


class Debezium:
    """The connector for one workload's table. Prepared before the workload ran, it starts before the workload.

    The names of its runs have one length, so that one run's offsets become another's by writing over the name.
    """

    def __init__(self, box: Sandbox, directory: Path, load: Workload, *, schemas: bool = False) -> None:
        """schemas: each message carries its own, as the JDBC sink wants it."""
        self._box = box
        self._directory = directory / f"debezium_{load.name}"
        self._load = load
        self._schemas = schemas

    def prepare(self) -> None:
        """Let it note the schema and the source's position as they are now: behind a row that it has sent."""
        work, child = self._start("dbz0")
        try:
            self._wait(child, work, lambda: "Connected to binlog" in (work / "log").read_text())
            values = "(0, 0, '', 0, 0, 0, 'ali', '', '{}', now(), now(), 0)"
            self._box.source.execute(f"INSERT INTO orders VALUES {values}", database=self._load.database)
            offsets = work / "offsets.dat"
            self._wait(child, work, lambda: offsets.exists() and offsets.stat().st_size > 100)
        finally:
            child.stop(60)

    def _wait(self, child: Child, work: Path, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 300
        while not condition():
            if time.monotonic() > deadline or not child.running:
                raise SandboxError(f"Debezium did not start:\n{(work / 'log').read_text()[-2000:]}")
            time.sleep(0.5)

    def run(self, number: int, timeout: float) -> Run:
        """The log into a topic, which is deleted."""
        topic, found = self._publish(number, timeout)
        topic.delete()
        return found

    def fill(self, timeout: float) -> Topic:
        """The log into a topic that stays."""
        return self._publish(1, timeout)[0]

    def _publish(self, number: int, timeout: float) -> tuple[Topic, Run]:
        name = f"dbz{number}"
        first, work = self._directory / "dbz0", self._directory / name
        work.mkdir(parents=True)
        for file in ("offsets.dat", "history.dat"):
            (work / file).write_bytes((first / file).read_bytes().replace(b"dbz0", name.encode()))
        topic = Topic(self._box.kafka.bootstrap, f"{name}.{self._load.database}.orders", 1)
        topic.create()
        _, child = self._start(name)
        try:
            return topic, topic.watch(child.pid, self._load.rows, lambda _: 1, timeout)
        finally:
            child.stop(60)

    def _start(self, name: str) -> tuple[Path, Child]:
        work, source = self._directory / name, self._box.source
        work.mkdir(parents=True, exist_ok=True)
        fields = {
            "NAME": name,
            "WORK": str(work),
            "BOOTSTRAP": self._box.kafka.bootstrap,
            "PLUGINS": str(home() / "plugins"),
            "REST": str(free_port()),
            "PORT": str(source.port),
            "USER": source.user,
            "PASSWORD": source.password,
            "DATABASE": self._load.database,
            "SCHEMAS": str(self._schemas).lower(),
        }
        return work, start_connect(work, "connector.properties", fields)


def start_connect(work: Path, connector: str, fields: Mapping[str, str]) -> Child:
    """Kafka Connect with one connector, made from the properties files beside this one; its log is `work`/log."""
    for file in ("worker.properties", connector):
        text = (_HERE / file).read_text()
        for key, value in fields.items():
            text = text.replace(f"@{key}@", value)
        private_file(work / file, text)
    child = Child(f"debezium {work.name}", work / "log", work)
    classpath = f"{home() / 'lib'}/*:{_HERE}"
    main = "org.apache.kafka.connect.cli.ConnectStandalone"
    child.start([java(), "-Xms2g", "-Xmx2g", "-cp", classpath, main, "worker.properties", connector])
    return child
