"""Each kind of ALTER of both servers: planned, run on a table with rows, undone, or why not.

The algorithm is what MySQL's manual ("Online DDL Operations") and MariaDB's documentation ("InnoDB Online DDL
Operations") say; what a table is afterwards, its server's own client says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from migrate.ddl import definition
from migrate.ddl.levels import Level
from migrate.ddl.plan import compensating
from migrate.ddl.statement import read, without_level
from migrate.ddl.trial import Trial, place_of_trial, tried
from migrate.model.errors import PreflightError
from migrate.mysql.connection import Connection
from sandbox.database import DatabaseServer
from sandbox.settings import Flavour
from sandbox.stack import Sandbox
from tests.helpers import scratch, session, unique

MARIADB, MYSQL = Flavour.MARIADB, Flavour.MYSQL
BASE = (
    "CREATE TABLE orders (id BIGINT NOT NULL AUTO_INCREMENT, user_id INT NOT NULL, v VARCHAR(20) NOT NULL DEFAULT 'x',"
    " amount DECIMAL(10,2) DEFAULT NULL, body TEXT, status ENUM('new','paid') NOT NULL DEFAULT 'new', at DATETIME(3),"
    " twice BIGINT AS (user_id * 2) VIRTUAL, PRIMARY KEY (id), KEY by_user (user_id), KEY by_v (v),"
    " UNIQUE KEY u (v, id), CONSTRAINT positive CHECK (amount >= 0))"
    " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='c'"
)
BY_RANGE = " PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (1000), PARTITION p1 VALUES LESS THAN (2000))"
ROWS = (
    "INSERT INTO orders (user_id, v, amount, body, status, at) VALUES"
    " (1, 'a', 1.25, 'one', 'new', '2026-01-01 00:00:00.5'), (2, 'b', NULL, NULL, 'paid', NULL)"
)


@dataclass(frozen=True)
class Kind:
    """clauses: of ALTER TABLE orders. mysql, mariadb: the algorithm that each takes; "" where it has no such clause, or
    leaves nobody to choose.

    undone: whether it can be taken back; loses: a part of what is said to be lost.
    """

    clauses: str
    mysql: str
    mariadb: str
    undone: bool = True
    loses: str = ""
    base: str = BASE

    def of(self, flavour: Flavour) -> str:
        return self.mysql if flavour is MYSQL else self.mariadb


KINDS = (
    Kind("MODIFY v VARCHAR(20) AS (CONCAT('n', user_id)) STORED", "COPY", "COPY", undone=False, loses="column v"),
    Kind("ADD COLUMN n INT", "INSTANT", "INSTANT"),
    Kind("ADD COLUMN n INT NOT NULL DEFAULT 7 FIRST", "INSTANT", "COPY"),
    Kind("ADD COLUMN n INT AFTER v, ADD COLUMN m INT FIRST", "INSTANT", "COPY"),
    Kind("ADD COLUMN g INT AS (user_id + 1) STORED", "COPY", "COPY"),
    Kind("ADD COLUMN g INT AS (user_id + 1) VIRTUAL", "INSTANT", "INSTANT"),
    Kind("DROP COLUMN amount, DROP CONSTRAINT positive", "INSTANT", "COPY", False, "column amount"),
    Kind("DROP COLUMN body", "INSTANT", "INSTANT", False, "column body"),
    Kind("DROP COLUMN body, ADD COLUMN body TEXT", "INSTANT", "COPY", False, "column body"),
    Kind("DROP COLUMN twice", "INSTANT", "INSTANT"),
    Kind("RENAME COLUMN body TO words", "INSTANT", "INSTANT"),
    Kind("CHANGE body words TEXT", "INSTANT", "INSTANT"),
    Kind("CHANGE BODY Words MEDIUMTEXT", "COPY", "COPY"),
    Kind("MODIFY v VARCHAR(30) NOT NULL DEFAULT 'x'", "INPLACE", "INSTANT"),
    Kind("MODIFY v VARCHAR(10) NOT NULL DEFAULT 'x'", "COPY", "COPY", False, "column v"),
    Kind("MODIFY v VARCHAR(20) NOT NULL DEFAULT 'x' FIRST", "INPLACE", "INSTANT"),
    Kind("MODIFY v VARCHAR(20) NULL", "INPLACE", "INPLACE"),
    Kind("MODIFY user_id BIGINT NOT NULL", "COPY", "COPY"),
    Kind("MODIFY user_id SMALLINT NOT NULL", "COPY", "COPY", False, "column user_id"),
    Kind("MODIFY user_id INT UNSIGNED NOT NULL", "COPY", "COPY", False, "column user_id"),
    Kind("MODIFY amount DECIMAL(12,3)", "COPY", "COPY"),
    Kind("MODIFY amount DECIMAL(12,1)", "COPY", "COPY", False, "column amount"),
    Kind("MODIFY at DATETIME(6)", "COPY", "COPY"),
    Kind("MODIFY at DATETIME", "COPY", "COPY", False, "column at"),
    Kind("MODIFY status ENUM('new','paid','sent') NOT NULL DEFAULT 'new'", "INSTANT", "INSTANT"),
    Kind("MODIFY status ENUM('paid','new') NOT NULL DEFAULT 'new'", "COPY", "COPY", False, "column status"),
    Kind("ALTER COLUMN v SET DEFAULT 'y'", "INSTANT", "INSTANT"),
    Kind("ALTER COLUMN v DROP DEFAULT", "INSTANT", "INSTANT"),
    Kind("MODIFY body TEXT COMMENT 'said; it''s %s'", "INSTANT", "INSTANT"),
    Kind("ADD KEY by_status (status, at)", "INPLACE", "NOCOPY"),
    Kind("ADD UNIQUE KEY one (user_id)", "INPLACE", "NOCOPY"),
    Kind("ADD FULLTEXT KEY words (body)", "INPLACE", "INPLACE"),
    Kind("DROP KEY by_v", "INPLACE", "NOCOPY"),
    Kind("DROP KEY u", "INPLACE", "NOCOPY"),
    Kind("RENAME KEY by_v TO of_v", "INPLACE", "INSTANT"),
    Kind("ALTER INDEX by_v INVISIBLE", "INPLACE", ""),
    Kind("ALTER INDEX by_v IGNORED", "", "INSTANT"),
    Kind("DROP PRIMARY KEY, ADD PRIMARY KEY (id, user_id)", "INPLACE", "INPLACE"),
    Kind("ADD CONSTRAINT long_enough CHECK (char_length(v) > 0)", "COPY", "COPY"),
    Kind("ADD CHECK (user_id > 0)", "COPY", "COPY"),
    Kind("DROP CONSTRAINT positive", "INSTANT", "INSTANT"),
    Kind("COMMENT = 'another'", "INPLACE", "INSTANT"),
    Kind("ROW_FORMAT = COMPACT", "INPLACE", "INPLACE"),
    Kind("STATS_PERSISTENT = 0", "INPLACE", "INSTANT"),
    Kind("DEFAULT CHARACTER SET latin1", "INPLACE", "INSTANT"),
    Kind("CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci", "COPY", "COPY"),
    Kind("CONVERT TO CHARACTER SET latin1", "COPY", "COPY", False, "column v"),
    Kind("ENGINE = InnoDB", "INPLACE", "INPLACE"),
    Kind("FORCE", "INPLACE", "INPLACE"),
    Kind("AUTO_INCREMENT = 1000", "INPLACE", "INSTANT", False),
    Kind("PARTITION BY HASH (id) PARTITIONS 4", "COPY", ""),
    Kind("ADD PARTITION (PARTITION p2 VALUES LESS THAN (3000))", "INPLACE", "", base=BASE + BY_RANGE),
    Kind("DROP PARTITION p0", "INPLACE", "", False, "partitions", base=BASE + BY_RANGE),
    Kind("REMOVE PARTITIONING", "COPY", "", base=BASE + BY_RANGE),
    Kind("DROP COLUMN body, ADD COLUMN w VARCHAR(20) DEFAULT '(' COMMENT ')'", "INSTANT", "COPY", False, "column body"),
)
_TIMES = BASE.replace(
    "PRIMARY KEY (id)", "x DATE NOT NULL DEFAULT '2020-01-01', y DATE NOT NULL DEFAULT '2020-02-01', PRIMARY KEY (id)"
)
_PERIOD = _TIMES.replace("PRIMARY KEY (id)", "PERIOD FOR p (x, y), PRIMARY KEY (id)")
OF_MARIADB = (
    Kind("ADD PERIOD FOR p (x, y)", "", "COPY", base=_TIMES),
    Kind("DROP PERIOD FOR p", "", "INSTANT", base=_PERIOD),
    Kind("DROP PERIOD FOR p, ADD PERIOD FOR `q``r` (x, y)", "", "COPY", base=_PERIOD),
    Kind("DROP PERIOD FOR p, DROP COLUMN x, DROP COLUMN y", "", "INSTANT", False, "column x", base=_PERIOD),
    Kind("ADD UNIQUE KEY o (user_id, p WITHOUT OVERLAPS)", "", "COPY", base=_PERIOD),
    Kind("ADD SYSTEM VERSIONING", "", "COPY", False, base=_TIMES),
)
REFUSED = (
    "ALTER TABLE orders RENAME TO others",
    "RENAME TABLE orders TO others",
    "CREATE TABLE orders (id INT)",
    "ALTER TABLE orders ADD FOREIGN KEY (user_id) REFERENCES users (id)",
    "ALTER TABLE orders ADD COLUMN p INT REFERENCES users (id)",
    "ALTER TABLE orders EXCHANGE PARTITION p0 WITH TABLE others",
    "ALTER TABLE orders TRUNCATE PARTITION p0",
    "ALTER TABLE orders DISCARD TABLESPACE",
    "ALTER TABLE orders ADD COLUMN n INT, ALGORITHM=INSTANT",
    "ALTER TABLE orders NOWAIT ADD COLUMN n INT",
    "CREATE INDEX i ON orders (v) LOCK=NONE",
    "ALTER IGNORE TABLE orders ADD UNIQUE KEY (v)",
    "ALTER TABLE IF EXISTS orders ADD COLUMN n INT",
    "ALTER TABLE orders /*!80000 ADD COLUMN n INT */",
    "ALTER TABLE orders ADD COLUMN n INT; DROP TABLE orders",
    "ALTER TABLE orders",
    "ALTER TABLE orders ADD COLUMN n VARCHAR(9) DEFAULT 'x",
    "DROP TABLE orders, others",
    "UPDATE orders SET v = 'x'",
)


@pytest.fixture(scope="module")
def database(box: Sandbox) -> Iterator[str]:
    with scratch(box.source, "kinds") as name:
        yield name


@pytest.mark.parametrize("sql", REFUSED)
def test_what_is_not_run_over_shard_tables_is_refused_with_the_reason(sql: str) -> None:
    with pytest.raises(PreflightError, match="not run over shard tables") as refused:
        read(sql)
    assert refused.value.hint


def test_a_statement_that_says_its_algorithm_is_refused_for_that() -> None:
    """Lost: the reason. It was called one that says in which files a table is."""
    for sql in ("ALTER TABLE orders LOCK=NONE, ADD COLUMN n INT", "CREATE INDEX i ON orders (v) ALGORITHM=INPLACE"):
        with pytest.raises(PreflightError, match="says ALGORITHM, LOCK or WAIT itself"):
            read(sql)


@pytest.mark.parametrize(
    ("sql", "left"),
    [
        ("ALTER TABLE `a`.`o` ALGORITHM=INSTANT, ADD COLUMN n INT;", "ALTER TABLE `a`.`o` ADD COLUMN n INT"),
        (
            "ALTER TABLE o ADD n DECIMAL(9, 2) DEFAULT 1, ALGORITHM INPLACE, MODIFY v INT, LOCK=NONE",
            "ALTER TABLE o ADD n DECIMAL(9, 2) DEFAULT 1, MODIFY v INT",
        ),
        ("ALTER TABLE o WAIT 5 ADD `lock` INT, DROP x", "ALTER TABLE o ADD `lock` INT, DROP x"),
        ("ALTER TABLE o NOWAIT ADD n INT, ALGORITHM=NOCOPY", "ALTER TABLE o ADD n INT"),
        ("ALTER TABLE o ADD n INT DEFAULT 1 , ADD m INT ;", "ALTER TABLE o ADD n INT DEFAULT 1 , ADD m INT"),
        ("ALTER TABLE o ALGORITHM=COPY", "ALTER TABLE o ALGORITHM=COPY"),
        ("ALTER TABLE o", "ALTER TABLE o"),
        ("CREATE INDEX i ON o (v) LOCK=NONE", "CREATE INDEX i ON o (v) LOCK=NONE"),
        ("ALTER TABLE o ADD n VARCHAR(9) DEFAULT 'x", "ALTER TABLE o ADD n VARCHAR(9) DEFAULT 'x"),
    ],
)
def test_the_algorithm_of_a_logged_statement_is_not_another_servers(sql: str, left: str) -> None:
    assert without_level(sql) == left


@pytest.mark.long
def test_every_kind_is_planned_run_and_undone_or_why_not(box: Sandbox, database: str, flavour: Flavour) -> None:
    trial_database, wrong = unique("_migrate_trial_kinds"), []
    with session(box.source) as connection, session(box.source, database) as real:
        with place_of_trial(connection, trial_database):
            for kind in KINDS:
                try:
                    outcome(box.source, connection, real, (trial_database, database), kind, flavour)
                except AssertionError as error:
                    wrong.append(f"{kind.clauses}: {error}".split("\n")[0])
    assert not wrong, "\n".join(wrong)


def test_periods_are_planned_run_and_undone(mariadb_box: Sandbox) -> None:
    trial_database, wrong = unique("_migrate_trial_periods"), []
    with scratch(mariadb_box.source, "periods") as name, session(mariadb_box.source, name) as real:
        with session(mariadb_box.source) as connection, place_of_trial(connection, trial_database):
            for kind in OF_MARIADB:
                try:
                    outcome(mariadb_box.source, connection, real, (trial_database, name), kind, MARIADB)
                except AssertionError as error:
                    wrong.append(f"{kind.clauses}: {error}".split("\n")[0])
    assert not wrong, "\n".join(wrong)


def outcome(
    server: DatabaseServer,
    connection: Connection,
    real: Connection,
    names: tuple[str, str],
    kind: Kind,
    flavour: Flavour,
) -> None:
    """Fails where a kind is not as its line says."""
    _, database = names
    server.execute("DROP TABLE IF EXISTS orders", kind.base, ROWS, database=database)
    logical = read(f"ALTER TABLE orders {kind.clauses}")
    before = definition.read(real, database, "orders")
    trial = tried(connection, names[0], logical, before, ("utf8mb4", "utf8mb4_bin"))
    if not kind.of(flavour) and trial.refused:
        return  # the other server's clause
    assert not trial.refused, trial.refused
    assert trial.level.algorithm == kind.of(flavour), f"takes {trial.level.told}"
    assert kind.loses in "; ".join(trial.loses), f"loses {trial.loses}"
    assert bool(trial.loses) == bool(kind.loses), f"loses {trial.loses}"
    assert (trial.undo is not None) == kind.undone, f"undo {trial.undo}: {trial.why_not}"
    had = rows(server, database, before)
    alter(server, database, logical.for_table(database, "orders", trial.level))
    assert definition.read(real, database, "orders").text == trial.after.text, "the real table is another one"
    if trial.undo:
        undo(server, database, trial)
        assert definition.read(real, database, "orders").text == before.text, "the undone table is another one"
        assert rows(server, database, before) == had, "the undone table has other rows"


def rows(server: DatabaseServer, database: str, of: definition.Definition) -> tuple[tuple[object, ...], ...]:
    return server.query(f"SELECT {', '.join(of.columns)} FROM orders ORDER BY id", database=database)


def alter(server: DatabaseServer, database: str, sql: str) -> None:
    server.execute(sql, database=database)


def undo(server: DatabaseServer, database: str, trial: Trial) -> None:
    level: Level = trial.undo_level
    chosen = [f"{name}={value}" for name, value in (("ALGORITHM", level.algorithm), ("LOCK", level.lock)) if value]
    alter(server, database, compensating(trial.undo or (), f"`{database}`.`orders`", "orders", tuple(chosen)))
