"""Each kind of statement of both servers: planned, run on a table with rows, undone, or why not.

The algorithm is what MySQL's manual ("Online DDL Operations") and MariaDB's documentation ("InnoDB Online DDL
Operations") say; what a table is afterwards, its server's own client says.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from migrate.ddl import definition as definitions
from migrate.ddl.definition import Definition
from migrate.ddl.levels import AT_ONCE, Level
from migrate.ddl.plan import compensating
from migrate.ddl.statement import read, without_level
from migrate.ddl.trial import Trial, place_of_trial, tried
from migrate.model.errors import PreflightError
from migrate.mysql.connection import Connection
from sandbox.database import DatabaseServer
from sandbox.settings import Flavour
from sandbox.stack import Sandbox
from tests.ddl import kinds
from tests.ddl.kinds import BEGINNING, KINDS, NOTHING, OF_ONE, PAGE, PARENT, ROWS, YES, Kind
from tests.helpers import scratch, session, unique

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
    "DROP TABLE IF EXISTS orders",
    "UPDATE orders SET v = 'x'",
)


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
    "sql",
    [
        "ALTER TABLE a.b.orders ADD COLUMN n INT",
        "DROP TABLE a.b.orders",
        "TRUNCATE a.b.orders",
        "CREATE INDEX i ON a.b.orders (v)",
        "DROP INDEX i ON a.b.orders",
    ],
)
def test_a_name_of_three_parts_is_called_one(sql: str) -> None:
    """Lost: the table that was meant. `DROP TABLE a.b.orders` was planned for a table b of a database a."""
    with pytest.raises(PreflightError, match=r"the table's name a\.b\.orders has more than two parts") as refused:
        read(sql)
    assert "as shop.orders, or without; a name with a dot in it goes in backquotes" in refused.value.hint


def test_a_dot_in_a_name_or_an_expression_is_no_third_part() -> None:
    assert read("ALTER TABLE `a.b.orders` ADD COLUMN n INT").table == "a.b.orders"
    assert read("ALTER TABLE orders ADD CONSTRAINT c CHECK (a.orders.v > '')").table == "orders"


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


def test_the_page_has_the_kinds_and_what_comes_of_them() -> None:
    _, found, table = PAGE.read_text("utf-8").partition(BEGINNING)
    assert found
    assert table == kinds.page_table(), "`make ddl-kinds` writes it"


@pytest.mark.parametrize("title", KINDS)
def test_every_kind_is_planned_run_and_undone_or_why_not(box: Sandbox, flavour: Flavour, title: str) -> None:
    trial_database, wrong = unique("_migrate_trial_kinds"), []
    with scratch(box.source, "kinds") as database, session(box.source, database) as real:
        with session(box.source) as connection, place_of_trial(connection, trial_database):
            tables = Tables(box.source, connection, real, trial_database, database, flavour)
            for kind in KINDS[title]:
                try:
                    tables.outcome(kind)
                except AssertionError as error:
                    wrong.append(f"{kind.clauses}: {error}".split("\n")[0])
    assert not wrong, "\n".join(wrong)


@dataclass(frozen=True)
class Tables:
    """The table of a kind in a database, and that of its trial in another one."""

    server: DatabaseServer
    connection: Connection
    real: Connection
    trial_database: str
    database: str
    flavour: Flavour

    def outcome(self, kind: Kind) -> None:
        """Fails where a kind is not as its line says."""
        if OF_ONE.get(kind.base, self.flavour) is not self.flavour:
            assert not kind.of(self.flavour)
            return
        made = ("DROP TABLE IF EXISTS orders, users", PARENT, "INSERT INTO users VALUES (1), (2)", kind.base, ROWS)
        self.server.execute(*made, database=self.database)
        logical = read(kind.statement)
        before = self.definition()
        trial = tried(self.connection, self.trial_database, logical, before, ("utf8mb4", "utf8mb4_bin"))
        assert bool(trial.refused) == (not kind.of(self.flavour)), f"refused: {trial.refused}; takes {trial.level.told}"
        if trial.refused:
            return  # the other server's clause
        level = "at once" if trial.level == AT_ONCE else trial.level.told
        assert level == kind.of(self.flavour), f"takes {level}"
        taken_back(trial, kind.taken_back(self.flavour))
        had = self.rows(before)
        self.send(logical.for_table(self.database, "orders", trial.level))
        assert self.definition().text == trial.after.text, "the real table is another one"
        if trial.undo:
            self.send(compensating(trial.undo, f"`{self.database}`.`orders`", "orders", chosen(trial.undo_level)))
            assert self.definition().text == before.text, "the undone table is another one"
        if trial.undo is not None:
            assert self.rows(before) == had, "the table has other rows"

    def definition(self) -> Definition:
        return definitions.read(self.real, self.database, "orders")

    def rows(self, of: Definition) -> tuple[tuple[object, ...], ...]:
        return self.server.query(f"SELECT {', '.join(of.columns)} FROM orders ORDER BY id", database=self.database)

    def send(self, sql: str) -> None:
        """In a session as a run has it."""
        self.real.execute_noted(sql.replace("%", "%%"))


def taken_back(trial: Trial, expected: str) -> None:
    no, _, why = expected.partition(": ")
    told = f"undo {trial.undo}: {trial.why_not}"
    lost = "; ".join(trial.loses)
    if no != "no":
        assert not lost, f"loses {lost}"
        assert {YES: bool(trial.undo), NOTHING: trial.undo == ()}[expected], told
        return
    assert trial.undo is None, told
    if why.startswith("loses "):
        assert why.removeprefix("loses ") in lost, f"loses {lost}"
    else:
        assert not lost, f"loses {lost}"
        assert why in trial.why_not, told


def chosen(level: Level) -> tuple[str, ...]:
    return tuple(f"{name}={value}" for name, value in zip(("ALGORITHM", "LOCK"), level, strict=True) if value)
