"""What init would be refused is refused by preflight, which makes the tables for a moment in a scratch database."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from migrate.commands.init import initialise
from migrate.model.errors import MigrateError, ServerError
from migrate.mysql.catalog import base_tables
from migrate.preflight.result import Result, Verdict
from migrate.preflight.schema.scratch import name_of
from migrate.publish.schema.statement import Statement, concerned
from migrate.state.database import OPTIONS
from sandbox.database import DatabaseServer
from tests.helpers import address, log_end, session
from tests.preflight.support import Case

_BY_ID = {"nodes": "ds_0.kept"}


def tried(case: Case) -> list[Result]:
    return [one for one in case.report(services=True).results if one.check == "trial"]


def refused(case: Case) -> list[Result]:
    return [one for one in tried(case) if one.verdict is not Verdict.PASS]


def add(case: Case, name: str, *statements: str) -> None:
    """A table of its own place."""
    case.at_source(*statements)
    case.raw["tables"].append({"name": f"{case.database}.{name}", "sharding": {"nodes": f"ds_0.{name}"}})


def scratches(case: Case) -> list[str]:
    like = "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME LIKE '\\_migrate\\_trial\\_%'"
    return [str(name) for server in case.box.targets for (name,) in server.query(like)]


def test_each_definition_is_tried_once_at_each_server_and_nothing_stays(case: Case) -> None:
    add(case, "alike", "CREATE TABLE alike LIKE t")
    add(case, "other", "CREATE TABLE other (id INT PRIMARY KEY, b BLOB)", "INSERT INTO other VALUES (1, 0x00FF5C270A)")
    told = {one.subject: (one.verdict, one.message.split(":")[-1].split(" tried")[0]) for one in tried(case)}
    assert told == {
        "t0": (Verdict.PASS, " 2 definitions"),
        "t1": (Verdict.PASS, " 1 definition"),
        "state server": (Verdict.PASS, told["state server"][1]),
    }
    assert scratches(case) == []
    initialise(case.settings)
    assert tried(case) == [], "nothing is to be made"


@contextmanager
def tablespace(server: DatabaseServer) -> Iterator[str]:
    server.execute("CREATE TABLESPACE kept_apart ADD DATAFILE 'kept_apart.ibd'")
    try:
        yield "kept_apart"
    finally:
        server.execute("DROP TABLESPACE kept_apart")


def test_a_tablespace_that_the_target_has_not_is_named_and_init_says_the_same(case: Case) -> None:
    if case.box.flavour == "mariadb":
        pytest.skip("it has none")
    with tablespace(case.box.source) as space:
        add(case, "kept", f"CREATE TABLE kept (id INT PRIMARY KEY) TABLESPACE {space}")
        try:
            refused_alike(case, f"refuses the definition of {case.database}.kept: ", space)
        finally:
            case.at_source("DROP TABLE kept")


def test_a_sequence_that_the_target_has_not_is_named_and_init_says_the_same(case: Case) -> None:
    if case.box.flavour == "mysql":
        pytest.skip("it has none")
    add(case, "kept", "CREATE SEQUENCE s", "CREATE TABLE kept (id INT PRIMARY KEY DEFAULT NEXTVAL(s))")
    refused_alike(case, f"refuses the definition of {case.database}.kept: ", f"{case.database}.s")


def test_a_sequence_that_the_state_server_has_not_is_noted_with_its_name(case: Case) -> None:
    """Targets that have it take the table, and the publisher stopped at the first statement that altered it."""
    if case.box.flavour == "mysql":
        pytest.skip("it has none")
    case.raw["state"] |= address(case.box.targets[1])
    target = case.box.targets[0]
    target.execute(f"CREATE DATABASE {case.database}", f"CREATE SEQUENCE {case.database}.s")
    add(case, "kept", "CREATE SEQUENCE s", "CREATE TABLE kept (id INT PRIMARY KEY DEFAULT NEXTVAL(s))")
    (found,) = refused(case)
    assert (found.verdict, found.subject) == (Verdict.NOTE, "state server")
    assert f"{case.database}.kept: the state server says: Table '{case.database}.s' doesn't exist" in found.message
    case.box.targets[1].execute(f"CREATE DATABASE IF NOT EXISTS {case.database}", f"CREATE SEQUENCE {case.database}.s")
    assert refused(case) == []


def test_a_row_format_that_strict_mode_does_not_take_is_named_and_others_are_made(case: Case) -> None:
    """MariaDB says 1005 of it, which names nothing, and why in a warning; MySQL drops it from the definition."""
    add(
        case,
        "kept",
        "SET SESSION innodb_strict_mode = 0",
        "CREATE TABLE kept (id INT PRIMARY KEY, a INT, KEY (a)) ROW_FORMAT=DYNAMIC KEY_BLOCK_SIZE=16",
    )
    if case.box.flavour == "mariadb":
        refused_alike(case, f"refuses the definition of {case.database}.kept: ", "KEY_BLOCK_SIZE")
    add(case, "small", "CREATE TABLE small (id INT PRIMARY KEY, v TEXT) ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=4")
    assert refused(case) == []
    initialise(case.settings)
    made = case.box.targets[0].query(f"SHOW CREATE TABLE {case.database}.small")[0][1]
    assert "ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=4" in made


def refused_alike(case: Case, told: str, names: str) -> None:
    """Preflight has one problem, init ends by it, and the next one goes on with what was made before. names: what the
    server's words are about."""
    (found,) = [one for one in refused(case) if one.verdict is Verdict.PROBLEM]
    assert found.subject == f"t0/{case.database}.kept"
    assert found.message.startswith(f"t0/{case.database}.kept: target 't0' {told}")
    assert names in found.message.removeprefix(f"t0/{case.database}.kept: target 't0' {told}")
    said: list[str] = []
    with pytest.raises(MigrateError) as error:
        initialise(case.settings, say=said.append)
    assert (error.value.message, error.value.hint) == (found.message, found.mend)
    assert "`migrate init` continues from there" in said[-1]
    case.raw["tables"].pop()
    initialise(case.settings)
    assert initialise(case.settings).tables_created == 0


def test_what_a_killed_preflight_left_is_dropped_and_what_others_made_is_not(case: Case) -> None:
    server, name = case.box.targets[0], name_of(case.settings.name)
    server.execute(
        f"CREATE DATABASE {name}", f"CREATE TABLE {name}._migrate_trial (id INT)", f"CREATE TABLE {name}.a (b INT)"
    )
    initialise(case.settings)
    assert tried(case) == []
    assert scratches(case) == []

    case.raw["state"]["database"] += "_other"
    server.execute(f"CREATE DATABASE {name}", f"CREATE TABLE {name}.a (b INT)")
    try:
        found = refused(case)
        assert {(one.verdict, one.subject) for one in found} == {
            (Verdict.UNKNOWN, "state server"),
            (Verdict.UNKNOWN, "target 't0'"),
        }
        assert all(f"database {name} is there, and was not made by a preflight" in one.message for one in found)
        assert scratches(case) == [name]
    finally:
        server.execute(f"DROP DATABASE {name}")


def test_an_account_without_rights_on_the_scratch_database_gets_the_statement_that_gives_them(case: Case) -> None:
    server, database = case.box.targets[1], case.database
    account = f"'{database}'@'%'"
    server.execute(
        f"CREATE USER {account} IDENTIFIED BY 'a-password-of-a-test'",
        f"GRANT CREATE, SELECT, INSERT, UPDATE, DELETE ON `{database}`.* TO {account}",
    )
    try:
        case.raw["targets"][1].update(user=database, password="a-password-of-a-test")
        (found,) = refused(case)
        assert (found.verdict, found.subject) == (Verdict.UNKNOWN, "target 't1'")
        server.execute(found.mend)
        assert refused(case) == []
    finally:
        server.execute(f"DROP USER {account}")


def test_a_row_with_half_a_character_is_its_tables_result_and_the_others_are_tried(case: Case) -> None:
    """MySQL too stores what it converts from UCS-2 so; the preflight ended with a traceback."""
    add(
        case,
        "halves",
        "CREATE TABLE halves (id INT PRIMARY KEY, s VARCHAR(20) CHARACTER SET utf8mb4)",
        "INSERT INTO halves VALUES (1, _ucs2 0xD83D)",
    )
    if case.box.flavour == "mariadb":  # also what is no character there, but two in a row that look like one
        case.at_source("UPDATE halves SET s = CONVERT(0xEDA0BDEDB881 USING utf8mb3)")
    (found,) = refused(case)
    assert (found.verdict, found.subject) == (Verdict.PROBLEM, f"t0/{case.database}.halves")
    assert found.message.startswith("column s (varchar(20)) holds text that is not UTF-8")
    (condition,) = re.findall("HEX.+'", found.mend)
    assert case.box.source.query(f"SELECT id FROM {case.database}.halves WHERE {condition}") == ((1,),)
    case.at_source("UPDATE halves SET s = '힣😁é'")
    assert case.box.source.query(f"SELECT id FROM {case.database}.halves WHERE {condition}") == ()
    assert refused(case) == []


def test_a_row_that_the_target_does_not_take_is_named(case: Case) -> None:
    if case.box.flavour == "mysql":
        pytest.skip("what it checks it checks for every row")
    add(case, "kept", "CREATE TABLE kept (id INT PRIMARY KEY, v INT CHECK (v > 0))")
    case.at_source("SET SESSION check_constraint_checks = 0", "INSERT INTO kept VALUES (7, -1)")
    (found,) = refused(case)
    assert (found.verdict, found.subject) == (Verdict.PROBLEM, f"t0/{case.database}.kept")
    assert f'does not take {case.database}.kept key ["7"] by INSERT: ' in found.message
    assert "-1" not in found.message
    case.raw["copy"] = {"refused": "park"}
    (found,) = refused(case)
    assert found.verdict is Verdict.NOTE


def test_a_log_with_a_trial_in_it_has_nothing_that_concerns_a_table(case: Case) -> None:
    """In a target's log, which the reverse stream reads; nor does a pattern take a table of a trial."""
    server, database = case.box.targets[0], case.database
    file, start = log_end(server)
    assert refused(case) == []
    tables = [(database, f"t_{number}") for number in range(2)]
    statements = [
        Statement(database, str(row[5]))
        for row in server.query(f"SHOW BINLOG EVENTS IN '{file}' FROM {start}")
        if str(row[2]) == "Query"
    ]
    trial = name_of(case.settings.name)
    assert sum(trial in one.sql for one in statements) > 3, "the trial is in the log"
    assert [one for one in statements if trial in one.sql and concerned(one, tables)] == []
    rows = [
        str(row[5]) for row in server.query(f"SHOW BINLOG EVENTS IN '{file}' FROM {start}") if row[2] == "Table_map"
    ]
    assert rows, "the state's versions are"
    assert not [one for one in rows if f"{trial}.t_" in one], "no row of the source's"


def test_a_pattern_takes_no_table_of_a_trial(case: Case) -> None:
    name = name_of(case.settings.name)
    case.box.source.execute(f"CREATE DATABASE {name}", f"CREATE TABLE {name}.t (id INT)")
    try:
        with session(case.box.source) as connection:
            assert (case.database, "t") in (found := base_tables(connection))
            assert name not in [database for database, _ in found]
    finally:
        case.box.source.execute(f"DROP DATABASE {name}")


def test_an_init_that_was_refused_among_the_states_steps_goes_on_with_the_grant(case: Case) -> None:
    server, user, state = case.box.targets[0], case.database, f"{case.database}_state"
    server.execute(
        f"CREATE DATABASE {state} {OPTIONS}",
        f"CREATE TABLE {state}.of_somebody (id INT PRIMARY KEY)",  # an empty database gets all tables at once
        f"CREATE USER '{user}'@'%' IDENTIFIED BY 'a-password-of-a-test'",
        f"GRANT CREATE, SELECT, INSERT, UPDATE, DELETE ON `{state}`.* TO '{user}'@'%'",
        f"GRANT ALL ON `{state}_shadow`.* TO '{user}'@'%'",
    )
    case.raw["state"].update(user=user, password="a-password-of-a-test")
    try:
        said: list[str] = []
        with pytest.raises(ServerError, match="a grant is missing"):
            initialise(case.settings, say=said.append)
        assert "`migrate init` continues from there" in said[-1]
        server.execute(f"GRANT ALTER ON `{state}`.* TO '{user}'@'%'")
        assert initialise(case.settings).tables_created == 4
    finally:
        server.execute(f"DROP USER '{user}'@'%'")
