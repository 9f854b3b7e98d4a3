"""Kafka's jar files."""

from sandbox.install.jars import Jars
from sandbox.paths import kafka_lib
from sandbox.settings import KAFKA_VERSION, LOG4J_VERSION, SCALA_VERSION

# No repository is named: Maven finds its own, or what the user's settings say.
_POM = f"""<project>
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

KAFKA = Jars(f"Kafka {KAFKA_VERSION}", kafka_lib, _POM, "46 jars, 43 MB")
