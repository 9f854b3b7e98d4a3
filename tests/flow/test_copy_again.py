"""A table and a part of it copied once more while a writer writes and deletes, with a SIGKILL in the middle of each."""

from __future__ import annotations

import signal
from contextlib import closing
from functools import partial
from pathlib import Path

import pymysql
import pytest
from pymysql.constants import ER

from sandbox.broker import KafkaBroker
from sandbox.database import DatabaseServer
from sandbox.stack import Sandbox
from tests.failover.support import Flow, wait
from tests.flow import launcher
from tests.forked import Child
from tests.helpers import unique

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]  # it starts Spark

_FEW = "copy: {chunk_rows: 8, chunks_at_once: 2, master: 'local[1]'}\n"
_SETTLE = "migrate.copy.table_copy:TableCopy.settle"


def killed_copy(flow: Flow, call: int, *arguments: str) -> None:
    """A copy that is killed before its n-th wave is booked."""
    child = Child("killed copy", flow.directory / f"killed-{call}.log", Path.cwd())
    child.start(
        launcher.command(flow.migration, "before", _SETTLE, call, "copy", *arguments), flow.migration.environment
    )
    try:
        assert child.wait(300)
        assert child.returncode == -signal.SIGKILL, child.log_tail()
    finally:
        child.kill()


def lose(flow: Flow) -> None:
    """A person deletes rows at the target: the even keys 100 to 150 and 800 to 850."""
    for number, server in enumerate(flow.box.targets):
        for table in range(2):
            statement = f"DELETE FROM orders_{table} WHERE id BETWEEN 100 AND 150 OR id BETWEEN 800 AND 850"
            wait(
                partial(deleted, server, statement, f"{flow.name}_{number}"), "no deadlock with what the stream writes"
            )


def deleted(server: DatabaseServer, statement: str, database: str) -> bool:
    try:
        server.execute(statement, database=database)
    except pymysql.MySQLError as error:
        if error.args[0] != ER.LOCK_DEADLOCK:
            raise
        return False
    return True


def test_lost_rows_come_back_and_deleted_ones_do_not(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> None:
    with closing(Flow(box, kafka, tmp_path, unique("again"), box.source, more=_FEW)) as flow:
        table = f"{flow.database}.orders"
        flow.fill(box.source, 500)
        flow.migration.do("init")
        for process in ("publish", "consume", "commit", "requeue"):
            flow.child(process, process)
        wait(flow.position, "the first position")
        flow.migration.do("copy")
        writer = flow.writer(lambda: box.source.connect(flow.database), 101)  # keys 101 to 140: some are lost ones
        writer.wait_for(50)
        lose(flow)

        part = "id BETWEEN 100 AND 150 OR id % 400 = 6"
        killed_copy(flow, 2, "--table", table, "--where", part)
        status = flow.migration.ask("status")
        assert (status["tables"][table], status["copies"][table]["part"]) == ("copying", part)
        assert status["copies"][table]["rows_read"] < 52
        assert f"table {table}: copying, a part again ({part}): " in flow.migration.do("status")
        assert flow.migration.run("copy", "--table", table, "--where", "id > 7").returncode == 2
        flow.migration.do("copy")  # goes on with the part
        status = flow.migration.ask("status")
        assert (status["copies"][table]["part"], status["copies"][table]["rows_read"]) == ("", 500)
        found = status["tables"][table]
        assert found in ("copied", "caught up", "catching up"), found
        missing = {line for line in flow.differences(box.source) if line.startswith("missing")}
        lost = {f"missing {key}" for key in range(800, 851, 2)} - {"missing 806"}
        assert missing >= lost
        writer.wait_for(50)
        writer.stop()
        flow.drain()
        assert set(flow.differences(box.source)) == lost

        writer = flow.writer(lambda: box.source.connect(flow.database), 821)
        lose(flow)
        killed_copy(flow, 5, "--table", table, "--restart")
        writer.wait_for(50)
        flow.migration.do("copy")
        writer.wait_for(50)
        writer.stop()
        flow.drain()
        assert flow.differences(box.source) == []
        assert writer.lost(flow.source_rows(box.source)) == []


def test_what_is_asked_for_has_to_be_a_table_and_a_condition(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> None:
    with closing(Flow(box, kafka, tmp_path, unique("asked"), box.source)) as flow:
        flow.migration.do("init")
        table = f"{flow.database}.orders"
        asked = {
            "--restart needs --table": ("--restart",),
            "--where needs --table": ("--where", "id > 3"),
            "--where is empty": ("--table", table, "--where", " "),
            "use one of them": ("--table", table, "--where", "id > 3", "--restart"),
            "Unknown column 'nosuch'": ("--table", table, "--where", "nosuch > 3"),
            "there is no table named": ("--table", "a.b", "--restart"),
        }
        for number, (told, arguments) in enumerate(asked.items()):
            child = flow.child(f"asked-{number}", "copy", *arguments)
            assert child.wait(120)
            log = child.log.read_text("utf-8")
            assert (child.returncode, told in log) == (2, True), log
