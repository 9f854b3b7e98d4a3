"""A Kafka broker of our own: one KRaft node that is broker and controller (Kafka documentation, "KRaft")."""

import base64
import os
import shlex
import uuid
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from sandbox import state, unsynced
from sandbox.binaries import java, kafka_classpath
from sandbox.ports import HOST, free_port, require_free
from sandbox.process import Child
from sandbox.server import Server
from sandbox.settings import KAFKA_HEAP_MB, KAFKA_PROPERTIES

_LOG4J = """\
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %m (%c)%n
rootLogger.level = WARN
rootLogger.appenderRef.out.ref = out
"""


class KafkaBroker(Server):
    """One broker under the directory `root`; start, stop, kill and start again on the same data and ports.

    `port`: TCP port on 127.0.0.1; without one the port used before on this data, or a free one.
    SANDBOX_KAFKA_JVM in the environment: further options of its JVM.
    `properties`: broker properties on top of sandbox.settings. `timeout`: seconds a start may take.
    """

    def __init__(
        self,
        root: Path,
        *,
        name: str | None = None,
        port: int | None = None,
        properties: Mapping[str, str | int] | None = None,
        timeout: float = 120.0,
    ) -> None:
        self.root = root.resolve()
        self.name = name or self.root.name
        self.timeout = timeout
        self.host = HOST
        self.properties: dict[str, str | int] = {**KAFKA_PROPERTIES, **(properties or {})}
        self._memory = self.root / "server.json"
        known = state.load(self._memory)
        self.port: int = port or known.get("port") or 0
        self._controller_port: int = known.get("controller_port") or 0
        new_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self.cluster_id: str = known.get("cluster_id") or "A" + new_id[1:]  # a leading "-" would be an option
        self._formatted: bool = known.get("formatted", False)
        self._child = Child(f"kafka broker {self.name!r}", self.root / "server.log", self.root)

    @property
    def bootstrap(self) -> str:
        """Address for `bootstrap.servers`."""
        return f"{self.host}:{self.port}"

    def start(self) -> None:
        """Start it and wait until it answers; on the first start format its directory.

        Raises SandboxError when it is not installed, its port is taken, it ends, or is not ready in time.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        self.port = self.port or free_port()
        self._controller_port = self._controller_port or free_port()
        require_free(self.port, self._child.name)
        require_free(self._controller_port, self._child.name)
        config = self._write_config()
        if not self._formatted:
            self._child.run_to_end(
                self._java("kafka.tools.StorageTool", "format", "-t", self.cluster_id, "-c", str(config), "-g"),
                self.timeout,
                f"formatting the directory of {self._child.name}",
            )
            self._formatted = True
        self._remember()
        self._child.start(self._java("kafka.Kafka", str(config)), unsynced.environment())
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        self._child.wait_until_ready(lambda: self._problem(admin), self.timeout)

    def _remember(self) -> None:
        state.save(
            self._memory,
            {
                "port": self.port,
                "controller_port": self._controller_port,
                "cluster_id": self.cluster_id,
                "formatted": self._formatted,
            },
        )

    def _java(self, main: str, *arguments: str) -> list[str]:
        return [
            java(),
            f"-Xmx{KAFKA_HEAP_MB}m",
            "-XX:+UseSerialGC",  # less memory and fewer threads than the default on small machines
            "-XX:+ExitOnOutOfMemoryError",
            *shlex.split(os.environ.get("SANDBOX_KAFKA_JVM", "")),
            f"-Dlog4j2.configurationFile={self.root / 'log4j2.properties'}",
            "-cp",
            kafka_classpath(),
            main,
            *arguments,
        ]

    def _write_config(self) -> Path:
        (self.root / "log4j2.properties").write_text(_LOG4J)
        controller = f"{self.host}:{self._controller_port}"
        properties: dict[str, str | int] = {
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"{self.properties['node.id']}@{controller}",
            "log.dirs": str(self.root / "data"),
            **self.properties,
        }
        config = self.root / "server.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        return config

    def _problem(self, admin: AdminClient) -> str | None:
        try:
            answers = admin.list_topics(timeout=1.0).cluster_id == self.cluster_id
        except KafkaException as error:
            return f"{self.bootstrap}: {error.args[0].str()}"
        return None if answers else f"another broker answers on {self.bootstrap}"
