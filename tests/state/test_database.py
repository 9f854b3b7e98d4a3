"""The state database: created, upgraded, equal to what the code declares, reached again after trouble."""

from __future__ import annotations

import importlib
import pkgutil
import threading
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import mysql

import migrate.state
from migrate.model.errors import ServerError
from migrate.settings import State
from migrate.state import database
from sandbox.settings import Flavour
from sandbox.stack import Sandbox
from tests.helpers import address, unique

for module in pkgutil.iter_modules(migrate.state.__path__):
    importlib.import_module(f"migrate.state.{module.name}")  # so that each declares its table


def reflected(state: sa.Engine, *only: str) -> dict[str, sa.Table]:
    """Tables as the server has them: these, or all, which takes a third of a second."""
    found = sa.MetaData()
    found.reflect(state, only=only or None)
    return dict(found.tables)


def test_every_table_has_a_module_and_every_module_a_table(state: sa.Engine) -> None:
    assert set(reflected(state)) - {"schema_version"} == set(database.metadata.tables)


@pytest.mark.parametrize("name", sorted(database.metadata.tables))
def test_the_declared_columns_are_the_created_ones(state: sa.Engine, name: str) -> None:
    there, declared = reflected(state, name)[name], database.metadata.tables[name]
    assert {column.name for column in declared.columns} <= set(there.columns.keys())
    if declared.primary_key.columns:
        assert set(declared.primary_key.columns.keys()) == set(there.primary_key.columns.keys())
    for column in there.columns:
        if column.name not in declared.columns:  # then the server fills it
            assert column.nullable or column.server_default is not None or column.autoincrement is True, column.name
            continue
        mine = declared.columns[column.name].type
        assert isinstance(column.type, _GENERIC[type(mine)]), column.name
        if isinstance(mine, sa.String) and mine.length:
            assert isinstance(column.type, sa.String)
            assert column.type.length == mine.length, column.name


_GENERIC: dict[type, Any] = {
    sa.String: sa.String,
    sa.Text: (sa.Text, mysql.LONGTEXT, mysql.MEDIUMTEXT),
    sa.Integer: sa.Integer,
    sa.BigInteger: sa.BigInteger,
    sa.Double: sa.Double,
    sa.SmallInteger: sa.Integer,
    sa.DateTime: sa.DateTime,
    sa.LargeBinary: (sa.BINARY, mysql.LONGBLOB),
}


def test_a_second_init_changes_nothing(state: sa.Engine, state_settings: State) -> None:
    before = {name: table.columns.keys() for name, table in reflected(state).items()}
    assert database.create(state_settings) == []
    assert {name: table.columns.keys() for name, table in reflected(state).items()} == before


def test_an_init_killed_half_way_is_finished_by_the_next(box: Sandbox) -> None:
    settings = State(**address(box.targets[0]), database=unique("half"))
    ((version, parts), *_) = database.sql_steps("state")
    box.targets[0].execute(f"CREATE DATABASE {settings.database} COLLATE utf8mb4_bin")
    box.targets[0].execute(*parts[:3], database=settings.database)
    try:
        assert version in database.create(settings)
        engine = database.engine(settings)
        assert set(database.metadata.tables) <= set(reflected(engine))
        engine.dispose()
    finally:
        box.targets[0].execute(f"DROP DATABASE {settings.database}")


def test_statements_are_split_at_their_ends_and_comments_left_out() -> None:
    assert database.statements("-- a; b;\nCREATE TABLE x (\n  -- c\n  a INT COMMENT 'x; y'\n);\n\nDROP y;\n") == [
        "CREATE TABLE x (\n  a INT COMMENT 'x; y'\n)",
        "DROP y",
    ]


@pytest.mark.parametrize("folder", ["state", "target"])
def test_the_steps_are_numbered_from_one_each_number_once(folder: str) -> None:
    steps = database.sql_steps(folder)
    numbers = [version for version, _ in steps]
    assert numbers == sorted({*numbers})  # with gaps: a number is given to a change before it is there
    assert numbers[0] == 1
    assert len(steps) == len(list((Path(__file__).parents[2] / "sql" / folder).glob("[0-9]*.sql")))
    assert all(parts for _, parts in steps)


# -- refusals


def test_a_missing_state_database_says_what_to_run(box: Sandbox) -> None:
    settings = State(**address(box.targets[0]), database="no_such_state")
    engine = database.engine(settings)
    with pytest.raises(sa.exc.DBAPIError) as caught:
        engine.connect()
    told = database.explain_state(caught.value, settings)
    assert "state database 'no_such_state'" in told.message
    assert told.hint == "run `migrate init` first"


def test_a_wrong_password_is_told_without_it(box: Sandbox) -> None:
    with pytest.raises(ServerError) as caught:
        database.create(State(**address(box.targets[0], password="canary-pw")))
    assert "wrong user or password" in caught.value.message
    assert "canary" not in str(caught.value)


def test_a_server_that_cannot_prove_who_it_is_is_refused(box: Sandbox) -> None:
    """MySQL makes itself a certificate that nobody signed; MariaDB 10.11 has none."""
    settings = State(**address(box.targets[0]), tls={"mode": "verify"})
    with pytest.raises(ServerError) as caught:
        database.create(settings)
    assert ("certificate is not accepted" in caught.value.message) == (box.flavour is Flavour.MYSQL)


def test_the_session_is_utc_and_strict(state: sa.Engine) -> None:
    with state.connect() as connection:
        zone, mode = connection.execute(sa.text("SELECT @@session.time_zone, @@session.sql_mode")).one()
    assert zone == "+00:00"
    assert "STRICT_ALL_TABLES" in mode


# -- trying again


def test_what_passes_is_tried_again_in_a_new_transaction(box: Sandbox, state: sa.Engine) -> None:
    tries: list[int] = []

    def action(connection: sa.Connection) -> str:
        tries.append(connection.execute(sa.text("SELECT CONNECTION_ID()")).scalar_one())
        if len(tries) == 1:
            box.targets[0].execute(f"KILL {tries[0]}")
        return str(connection.execute(sa.text("SELECT 'done'")).scalar_one())

    assert database.in_transaction(state, action, threading.Event()) == "done"
    assert len(tries) == 2


def test_a_right_to_write_at_a_read_only_server_counts_once_it_is_granted(box: Sandbox) -> None:
    """Rights of a session are those of its beginning: a `migrate run` from before the grants of a cutover could not
    write its state in a freeze, and a rollback that waits for it was given back."""
    server, name = box.targets[0], unique("readonly")
    right = "READ ONLY ADMIN" if box.flavour is Flavour.MARIADB else "CONNECTION_ADMIN"
    server.execute(
        f"CREATE DATABASE {name}",
        f"CREATE TABLE {name}.t (id INT PRIMARY KEY)",
        f"CREATE USER '{name}'@'%' IDENTIFIED BY 'canary-4711'",
        f"GRANT ALL ON {name}.* TO '{name}'@'%'",
    )
    where = {**address(server), "user": name, "password": "canary-4711"}
    state, stop = database.engine(State(**where, database=name)), threading.Event()
    late = threading.Timer(20, stop.set)
    late.start()

    def write(connection: sa.Connection) -> None:
        connection.exec_driver_sql("SELECT 1")
        server.execute(f"GRANT {right} ON *.* TO '{name}'@'%'")
        connection.exec_driver_sql("INSERT INTO t VALUES (1)")

    try:
        server.execute("SET GLOBAL read_only = 1")
        database.in_transaction(state, write, stop)
    finally:
        late.cancel()
        server.execute("SET GLOBAL read_only = 0")
        state.dispose()
    assert server.query(f"SELECT id FROM {name}.t") == ((1,),)
    server.execute(f"DROP DATABASE {name}", f"DROP USER '{name}'@'%'")


def test_what_does_not_pass_is_told_at_once(state: sa.Engine) -> None:
    with pytest.raises(ServerError, match=r"state database: .*no_such_table.* \(error 1146\)"):
        database.in_transaction(state, lambda c: c.execute(sa.text("SELECT * FROM no_such_table")), threading.Event())


def test_nobody_waits_for_a_state_that_is_away_once_asked_to_stop(state_settings: State) -> None:
    engine = database.engine(state_settings.model_copy(update={"port": 1}))
    stop = threading.Event()
    stop.set()
    with pytest.raises(ServerError, match="stopped while it was being tried again"):
        database.in_transaction(engine, lambda _: None, stop)
