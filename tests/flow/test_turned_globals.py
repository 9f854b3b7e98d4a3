"""A whole flow on servers whose every global variable is other than what the service states for its sessions."""

from __future__ import annotations

from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pymysql
import pytest

from sandbox.broker import KafkaBroker
from sandbox.errors import SandboxError
from sandbox.stack import Sandbox
from tests.flow.support import Pipeline
from tests.helpers import unique
from tests.turned import JUDGED, turned

_ROWS = 40
_INSERT = (
    "INSERT INTO orders (id, user_id, amount, status, flags, detail, seen, note, bits, bin)"
    " VALUES (%s, %s, %s, 'paid', 'a,c', '{\"a\": 1}', '2026-03-29 02:30:00', 'b \\\\ \\' \" ', 5, 'bin')"
)


@pytest.mark.timeout(600)
def test_no_step_depends_on_a_global(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> None:
    pipeline = Pipeline(box, kafka, tmp_path, unique("turned"))
    migration = pipeline.migration
    config = migration.config.read_text("utf-8")
    migration.config.write_text(config.replace("lease: {seconds: 2}", "lease: {seconds: 20}"), "utf-8")
    with closing(box.source.connect(pipeline.source)) as session, session.cursor() as application:
        application.executemany(_INSERT, [(number, number, number / 3) for number in range(1, _ROWS)])
        # a label that SHOW CREATE TABLE does not print
        application.execute("ALTER TABLE orders ADD COLUMN mood ENUM('x', '😀') CHARACTER SET utf8mb4 DEFAULT '😀'")
        application.execute("ALTER TABLE orders ROW_FORMAT = REDUNDANT")  # nothing may be added to it
        # the error value, which an ENUM without strict mode has
        application.execute("UPDATE IGNORE orders SET status = 'nothing' WHERE id = 3")
        application.execute("SET SESSION innodb_lock_wait_timeout = 5, lock_wait_timeout = 5")
        with ExitStack() as servers:
            for server in (box.source, *box.targets):
                servers.enter_context(turned(server, JUDGED, left=True))
            migration.do("init")
            migration.begin()
            try:
                application.execute("UPDATE orders SET note = NULL, user_id = user_id + 1 WHERE id < 10")
                application.execute("UPDATE IGNORE orders SET status = 'nothing' WHERE id = 7")
                migration.do("copy")
                application.execute("DELETE FROM orders WHERE id IN (2, 4)")
                application.execute("UPDATE orders SET id = 100 WHERE id = 6")
                application.execute("UPDATE IGNORE orders SET status = 'nothing' WHERE id = 9")
                migration.do("refresh", f"{pipeline.source}.orders", "5", "6", "8")
                migration.ask("drain", "--timeout", "60")
                found = migration.ask("verify")
                # nothing of ours holds a lock or a transaction there
                application.execute("UPDATE orders SET note = 'free' WHERE id = 5")
                application.execute("ALTER TABLE orders ADD INDEX (user_id)")
                migration.ask("drain", "--timeout", "60")
            finally:
                with suppress(SandboxError, pymysql.MySQLError):
                    migration.stop()
    assert pipeline.differences() == []
    (table,) = found["tables"]
    assert (table["rows"], table["differences"]) == (_ROWS - 3, 0), found
