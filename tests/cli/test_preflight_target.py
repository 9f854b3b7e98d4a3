"""What preflight says of foreign keys, triggers, events, generated and AUTO_INCREMENT columns, at both ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.cli.support import SECRET, Outcome, config_of, migrate, written
from tests.helpers import scratch, unique

_SOURCE = (
    "CREATE TABLE parent (id INT PRIMARY KEY)",
    "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, p INT NOT NULL, twice INT AS (p * 2) STORED,"
    " CONSTRAINT of_parent FOREIGN KEY (p) REFERENCES parent (id))",
    "CREATE TRIGGER counting BEFORE INSERT ON t FOR EACH ROW SET NEW.p = NEW.p",
)
_TARGET = (
    "CREATE TABLE parent (id INT PRIMARY KEY)",
    "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, p INT NOT NULL, twice INT AS (p * 2) STORED,"
    " CONSTRAINT t_parent FOREIGN KEY (p) REFERENCES parent (id))",
    "CREATE TABLE child (id INT PRIMARY KEY, t INT NOT NULL,"
    " CONSTRAINT child_t FOREIGN KEY (t) REFERENCES t (id) ON DELETE CASCADE)",
)


class Case:
    """A source table `t`, and a target database that somebody has made tables in already."""

    def __init__(self, box: Sandbox, kafka: KafkaBroker, database: str, directory: Path) -> None:
        self.box, self.database, self.directory = box, database, directory
        self.bootstrap = kafka.bootstrap
        self.target = f"{database}_target"
        self.account: dict[str, Any] = {}

    def at_target(self, *statements: str) -> None:
        self.box.targets[0].execute(*statements, database=self.target)

    def run(self, command: str = "preflight") -> Outcome:
        raw = config_of(self.box, self.database, name=unique("target"), kafka={"bootstrap": self.bootstrap})
        raw["targets"][0] |= self.account
        return migrate(written(self.directory, raw), command)

    def lines(self) -> list[str]:
        """Verdict and message, of what is told of this migration's tables and databases."""
        return [line.strip() for line in self.run().out.splitlines() if self.database in line]


@pytest.fixture
def case(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> Iterator[Case]:
    with scratch(box.source, "ends") as database:
        box.source.execute(*_SOURCE, database=database)
        box.targets[0].execute(f"CREATE DATABASE {database}_target")
        made = Case(box, kafka, database, tmp_path)
        made.at_target(*_TARGET)
        yield made
        for name in (f"{database}_state", f"{database}_state_shadow", f"{database}_target"):
            box.targets[0].execute(f"DROP DATABASE IF EXISTS {name}")


def test_what_stays_behind_and_what_is_switched_off_is_noted(case: Case) -> None:
    told, source, target = "\n".join(case.lines()), f"{case.database}.t", f"t0/{case.target}.t"
    for line in (
        f"{source}: foreign keys are not created at the target: of_parent",
        f"{source}: triggers are not created at the target; their changes come through the stream: counting",
        f"{source}: generated columns are computed by the target, not written: twice",
        f"{target}: foreign keys are neither checked nor cascade for what the service writes:"
        " child_t (child refers to t), t_parent (t refers to parent)",
    ):
        assert f"note  {line}\n" in told + "\n"
    counts_on = f"{source}: id is AUTO_INCREMENT: its values are copied as they are, and the one target table"
    assert f"pass  {counts_on} counts on from its own highest\n" in told + "\n"
    assert "problem" not in told


def test_a_trigger_of_a_target_table_is_a_problem_that_the_statement_mends(case: Case) -> None:
    case.at_target("CREATE TRIGGER again AFTER DELETE ON t FOR EACH ROW DELETE FROM child")
    case.at_target("CREATE TRIGGER elsewhere AFTER DELETE ON parent FOR EACH ROW DELETE FROM child")
    place = f"t0/{case.target}.t"
    (line,) = [line for line in case.lines() if "problem" in line]
    assert f"{place}: trigger again (AFTER DELETE) would do once more what the source's did" in line
    first, hint = case.run("init").told(3)
    assert first.startswith(f"{place}: trigger again")
    statement, _, rest = hint.partition(";")
    assert (statement, rest) == (f"DROP TRIGGER `{case.target}`.`again`", " make it again after the switch")
    case.at_target(statement)
    assert not [line for line in case.lines() if "problem" in line]


def test_an_event_that_names_a_target_table_is_a_problem_and_another_is_noted(case: Case) -> None:
    case.at_target("CREATE EVENT tidies ON SCHEDULE EVERY 1 DAY DO DELETE FROM t WHERE p < 0")
    case.at_target("CREATE EVENT other ON SCHEDULE EVERY 1 DAY DO DELETE FROM child")
    lines = [line for line in case.lines() if "event " in line]
    assert [line.split()[0] for line in lines] == ["note", "problem"]
    assert f"target 't0': event {case.target}.other runs while the service writes" in lines[0]
    assert f"target 't0': event {case.target}.tidies may change rows of t" in lines[1]
    _, hint = case.run("init").told(3)
    statement = hint.partition(";")[0]
    assert statement == f"ALTER EVENT `{case.target}`.`tidies` DISABLE"
    case.at_target(statement)
    assert not [line for line in case.lines() if "tidies" in line]


def test_a_column_that_only_one_end_generates_is_a_problem(case: Case) -> None:
    case.at_target("ALTER TABLE t DROP COLUMN twice", "ALTER TABLE t ADD COLUMN twice INT")
    lines = [line for line in case.lines() if "problem" in line]
    other = f"t0/{case.target}.t has other columns than"
    assert [(other in line, line.endswith(": twice (generated on one side only)")) for line in lines] == [(True, True)]
    assert other in case.run("init").told(3)[0]


def test_an_account_that_cannot_see_triggers_is_told_so(case: Case) -> None:
    """And sees the foreign keys all the same."""
    user, server = unique("grants")[:30], case.box.targets[0]
    pattern = case.target.replace("_", "\\_")
    server.execute(
        f"CREATE USER '{user}'@'%' IDENTIFIED BY '{SECRET}'",
        f"GRANT CREATE, SELECT, INSERT, UPDATE, DELETE ON `{pattern}`.* TO '{user}'@'%'",
    )
    try:
        case.account = {"user": user, "password": SECRET}
        told = "\n".join(case.lines())
        hidden = f"this account cannot see triggers and events of database {case.target}, which has tables already"
        assert f"note  target 't0': {hidden}" in told
        assert "child_t (child refers to t)" in told
        server.execute(f"GRANT TRIGGER, EVENT ON `{pattern}`.* TO '{user}'@'%'")
        assert "this account cannot see" not in "\n".join(case.lines())
    finally:
        server.execute(f"DROP USER '{user}'@'%'")


def test_an_event_or_a_trigger_that_is_not_there_costs_no_word(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    with scratch(box.source, "fresh") as database:
        box.source.execute("CREATE TABLE t (id INT PRIMARY KEY)", database=database)
        lines = Case(box, kafka, database, tmp_path).lines()
    assert [line for line in lines if not line.startswith("pass")] == []
