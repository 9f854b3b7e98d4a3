"""The disk of the position file or of the state database is full: the publisher waits, nothing is torn."""

from __future__ import annotations

import hashlib
import json
import re
from contextlib import closing
from pathlib import Path
from typing import Any

import pymysql

from sandbox.broker import KafkaBroker
from sandbox.database import DatabaseServer, Option
from sandbox.settings import Flavour
from sandbox.stack import Sandbox
from tests.failover.disk import small_disk
from tests.failover.support import Flow, wait
from tests.failover.topic import late_messages
from tests.flow.launcher import run_killed
from tests.helpers import unique

_NOT_SAVED = "position not saved, tried again at the next flush"
_SMALL: dict[Flavour, dict[str, Option]] = {
    Flavour.MARIADB: {"innodb_log_file_size": "16M", "innodb_buffer_pool_size": "32M"},
    Flavour.MYSQL: {"innodb_redo_log_capacity": "16M", "innodb_buffer_pool_size": "32M"},
}


def whole(file: Path) -> dict[str, Any]:
    """The position in a file, whose checksum must fit; read without the service's code."""
    raw = file.read_bytes()
    head, body, digest, end = raw.split(b"\n")
    assert (hashlib.sha256(head + b"\n" + body).hexdigest().encode(), end) == (digest, b"")
    found: dict[str, Any] = json.loads(body)
    return found


def test_a_position_file_on_a_full_disk_stays_whole_and_goes_on_later(
    mariadb_box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    with (
        small_disk(tmp_path / "disk", 1) as disk,
        closing(
            Flow(
                mariadb_box,
                kafka,
                tmp_path,
                unique("full"),
                mariadb_box.source,
                publish=f", position_store: file, position_directory: {disk.path}",
            )
        ) as flow,
    ):
        flow.migration.do("init")
        flow.start_targets()
        file = disk.path / f"{flow.name}.main.position"
        first = flow.child("publish", "publish", "--source", "main")
        begun = wait(file.exists, "the first position") and whole(file)  # what was written before is the copy's
        writer = flow.writer(lambda: mariadb_box.source.connect(flow.database), 1)
        wait(lambda: whole(file) != begun, "the position to move")

        def refused() -> bool:
            disk.fill()  # again, as each file that is replaced gives its page back
            return _NOT_SAVED in first.log.read_text("utf-8")

        wait(refused, "a flush that fails")
        stored = whole(file)
        mariadb_box.source.execute("INSERT INTO orders VALUES (1000, 1000, 1000, '')", database=flow.database)
        target = f"SELECT 1 FROM {flow.name}_0.orders_0 WHERE id = 1000"
        wait(lambda: mariadb_box.targets[0].query(target), "a row to arrive, which does not wait for that")
        assert whole(file) == stored
        assert flow.position()["pos"] == stored["pos"]  # the state is not ahead
        assert first.running
        first.kill()
        flow.state("UPDATE lease SET expires = NOW(6) - INTERVAL 1 SECOND WHERE name = 'publish:main'")

        # a part of the new position is written, and the disk full
        run_killed(flow.migration, "before", "pathlib:Path.unlink", 1, "publish", "--source", "main")
        assert file.with_name(file.name + ".new").exists()
        assert whole(file) == stored
        flow.state("UPDATE lease SET expires = NOW(6) - INTERVAL 1 SECOND WHERE name = 'publish:main'")

        last = flow.child("publish-last", "publish", "--source", "main")
        wait(lambda: _NOT_SAVED in last.log.read_text("utf-8"), "a flush that fails again")
        assert whole(file) == stored
        disk.free()
        wait(lambda: whole(file) != stored, "the position to go on")
        writer.stop()
        flow.drain()
        assert last.running
        assert flow.differences(mariadb_box.source) == []
        assert writer.lost(flow.source_rows(mariadb_box.source)) == []
        assert late_messages(kafka, f"migrate.{flow.name}") > 0  # from the last whole position on, once more


def test_a_state_database_on_a_full_disk_is_waited_for(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 512) as disk:
        server = DatabaseServer(box.flavour, disk.path / "state", server_id=91, options=_SMALL[box.flavour])
        server.start()
        try:
            with closing(Flow(box, kafka, tmp_path, unique("full"), box.source, state=server)) as flow:
                flow.migration.do("init")
                flow.migration.start()
                flow.close_copy()
                writer = flow.writer(lambda: box.source.connect(flow.database), 1)

                def stands() -> bool:
                    before = flow.position()
                    writer.wait_for(400)
                    return flow.position() == before

                def held_up() -> bool:
                    """MariaDB waits for its disk; MySQL ends (binlog_error_action)."""
                    try:
                        return stands()
                    except pymysql.MySQLError:
                        return True

                assert not stands()
                disk.fill()
                wait(held_up, "the position to stand")
                told = server.log.read_text("utf-8", "replace")
                assert re.search(r"(?i)no space left|disk is full|errno: 28|is full", told), told[-2000:]
                writer.wait_for(400)
                disk.free()
                server.kill()  # MariaDB looks at its disk again only once a minute
                server.start()
                wait(lambda: not stands(), "the position to go on")
                writer.stop()
                flow.drain()
                assert flow.differences(box.source) == []
                assert writer.lost(flow.source_rows(box.source)) == []
        finally:
            server.kill()
