"""Writes are stopped and given back at real servers, also where one is away, where a statement still waits, where an
account is gone, and where it is a role that holds the grants."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pymysql
import pytest
import sqlalchemy as sa

from migrate.cutover.left_server import LeftServer
from migrate.cutover.lock import still_at
from migrate.cutover.write_block import WriteBlocks
from migrate.model.errors import OwnershipLost, PreflightError, ServerError
from migrate.model.table import Table
from migrate.settings import Settings, State, parse
from migrate.state import cutover
from migrate.state.cutover import Block, Outcome, SwitchDirection
from migrate.state.switch import Side
from sandbox.ports import free_port
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, frozen, wait
from tests.helpers import address, int_column, plan_of, raw_settings, scratch, unique


class Case:
    """Two servers of the side that is left, with a table `t` at each."""

    def __init__(self, box: Sandbox, state: sa.Engine, at: State, database: str, directory: Path) -> None:
        self.box, self.state, self.database = box, state, database
        self.servers = {"a": box.source, "b": box.targets[1]}
        self.ports = {name: server.port for name, server in self.servers.items()}
        self.name = unique("blocks")
        self.said: list[str] = []
        self.account: dict[str, str] = {}  # user and password, where the config has not the sandbox's own
        self.raw: dict[str, Any] = raw_settings(
            name=self.name,
            state={**address(box.targets[0]), "database": at.database},
            run_dir=str(directory),
            cutover={"stop": "read_only", "wait_seconds": 1},
            tables=[{"name": f"{database}.t", "source": one, "sharding": {"nodes": f"ds_0.{one}"}} for one in "ab"],
        )

    def settings(self) -> Settings:
        sources = [
            {"name": name, **address(server, port=self.ports[name], **self.account)}
            for name, server in self.servers.items()
        ]
        return parse({**self.raw, "sources": sources}, {})

    def blocks(self) -> WriteBlocks:
        """As a process of its own would have them."""
        settings = self.settings()
        tables = [Table(one, self.database, "t", (int_column("id"),), ("id",)) for one in "ab"]
        servers = [LeftServer(source, "source") for source in settings.sources]
        plan = plan_of(*tables, settings=settings)
        return WriteBlocks(settings, self.state, Side.SOURCE, servers, plan, self.said.append)

    def give_back(self) -> None:
        self.blocks().give_back(lambda _state: None)

    def stop(self) -> None:
        self.blocks().stop(1, lambda _connection: None)

    def read_only(self) -> list[bool]:
        return [bool(int(server.query("SELECT @@GLOBAL.read_only")[0][0])) for server in self.servers.values()]

    def noted(self) -> list[str]:
        with self.state.connect() as connection:
            return [one.server for one in cutover.blocked(connection, self.name, Side.SOURCE)]


def number_of(connection: Any) -> int:
    """Of a session, at its server."""
    return int(connection.thread_id())


@pytest.fixture
def case(box: Sandbox, state: sa.Engine, state_settings: State, tmp_path: Path) -> Iterator[Case]:
    with scratch(box.source, "blocks") as database:
        made = Case(box, state, state_settings, database, tmp_path)
        box.targets[1].execute(f"CREATE DATABASE {database}")
        for server in made.servers.values():
            server.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY)")
        try:
            yield made
        finally:
            for server in made.servers.values():
                server.execute("SET GLOBAL read_only = 0")
            box.targets[1].execute(f"DROP DATABASE {database}")


def test_a_server_that_is_away_keeps_no_other_one_closed(case: Case) -> None:
    case.stop()
    assert (case.read_only(), case.noted()) == ([True, True], ["a", "b"])
    port = case.ports["a"]
    case.ports["a"] = free_port()
    with pytest.raises(ServerError, match="writes are still stopped at 'a': "):
        case.give_back()
    assert (case.read_only(), case.noted()) == ([True, False], ["a"])
    case.ports["a"] = port
    case.give_back()
    assert (case.read_only(), case.noted()) == ([False, False], [])


def test_a_server_that_hangs_keeps_no_other_one_closed_for_a_while(case: Case) -> None:
    blocks = case.blocks()
    blocks.stop(1, lambda _connection: None)
    lifting = threading.Thread(target=blocks.lift, daemon=True)
    asked = "SELECT @@GLOBAL.read_only"
    with frozen(case.servers["b"].pid):
        lifting.start()  # connect_timeout is 10 s
        wait(lambda: case.servers["a"].query(asked) == ((0,),), "the other one to be open", 5)
        lifting.join(8)
        assert not lifting.is_alive()
    blocks.give_back(lambda _connection: None)
    assert (case.read_only(), case.noted()) == ([False, False], [])


def test_a_run_that_is_another_ones_meanwhile_closes_no_further_server(case: Case) -> None:
    asked: list[list[bool]] = []

    def still(_connection: sa.Connection) -> None:
        asked.append(case.read_only())
        if asked[-1][0]:
            raise OwnershipLost("another's")

    with pytest.raises(OwnershipLost):
        case.blocks().stop(1, still)
    assert asked == [[False, False], [False, False], [True, False]], "at the beginning, and before each server"
    assert (case.read_only(), case.noted()) == ([True, False], ["a"])


def test_what_was_closed_once_its_note_was_gone_is_opened_by_who_closed_it(case: Case) -> None:
    blocks = case.blocks()
    blocks.stop(1, lambda _connection: None)
    case.give_back()  # as by `--abort` elsewhere, before this one came to its statements
    for server in case.servers.values():
        server.execute("SET GLOBAL read_only = 1")
    assert case.noted() == []
    blocks.give_back(lambda _connection: None)
    assert case.read_only() == [False, False]


@pytest.mark.parametrize("later", ["is under way", "was killed and ended, and could not open the server"])
def test_what_a_later_run_has_noted_stays_noted(case: Case, monkeypatch: pytest.MonkeyPatch, later: str) -> None:
    """Lost: the note of a run that had closed a server again, to a process of the run before that hung while it opened
    it. A kill of the later run then left the server closed, and nothing said so."""
    with case.state.begin() as connection:
        earlier = cutover.begin(connection, case.name, SwitchDirection.TO_TARGETS)
    case.stop()
    suspended, end = case.blocks(), WriteBlocks._end

    def late(blocks: WriteBlocks, block: Block) -> None:
        end(blocks, block)
        if block.server == "a" and blocks is suspended:
            case.give_back()  # as by `--abort` elsewhere
            with case.state.begin() as connection:
                cutover.came_to(connection, case.name, earlier, Outcome.ABORTED)
                number = cutover.begin(connection, case.name, SwitchDirection.TO_TARGETS)
            case.blocks().stop(number, lambda _connection: None)

    monkeypatch.setattr(WriteBlocks, "_end", late)
    if later == "is under way":
        with pytest.raises(ServerError, match=f"run {earlier} was ended by another process"):
            suspended.give_back(partial(still_at, case.name, earlier, Outcome.RUNNING))
    else:
        suspended.give_back(lambda _connection: None)
    assert case.noted() == ["a", "b"]


@pytest.mark.parametrize("stop", ["read_only", "revoke"])
def test_a_server_that_somebody_opened_in_the_freeze_is_not_switched_from(case: Case, stop: str) -> None:
    """Lost: what an application wrote after the switch where a process of an earlier run had allowed it."""
    user = f"{case.name[-20:]}_app"
    accounts = [f"{user}@%"] if stop == "revoke" else []
    case.raw["cutover"] = {"stop": stop, "accounts": accounts, "wait_seconds": 1}
    opening = {"read_only": "SET GLOBAL read_only = 0", "revoke": f"GRANT INSERT ON {case.database}.* TO '{user}'@'%'"}
    for server in case.servers.values():
        server.execute(f"CREATE USER '{user}'@'%'", opening["revoke"])
    blocks = case.blocks()
    blocks.stop(1, lambda _connection: None)
    blocks.refuse_opened()
    case.servers["b"].execute(opening[stop])
    with pytest.raises(ServerError, match="source 'b': writes are not stopped any more: "):
        blocks.refuse_opened()
    blocks.give_back(lambda _connection: None)
    for server in case.servers.values():
        server.execute(f"DROP USER '{user}'@'%'")


def test_a_statement_that_still_waits_to_close_a_server_does_not_do_so_afterwards(case: Case) -> None:
    ended: list[BaseException] = []

    def close() -> None:
        with closing(case.box.source.connect()) as connection, connection.cursor() as cursor:
            try:
                cursor.execute("SET GLOBAL read_only = 1")  # of a cutover that was killed meanwhile
            except pymysql.MySQLError as error:
                ended.append(error)

    waiting = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO = 'SET GLOBAL read_only = 1'"
    thread = threading.Thread(target=close, daemon=True)
    with closing(case.box.source.connect(case.database)) as holder, holder.cursor() as cursor:
        cursor.execute("LOCK TABLES t WRITE")
        thread.start()
        wait(lambda: case.box.source.query(waiting)[0][0], "the statement to wait")
        with case.state.begin() as connection:
            note = Block(Side.SOURCE, "a", "read_only", ("SET GLOBAL read_only = 0",))
            cutover.note_block(connection, case.name, note)
        case.give_back()
        thread.join(SLOW)
        assert len(ended) == 1
    assert case.read_only() == [False, False]


def test_the_note_of_an_earlier_run_is_added_to_and_never_stands_for_another_way(case: Case) -> None:
    """Lost: the applications' grants, for good: the note of an earlier run, at a server that was away when writes were
    given back, had `SET GLOBAL read_only = 0`, and the next run's GRANT statements were not noted beside it."""
    user = f"{case.name[-20:]}_app"
    earlier = f"GRANT DELETE ON {case.database}.* TO '{user}'@'%'"
    case.raw["cutover"] = {"stop": "revoke", "accounts": [f"{user}@%"], "wait_seconds": 1}
    for server in case.servers.values():
        server.execute(f"CREATE USER '{user}'@'%'", f"GRANT INSERT ON {case.database}.* TO '{user}'@'%'")
    with case.state.begin() as connection:
        cutover.note_block(connection, case.name, Block(Side.SOURCE, "a", "revoke", (earlier,)))
        cutover.note_block(connection, case.name, Block(Side.SOURCE, "b", "read_only", ("SET GLOBAL read_only = 0",)))
    with pytest.raises(PreflightError, match=r"stop writes at 'b' by revoke, and .* stopped them by read_only"):
        case.stop()
    granted = [str(server.query(f"SHOW GRANTS FOR '{user}'@'%'")) for server in case.servers.values()]
    assert ["INSERT" in grants for grants in granted] == [False, True], "nothing is done that is not noted"
    case.give_back()
    granted = [str(server.query(f"SHOW GRANTS FOR '{user}'@'%'")) for server in case.servers.values()]
    assert ["INSERT" in grants for grants in granted] == [True, True]
    assert "DELETE" in granted[0]
    for server in case.servers.values():
        server.execute(f"DROP USER '{user}'@'%'")


def test_what_a_hook_closed_is_not_left_to_a_config_without_one(case: Case) -> None:
    """Lost: both sides, to applications: the hook was taken out of the config between a cutover and its rollback, which
    switched and could not open what the hook had closed."""
    with case.state.begin() as connection:
        cutover.note_block(connection, case.name, Block(Side.SOURCE, "hook", "hook", ()))
    with pytest.raises(PreflightError, match="were closed by a hook, and the config has none to open them"):
        case.blocks().probe_ending()
    with pytest.raises(ServerError, match="were closed by a hook, and the config has none to open them") as refused:
        case.give_back()
    assert "cutover.hooks.writes" in str(refused.value.hint)
    assert case.noted() == ["hook"]


def test_who_may_have_tables_locked_and_keeps_read_only_away_is_named(case: Case) -> None:
    with closing(case.box.source.connect(case.database)) as holder, holder.cursor() as cursor:
        cursor.execute("LOCK TABLES t WRITE")
        with pytest.raises(ServerError, match=r"those that use the databases: .*\(session ") as refused:
            case.stop()
        assert f"(session {number_of(holder)}, " in refused.value.message
        case.give_back()
    assert (case.read_only(), case.noted()) == ([False, False], [])


def test_an_account_that_is_gone_is_not_made_again(case: Case) -> None:
    user = f"{case.name[-20:]}_app"
    case.raw["cutover"] = {"stop": "revoke", "accounts": [f"{user}@%"], "wait_seconds": 1}
    for server in case.servers.values():
        server.execute(f"CREATE USER '{user}'@'%'", f"GRANT INSERT, UPDATE ON {case.database}.* TO '{user}'@'%'")
    case.stop()
    server, other = case.servers.values()
    assert "INSERT" not in str(server.query(f"SHOW GRANTS FOR '{user}'@'%'"))
    server.execute(f"DROP USER '{user}'@'%'")
    case.give_back()
    assert case.noted() == []
    assert any("an account is not there any more" in line for line in case.said)
    assert server.query(f"SELECT COUNT(*) FROM mysql.user WHERE User = '{user}'") == ((0,),)
    assert "INSERT, UPDATE" in str(other.query(f"SHOW GRANTS FOR '{user}'@'%'"))
    other.execute(f"DROP USER '{user}'@'%'")


@pytest.mark.parametrize("granted", ["to_it", "to_its_role"])
def test_sessions_of_who_may_write_are_ended_and_named(case: Case, granted: str) -> None:
    by_role = granted == "to_its_role"
    if by_role and case.box.flavour == "mariadb":
        pytest.skip("MySQL only")
    role, user = f"{case.name[-20:]}_role", f"{case.name[-20:]}_app"
    writes = role if by_role else user
    case.raw["cutover"] = {"stop": "revoke", "accounts": [f"{writes}@%"], "wait_seconds": 1}
    for server in case.servers.values():
        if by_role:
            server.execute(f"CREATE ROLE '{role}'")
        server.execute(
            f"CREATE USER '{user}'@'%' IDENTIFIED BY 'App-secret-1'" + f" DEFAULT ROLE '{role}'" * by_role,
            f"GRANT SELECT, INSERT ON {case.database}.* TO '{writes}'@'%'",
        )
    first = case.servers["a"]
    where: dict[str, Any] = {"host": first.host, "port": first.port, "user": user, "password": "App-secret-1"}
    where["database"] = case.database  # in which a session keeps its rights, whatever is revoked
    with closing(pymysql.connect(**where)) as held, held.cursor() as cursor:
        cursor.execute("INSERT INTO t VALUES (1)")
        cursor.execute("SELECT CONNECTION_ID()")
        ((session,),) = cursor.fetchall()
        case.stop()
        with pytest.raises(pymysql.MySQLError):
            held.commit()
        named = f"source 'a': ended {user}@{first.host} (session {session}, "
        assert [line for line in case.said if line.startswith(named)], case.said
    assert first.query(f"SELECT COUNT(*) FROM {case.database}.t") == ((0,),)
    with pytest.raises(pymysql.MySQLError, match="INSERT command denied"), closing(pymysql.connect(**where)) as again:
        again.cursor().execute("INSERT INTO t VALUES (2)")
    case.give_back()
    with closing(pymysql.connect(**where, autocommit=True)) as again:
        again.cursor().execute("INSERT INTO t VALUES (3)")
    for server in case.servers.values():
        server.execute(f"DROP USER '{user}'@'%'")
        if by_role:
            server.execute(f"DROP ROLE '{role}'")


def test_whom_read_only_does_not_stop_is_named_and_no_account_of_the_applications_may_be(case: Case) -> None:
    """Lost: what an application with rights of an administrator's wrote at the side that was left."""
    mysql = case.box.flavour == "mysql"
    admin, user = "CONNECTION_ADMIN" if mysql else "READ ONLY ADMIN", f"{case.name[-20:]}_app"
    case.box.source.execute(f"CREATE USER '{user}'@'%'", f"GRANT INSERT ON {case.database}.* TO '{user}'@'%'")
    try:
        case.blocks().probe()
        assert f"'{user}'@'%'" not in str(case.said)
        case.box.source.execute(f"GRANT {admin} ON *.* TO '{user}'@'%'")
        case.blocks().probe()
        (said,) = [line for line in case.said if f"'{user}'@'%'" in line]
        assert "source 'a': read_only does not stop" in said
        case.raw["cutover"] = {"stop": "read_only", "wait_seconds": 1, "accounts": [f"{user}@%"]}
        with pytest.raises(PreflightError, match=f"'{user}'@'%' .cutover.accounts. can write in spite of read_only"):
            case.blocks().probe()
    finally:
        case.box.source.execute(f"DROP USER '{user}'@'%'")
