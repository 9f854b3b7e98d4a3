"""What a server can do that not every server can: asked by its version here, and nowhere else.

Each capability names the first version of each flavour that has it, and the page of the manual that says so. Where it
has a probe, `tests/servers/test_capabilities.py` sends it to every server that can be had, and compares.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from migrate.mysql.session_settings import MARIADB

if TYPE_CHECKING:
    from migrate.mysql.connection import Connection

Version = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Since:
    """mysql, mariadb: the first version that has it; None where none has. probe: a statement that fails without."""

    mysql: Version | None
    mariadb: Version | None
    page: str
    probe: str = ""


_MYSQL = "https://dev.mysql.com/doc/"
_MARIADB = "https://mariadb.com/kb/en/"


class Capability(Enum):
    """What is asked of a server; the value says since when, and where the manual has it."""

    BINARY_LOG_STATUS = Since(
        (8, 2, 0), (11, 8, 0), f"{_MYSQL}refman/8.4/en/show-binary-log-status.html", "SHOW BINARY LOG STATUS"
    )
    """Its older name, SHOW MASTER STATUS, is gone from MySQL 8.4 on, and the only one before 8.2; MariaDB 11.4 has it
    alone, 11.8 has both."""
    REPLICA_STATUS = Since((8, 0, 22), (10, 5, 1), f"{_MYSQL}refman/8.4/en/show-replica-status.html")
    """SHOW REPLICA STATUS, log_replica_updates (8.0.26); the older names are gone from MySQL 8.4 on."""
    NAMED_REPLICA_VARIABLES = Since(
        (8, 0, 26), None, f"{_MYSQL}refman/8.4/en/replication-options-binary-log.html", "SELECT @@log_replica_updates"
    )
    ROLES = Since((8, 0, 0), (10, 0, 5), f"{_MYSQL}refman/8.4/en/roles.html", "SELECT CURRENT_ROLE()")
    RECURSIVE_CTE = Since(
        (8, 0, 1), (10, 2, 2), f"{_MYSQL}refman/8.4/en/with.html", "WITH RECURSIVE a (n) AS (SELECT 1) SELECT n FROM a"
    )
    JSON_TABLE = Since(
        (8, 0, 4),
        (10, 6, 0),
        f"{_MYSQL}refman/8.4/en/json-table-functions.html",
        "SELECT v FROM JSON_TABLE('[1]', '$[*]' COLUMNS (v INT PATH '$')) AS t",
    )
    INVISIBLE_COLUMNS = Since((8, 0, 23), (10, 3, 3), f"{_MYSQL}refman/8.4/en/invisible-columns.html")
    KEYS_ON_EXPRESSIONS = Since(
        (8, 0, 13),
        None,
        f"{_MYSQL}refman/8.4/en/create-index.html#create-index-functional-key-parts",
        "SELECT EXPRESSION FROM information_schema.STATISTICS LIMIT 0",
    )
    RENAMED_DICTIONARY = Since(
        (8, 0, 3),
        None,
        f"{_MYSQL}relnotes/mysql/8.0/en/news-8-0-3.html",
        "SELECT FOR_NAME FROM information_schema.INNODB_FOREIGN LIMIT 0",
    )
    """InnoDB's tables of information_schema without SYS_ in their names."""
    FOR_SHARE = Since(
        (8, 0, 1), None, f"{_MYSQL}refman/8.4/en/innodb-locking-reads.html", "SELECT 1 FROM DUAL FOR SHARE"
    )
    ROW_ALIAS = Since((8, 0, 19), None, f"{_MYSQL}refman/8.4/en/insert-on-duplicate.html")
    """INSERT … AS new ON DUPLICATE KEY UPDATE, where VALUES() is deprecated and warns."""
    READ_ONLY_DATABASES = Since(
        (8, 0, 22),
        None,
        f"{_MYSQL}refman/8.4/en/alter-database.html",
        "SELECT OPTIONS FROM information_schema.SCHEMATA_EXTENSIONS LIMIT 0",
    )
    SUPER_READ_ONLY = Since(
        (5, 7, 8),
        None,
        f"{_MYSQL}refman/5.7/en/server-system-variables.html#sysvar_super_read_only",
        "SELECT @@super_read_only",
    )
    SNAPSHOT_POSITION = Since(
        None, (5, 3, 0), f"{_MARIADB}enhancements-for-start-transaction-with-consistent-snapshot/"
    )
    """A consistent snapshot with the place in the log that it belongs to."""
    XA_RECOVER_ADMIN = Since((8, 0, 0), None, f"{_MYSQL}refman/8.4/en/xa-statements.html")
    """Before, MySQL shows prepared transactions to every account."""
    DYNAMIC_PRIVILEGES = Since((8, 0, 0), None, f"{_MYSQL}refman/8.4/en/privileges-provided.html")
    """Before, SUPER is what stands for each of them."""
    SUPER_WITHOUT_READ_ONLY = Since(None, (10, 11, 0), f"{_MARIADB}grant/#read-only-admin")
    """SUPER does not write where read_only is set; READ ONLY ADMIN does."""
    CASCADES_IN_LOG = Since(
        (9, 6, 0), None, f"{_MYSQL}refman/9.6/en/innodb-parameters.html#sysvar_innodb_native_foreign_keys"
    )
    """Unless innodb_native_foreign_keys is ON."""
    COLLATIONS_OF_SEVERAL_CHARSETS = Since(
        None,
        (10, 10, 1),
        f"{_MARIADB}information-schema-collation_character_set_applicability-table/",
        "SELECT ID, FULL_COLLATION_NAME FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY LIMIT 0",
    )
    """Such a collation has a number for each character set, which information_schema.COLLATIONS does not have."""

    def of(self, flavour: str, version: tuple[int, ...]) -> bool:
        """Whether a server of this version can."""
        first = self.value.mariadb if flavour == MARIADB else self.value.mysql
        return first is not None and tuple(version) >= first


def can(connection: Connection, capability: Capability) -> bool:
    """Whether the server of a session can."""
    return capability.of(connection.flavour, connection.version)


def log_status(connection: Connection) -> str:
    """The statement that shows where the binlog ends, and which databases it leaves out."""
    return "SHOW BINARY LOG STATUS" if can(connection, Capability.BINARY_LOG_STATUS) else "SHOW MASTER STATUS"


def replica_status(connection: Connection) -> str:
    """The statement that shows a row for each channel that the server replicates by."""
    if connection.flavour == MARIADB:
        return "SHOW ALL SLAVES STATUS"
    return "SHOW REPLICA STATUS" if can(connection, Capability.REPLICA_STATUS) else "SHOW SLAVE STATUS"


def stop_replica(connection: Connection) -> str:
    """The statement that ends replication into the server."""
    if connection.flavour == MARIADB:
        return "STOP ALL SLAVES"
    return "STOP REPLICA" if can(connection, Capability.REPLICA_STATUS) else "STOP SLAVE"


def logs_replicated(connection: Connection) -> str:
    """The variable that says whether what is replicated goes into the server's own binlog."""
    return "log_replica_updates" if can(connection, Capability.NAMED_REPLICA_VARIABLES) else "log_slave_updates"


def innodb_foreign(connection: Connection) -> str:
    """InnoDB's own table of foreign keys, in information_schema."""
    return "INNODB_FOREIGN" if can(connection, Capability.RENAMED_DICTIONARY) else "INNODB_SYS_FOREIGN"


def read_lock(connection: Connection) -> str:
    """The words of a SELECT that locks its rows against writes."""
    return "FOR SHARE" if can(connection, Capability.FOR_SHARE) else "LOCK IN SHARE MODE"
