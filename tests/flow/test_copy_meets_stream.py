"""Copy against incremental: every order in which the two can meet at a row, with both sides held at the seam."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.database import DatabaseServer
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, Flow, wait
from tests.flow import launcher
from tests.forked import Child
from tests.helpers import unique

pytestmark = pytest.mark.timeout(600)  # it starts Spark

# One key each, named by the row of the table. Those that are deleted are in database 0 and the one that is held is in
# database 1: a delete that comes again locks its ledger row, and the copy waits for that.
INSERTED_BEFORE, DELETED_BEFORE, UPDATED_BEFORE = 11, 12, 13
INSERTED, UPDATED, DELETED, DELETED_AND_INSERTED, MOVED = 14, 15, 16, 17, 18
LOOKED_UP_FIRST = 19
UPDATED_AFTER, DELETED_AFTER = 20, 21


@contextmanager
def first_chunk_held(server: DatabaseServer, database: str) -> Iterator[Callable[[], bool]]:
    """Holds what the copy locks before it writes; yields what takes hold of it once the first attempt was opened.

    That is before the attempt reads its rows, as the job that reads them still has to be made.
    """
    with closing(server.connect(database, autocommit=False)) as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")

        def take() -> bool:
            connection.rollback()
            return bool(cursor.execute("SELECT 1 FROM _migrate_chunk_fence WHERE chunk = 0 FOR UPDATE"))

        yield take
        connection.rollback()


def waits_for_a_lock(server: DatabaseServer) -> bool:
    return bool(server.query("SELECT 1 FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'"))


def test_every_meeting_of_copy_and_stream_ends_with_the_sources_newest_row(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    flow = Flow(
        box, kafka, tmp_path, unique("meet"), box.source, more="copy: {master: 'local[1]'}\n", tiers=(1, 2), lease=60
    )

    held = tmp_path / "held"

    def change(*statements: str) -> None:
        box.source.execute(*statements, database=flow.database)

    def update(key: int, history: str) -> str:
        return f"UPDATE orders SET history = '{history}' WHERE id = {key}"

    def applied(history: str) -> None:
        """Until the stream has written that history."""
        wait(lambda: history in rows(flow).values(), f"'{history}' at the target")

    with closing(flow):
        for key in range(DELETED_BEFORE, DELETED_AFTER + 1):
            if key != INSERTED:
                change(f"INSERT INTO orders VALUES ({key}, {key}, 0, 'old')")
        flow.migration.do("init")
        for process in ("publish", "commit", "requeue"):
            flow.child(process, process)
        consumer = flow.child("consume", "consume")
        wait(flow.position, "the first position")

        # The stream comes first: before the chunk is read.
        change(
            f"INSERT INTO orders VALUES ({INSERTED_BEFORE}, {INSERTED_BEFORE}, 0, 'old')",
            update(UPDATED_BEFORE, "before"),
            f"DELETE FROM orders WHERE id = {DELETED_BEFORE}",
            update(INSERTED_BEFORE, "marks the end"),
        )
        applied("marks the end")

        # The copy has read its chunk and not written it.
        with first_chunk_held(box.targets[0], f"{flow.name}_0") as take:
            copy = flow.child("copy", "copy")
            wait(take, "the first attempt to be opened")
            assert "starting Spark\n" in copy.log.read_text("utf-8")
            wait(lambda: waits_for_a_lock(box.targets[0]), "the copy to write what it has read")
            change(
                update(INSERTED_BEFORE, "newer"),
                f"INSERT INTO orders VALUES ({INSERTED}, {INSERTED}, 0, 'new')",
                update(UPDATED, "new"),
                f"DELETE FROM orders WHERE id = {DELETED}",
                f"DELETE FROM orders WHERE id = {DELETED_AND_INSERTED}",
                f"INSERT INTO orders VALUES ({DELETED_AND_INSERTED}, {DELETED_AND_INSERTED}, 0, 'again')",
                f"UPDATE orders SET user_id = user_id + 1, history = 'moved' WHERE id = {MOVED}",
                update(INSERTED, "marks the copy, 0"),
                update(UPDATED, "marks the copy, 1"),
            )
            applied("marks the copy, 0")
            applied("marks the copy, 1")  # both databases have everything: nothing is written again by the next one
            consumer.stop(SLOW)

            # The stream has looked its key up, and the copy inserts it first.
            consumer = Child("held consumer", tmp_path / "held.log", Path.cwd())
            seam = "migrate.target.rows:PlaceWriter.insert"
            environment = {**flow.migration.environment, "HELD_AT": str(held)}
            consumer.start(launcher.command(flow.migration, "hold", seam, 1, "consume"), environment)
            try:
                change(update(LOOKED_UP_FIRST, "marks the stream"))
                wait(held.exists, "the stream to have looked up its key")
            except BaseException:
                consumer.kill()
                raise
        wait(lambda: flow.chunks("done") == 1 or not copy.running, "the chunk to be written")
        assert rows(flow)[LOOKED_UP_FIRST] == "old", "the copy did not come first"
        held.unlink()
        try:
            applied("marks the stream")
            assert "duplicate" in (tmp_path / "held.log").read_text("utf-8").lower(), "the stream met no duplicate"
            assert copy.wait(SLOW), "the copy still runs"
            assert copy.returncode == 0, copy.log_tail()

            # The copy is over.
            change(update(UPDATED_AFTER, "after"), f"DELETE FROM orders WHERE id = {DELETED_AFTER}")
            flow.drain()
        finally:
            consumer.kill()
        assert flow.differences(box.source) == []
        assert rows(flow) == {
            INSERTED_BEFORE: "newer",
            UPDATED_BEFORE: "before",
            INSERTED: "marks the copy, 0",
            UPDATED: "marks the copy, 1",
            DELETED_AND_INSERTED: "again",
            MOVED: "moved",
            LOOKED_UP_FIRST: "marks the stream",
            UPDATED_AFTER: "after",
        }


def rows(flow: Flow) -> dict[int, str]:
    """The history of every row at the targets, by key; one that is there twice fails."""
    found: dict[int, str] = {}
    for number, server in enumerate(flow.box.targets[:2]):
        for table in (0, 1):
            for key, history in server.query(f"SELECT id, history FROM {flow.name}_{number}.orders_{table}"):
                assert key not in found, f"{key} is there twice"
                found[key] = history
    return found
