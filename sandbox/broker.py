"""A Kafka broker of our own: one KRaft node that is broker and controller (Kafka documentation, "KRaft")."""

import base64
import os
import shlex
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from sandbox import state, unsynced
from sandbox.binaries import java, kafka_classpath
from sandbox.paths import kafka_classes
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


_BY_TOKEN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


@dataclass(frozen=True, slots=True)
class Accounts:
    """Of a broker that is reached by TLS and a password (SASL_SSL, SCRAM-SHA-512) or a token (OAUTHBEARER, of which
    nothing but its times is checked), and asks an authorizer what each of them may do: nothing, until it is granted.

    certificate: PEM file with the broker's key and certificate. ca: of the authority that signed it. passwords: by
    account. admin: the account that may do everything.
    """

    certificate: Path
    ca: Path
    passwords: Mapping[str, str]
    admin: str = "admin"

    def options(self, account: str) -> dict[str, str]:
        """Of a client, as librdkafka takes them."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": account,
            "sasl.password": self.passwords[account],
            "ssl.ca.location": str(self.ca),
        }

    def by_token(self) -> dict[str, str]:
        """As `options`, for whoever has a token."""
        by_password = self.options(self.admin)
        kept = {name: value for name, value in by_password.items() if not name.startswith("sasl.")}
        return {**kept, "sasl.mechanism": "OAUTHBEARER"}

    def properties(self) -> dict[str, str | int]:
        """Of the broker."""
        login = "org.apache.kafka.common.security.scram.ScramLoginModule required"
        jaas = f'{login} username="{self.admin}" password="{self.passwords[self.admin]}";'
        return {
            "listener.security.protocol.map": "SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "SASL_SSL",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512,OAUTHBEARER",
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": jaas,
            "listener.name.sasl_ssl.oauthbearer.sasl.jaas.config": f"{_BY_TOKEN} required;",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.certificate),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{self.admin};User:ANONYMOUS",  # the broker, at its controller's listener
        }

    def made_with(self) -> list[str]:
        """Arguments with which the directory is formatted."""
        made = [f"SCRAM-SHA-512=[name={name},password={password}]" for name, password in self.passwords.items()]
        return [argument for one in made for argument in ("--add-scram", one)]


def _archived() -> list[str]:
    """Options with which the JVM maps Kafka's classes, where they were archived."""
    if not kafka_classes().exists():
        return []
    return [f"-XX:SharedArchiveFile={kafka_classes()}", "-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]


class KafkaBroker(Server):
    """One broker under the directory `root`; start, stop, kill and start again on the same data and ports.

    `port`: TCP port on 127.0.0.1; without one the port used before on this data, or a free one.
    SANDBOX_KAFKA_JVM in the environment: further options of its JVM.
    `properties`: broker properties on top of sandbox.settings. `accounts`: without them everybody may do everything,
    in plain. `jvm`: options instead of those that bring Kafka's classes along. `timeout`: seconds a start may take.
    """

    def __init__(
        self,
        root: Path,
        *,
        name: str | None = None,
        port: int | None = None,
        properties: Mapping[str, str | int] | None = None,
        accounts: Accounts | None = None,
        jvm: Sequence[str] | None = None,
        timeout: float = 120.0,
    ) -> None:
        self.root = root.resolve()
        self.name = name or self.root.name
        self.timeout = timeout
        self.host = HOST
        self.accounts = accounts
        self._jvm = jvm
        secured = accounts.properties() if accounts is not None else {}
        self.properties: dict[str, str | int] = {**KAFKA_PROPERTIES, **secured, **(properties or {})}
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
            made_with = self.accounts.made_with() if self.accounts is not None else []
            arguments = ("format", "-t", self.cluster_id, "-c", str(config), "-g", *made_with)
            self._child.run_to_end(
                self._java("kafka.tools.StorageTool", *arguments),
                self.timeout,
                f"formatting the directory of {self._child.name}",
            )
            self._formatted = True
        self._remember()
        self._child.start(self._java("kafka.Kafka", str(config)), unsynced.environment())
        options = self.accounts.options(self.accounts.admin) if self.accounts is not None else {}
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0, **options})
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
            *(_archived() if self._jvm is None else self._jvm),
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
        protocol = "PLAINTEXT" if self.accounts is None else "SASL_SSL"
        properties: dict[str, str | int] = {
            "listeners": f"{protocol}://{self.bootstrap},CONTROLLER://{controller}",
            "advertised.listeners": f"{protocol}://{self.bootstrap}",
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
