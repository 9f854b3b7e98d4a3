"""Versions and server settings: the one source. docker-compose.yml repeats them, and a test compares.

Values are strings as the server's command line or properties file takes them. Meanings: "Server System
Variables" in the MariaDB Knowledge Base and the MySQL Reference Manual, "Broker Configs" in Kafka's docs.
"""

from enum import StrEnum


class Flavour(StrEnum):
    """Which database server: MariaDB or MySQL."""

    MARIADB = "mariadb"
    MYSQL = "mysql"


KAFKA_VERSION = "4.1.1"
LOG4J_VERSION = "2.24.3"  # the one this Kafka depends on
AXE_VERSION = "4.14.1"  # of axe-core
KAFKA_IMAGE = f"apache/kafka:{KAFKA_VERSION}"
IMAGES = {
    Flavour.MARIADB: "mariadb:10.11.18",
    Flavour.MYSQL: "mysql:9.7.2",
}  # the series Debian has, for Docker
SCALA_VERSION = "2.13"
SHARDINGSPHERE_VERSION = "5.5.2"  # the newest that Maven Central has whole
H2_VERSION = "2.2.224"
MYSQL_DRIVER_VERSION = "9.7.0"
ACCOUNT = "root"  # one account with all privileges, reachable on 127.0.0.1 only

_COMMON = {
    # What the service needs of a source.
    "log_bin": "binlog",
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
    "binlog_row_metadata": "FULL",
    # What the full copy may use at a target.
    "local_infile": "1",
    "max_allowed_packet": "256M",
    "character_set_server": "utf8mb4",
    # Small and fast. A killed server loses nothing, as the page cache outlives it; a power cut may lose data.
    "innodb_buffer_pool_size": "256M",
    "innodb_flush_log_at_trx_commit": "2",
    "innodb_doublewrite": "OFF",
    "sync_binlog": "0",
    "skip_name_resolve": "ON",
}

_OWN: dict[Flavour, dict[str, str]] = {
    Flavour.MARIADB: {
        "innodb_log_file_size": "256M",
    },
    Flavour.MYSQL: {
        "gtid_mode": "ON",
        "enforce_gtid_consistency": "ON",
        "innodb_redo_log_capacity": "256M",
        "innodb_log_writer_threads": "OFF",  # for many cores: here they take a fifth of a statement's processor time
        "performance_schema": "OFF",  # saves about 200 MB a server
        "mysqlx": "OFF",
    },
}


def server_options(flavour: Flavour) -> dict[str, str]:
    """Options of every database server of the flavour, by variable name with underscores."""
    return {**_COMMON, **_OWN[flavour]}


KAFKA_HEAP_MB = 512

KAFKA_PROPERTIES = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "auto.create.topics.enable": "false",  # `migrate init` creates topics
    # A killed broker may come back only after its old session ended: 4 s instead of 12 s with these.
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "2000",
    "metadata.max.idle.interval.ms": "0",  # its no-op records are a third of an idle broker's work
    "num.network.threads": "2",
    "num.io.threads": "4",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.dedupe.buffer.size": "8388608",  # the default takes 128 MB of the heap
}
