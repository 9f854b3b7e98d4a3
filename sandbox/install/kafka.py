"""Kafka's jar files, fetched by Maven into the cache."""

import shutil
from pathlib import Path

from sandbox.binaries import which
from sandbox.errors import SandboxError
from sandbox.install.system import run, say
from sandbox.paths import kafka_lib
from sandbox.settings import KAFKA_VERSION, LOG4J_VERSION, SCALA_VERSION

_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"

# No repository is named: Maven finds its own, or what the user's settings say.
POM = f"""<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>sandbox</groupId>
  <artifactId>kafka</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_{SCALA_VERSION}</artifactId>
      <version>{KAFKA_VERSION}</version>
    </dependency>
    <dependency><!-- without it Kafka logs nothing -->
      <groupId>org.apache.logging.log4j</groupId>
      <artifactId>log4j-slf4j-impl</artifactId>
      <version>{LOG4J_VERSION}</version>
    </dependency>
  </dependencies>
</project>
"""


def is_installed() -> bool:
    """Whether the jars are there, and are those we would fetch now."""
    fetched = kafka_lib().with_name("pom.xml")
    return kafka_lib().exists() and fetched.exists() and fetched.read_text() == POM


def install() -> None:
    """Fetch the jars into the cache. Raises SandboxError on failure."""
    target = kafka_lib()
    part = target.with_name("lib.part")
    _clear(part)
    _clear(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    say(f"fetching Kafka {KAFKA_VERSION} with Maven into {target}: 46 jars, 43 MB")
    pom = target.with_name("pom.xml")
    pom.write_text(POM)
    maven = which("mvn")
    if maven is None:
        raise SandboxError("Maven is not installed")
    strict = "--strict-checksums"
    run(
        [
            maven,
            "-B",
            "-q",
            strict,
            "-f",
            str(pom),
            _COPY,
            f"-DoutputDirectory={part}",
            "-DincludeScope=runtime",
        ],
        900,
        "fetching Kafka with Maven",
    )
    part.rename(target)


def _clear(directory: Path) -> None:
    if directory.exists():
        shutil.rmtree(directory)
