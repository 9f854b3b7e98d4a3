"""ShardingSphere-JDBC and a driver for both database servers, for the tests: what an application in Java has."""

from sandbox.install.jars import Jars
from sandbox.paths import shardingsphere_lib
from sandbox.settings import H2_VERSION, MYSQL_DRIVER_VERSION, SHARDINGSPHERE_VERSION

# No repository is named: Maven finds its own, or what the user's settings say.
_POM = f"""<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>sandbox</groupId>
  <artifactId>shardingsphere</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.shardingsphere</groupId>
      <artifactId>shardingsphere-jdbc</artifactId>
      <version>{SHARDINGSPHERE_VERSION}</version>
    </dependency>
    <dependency><!-- ShardingSphere keeps its own state in it -->
      <groupId>com.h2database</groupId>
      <artifactId>h2</artifactId>
      <version>{H2_VERSION}</version>
    </dependency>
    <dependency>
      <groupId>com.mysql</groupId>
      <artifactId>mysql-connector-j</artifactId>
      <version>{MYSQL_DRIVER_VERSION}</version>
    </dependency>
  </dependencies>
</project>
"""

SHARDINGSPHERE = Jars(
    f"ShardingSphere-JDBC {SHARDINGSPHERE_VERSION}", shardingsphere_lib, _POM, "178 jars, 57 MB, for the tests"
)
