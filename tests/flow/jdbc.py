"""An application that uses ShardingSphere-JDBC: the real jar in a Java of its own, driven from here."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

from sandbox.binaries import java, shardingsphere_classpath
from sandbox.database import DatabaseServer

_BRIDGE = Path(sys.prefix, "share", "py4j")
_OPTIONS = ("-XX:TieredStopAtLevel=1", "-Xmx256m", "-Duser.timezone=UTC")  # it lives for seconds
_URL = "jdbc:mysql://{host}:{port}/{database}?sslMode=DISABLED&allowPublicKeyRetrieval=true"

Row = tuple[str | None, ...]


def data_sources(places: Mapping[str, tuple[DatabaseServer, str]], user: str, password: str) -> str:
    """The `dataSources` of a rule file: by name, the server and the database."""
    lines = ["dataSources:"]
    for name, (server, database) in places.items():
        lines += [
            f"  {name}:",
            "    dataSourceClassName: com.zaxxer.hikari.HikariDataSource",
            "    driverClassName: com.mysql.cj.jdbc.Driver",
            f"    jdbcUrl: {_URL.format(host=server.host, port=server.port, database=database)}",
            f"    username: {user}",
            f"    password: {password}",
            "    maximumPoolSize: 2",
        ]
    return "\n".join(lines) + "\n"


class Application:
    """Statements for the logical tables, over one connection; a value goes as the Java type that an application has:
    an int as Long, a datetime as LocalDateTime.
    """

    def __init__(self, jvm: Any, rules: Path) -> None:
        factory = jvm.org.apache.shardingsphere.driver.api.yaml.YamlShardingSphereDataSourceFactory
        self._jvm = jvm
        self._source = factory.createDataSource(jvm.java.io.File(str(rules)))
        self._connection = self._source.getConnection()

    def read(self, sql: str, *values: object) -> list[Row]:
        """Rows, each value as the text that the driver makes of it."""
        statement = self._prepared(sql, values)
        found = statement.executeQuery()
        columns = range(1, found.getMetaData().getColumnCount() + 1)
        rows = []
        while found.next():
            rows.append(tuple(found.getString(column) for column in columns))
        statement.close()
        return rows

    def write(self, sql: str, *values: object) -> int:
        """How many rows it wrote."""
        statement = self._prepared(sql, values)
        rows = int(statement.executeUpdate())
        statement.close()
        return rows

    def close(self) -> None:
        self._connection.close()
        self._source.close()

    def _prepared(self, sql: str, values: tuple[object, ...]) -> Any:
        statement = self._connection.prepareStatement(sql)
        for number, value in enumerate(values, 1):
            match value:
                case int():
                    statement.setLong(number, value)
                case str():
                    statement.setString(number, value)
                case Decimal():
                    statement.setBigDecimal(number, value)
                case datetime():
                    statement.setObject(number, self._jvm.java.time.LocalDateTime.parse(value.isoformat()))
                case _:
                    raise TypeError(value)
        return statement


@contextmanager
def application(rules: Path, log: Path) -> Iterator[Application]:
    """One that reads this rule file, and writes what Java says to `log`. Raises SandboxError where its jars are
    missing, and AssertionError for a statement that ShardingSphere or a server refuses.
    """
    with log.open("w", encoding="utf-8") as said:
        port, token = launch_gateway(
            jarpath=str(next(_BRIDGE.glob("*.jar"))),
            classpath=shardingsphere_classpath(),
            javaopts=list(_OPTIONS),
            java_path=java(),
            die_on_exit=True,
            enable_auth=True,
            redirect_stdout=said,
            redirect_stderr=said,
        )
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
        try:
            with closing(Application(gateway.jvm, rules)) as made:
                yield made
        except Py4JJavaError as error:
            raise AssertionError(str(error)) from None  # Java gives its text while it lives
        finally:
            gateway.shutdown()
