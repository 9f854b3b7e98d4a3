"""Lost: what a publisher had noted in the state, where that came back without its last commits while the publisher went
on behind them (invariant fence-compares)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from publishing import Publishing, equal, note_equal

from migrate.commands.init import initialise
from migrate.commands.rewind import rewind
from migrate.model.errors import ServerError
from migrate.state import oversized, position, schema_history
from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.kept import KeptState

PUT_BACK = "the state database was put back to an earlier one"


@pytest.fixture
def main(
    mysql_box: Sandbox, kafka: KafkaBroker, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Publishing]:
    """Its publisher ran, statements are followed, and all counts as equal."""
    more: dict[str, Any] = getattr(request, "param", {})
    if more.get("position_store") == "file":
        more = {**more, "position_directory": str(tmp_path / "positions")}
    made = Publishing(mysql_box.source, mysql_box.targets[0], kafka, **more)
    made.raw["tables"][0]["ddl"] = "ignore"
    made.raw["kafka"]["max_message_bytes"] = 10_000
    initialise(made.settings)
    made.publish()
    made.sql("ALTER TABLE t MODIFY v TEXT", "INSERT INTO t VALUES (1, 'a')")
    made.publish(1)
    note_equal(made)
    yield made
    made.close()


def columns(main: Publishing) -> list[str]:
    """As the state has them."""
    with main.state.connect() as connection:
        (table,) = schema_history.latest(connection, main.name).values()
    return [column.name for column in table.columns]


def left_out(main: Publishing) -> int:
    with main.state.connect() as connection:
        return len(oversized.every(connection, main.name))


def lose_last_commits(main: Publishing, statement: str, key: int, *later: str) -> None:
    """Run a publisher over a statement and a row behind it; then the state has none of what it noted. It goes on over
    `later`, and is to end by itself."""
    with closing(KeptState(main.other, main.name)) as before, main.running():
        main.sql(statement, f"INSERT INTO t (id) VALUES ({key})")
        main.until(lambda: main.keys()[-1:] == [key], "the row behind the statement")
        main.until_at_end()
        before.put_back("lease")
        if later:
            main.sql(*later)
        main.until(lambda: False, "the publisher to end")


@pytest.mark.parametrize("later", [(), ("INSERT INTO t (id) VALUES (3)",)], ids=["idle", "writing"])
def test_a_statement_that_the_state_lost_is_noted_again_and_nothing_counts_as_equal(
    main: Publishing, later: tuple[str, ...]
) -> None:
    """Lost: that a table's columns changed; its values were never compared, and a cutover passed."""
    with pytest.raises(ServerError, match=PUT_BACK):
        lose_last_commits(main, "ALTER TABLE t ADD seen DATETIME DEFAULT CURRENT_TIMESTAMP", 2, *later)
    assert not equal(main)
    assert columns(main) == ["id", "v"]
    main.publish(3 if later else 2)
    assert columns(main) == ["id", "v", "seen"]


@pytest.mark.parametrize("main", [{"oversized": "park"}], indirect=True)
def test_a_row_left_out_that_the_state_lost_is_named_again(main: Publishing) -> None:
    """Lost: the name of a row that was too large for Kafka; the target lacked it, and nobody said so."""
    with pytest.raises(ServerError, match=PUT_BACK):
        lose_last_commits(main, "INSERT INTO t VALUES (100, REPEAT('x', 15000))", 2)
    assert (equal(main), left_out(main)) == (False, 0)
    main.publish(2)
    assert left_out(main) == 1


@pytest.mark.parametrize("main", [{"position_store": "file"}], indirect=True)
def test_a_position_file_that_is_ahead_of_the_state_is_not_gone_on_from(main: Publishing) -> None:
    """Lost: a statement between the state's position and the file's, which was noted in the state that was put back."""
    with closing(KeptState(main.other, main.name)) as before:
        main.sql("ALTER TABLE t ADD w INT", "INSERT INTO t (id) VALUES (2)")
        main.publish(2)
        note_equal(main)
        before.put_back("lease", "compared", "forgotten")
    main.sql("INSERT INTO t (id) VALUES (3)")
    main.publish(2, 3)
    assert (equal(main), columns(main)) == (False, ["id", "v", "w"])
    note_equal(main)
    main.sql("INSERT INTO t (id) VALUES (4)")
    main.publish(3, 4)
    assert equal(main), "it is found once"


@pytest.mark.parametrize("main", [{"position_store": "file"}], indirect=True)
def test_a_position_file_from_behind_a_rewind_that_the_state_lost_is_not_gone_on_from(main: Publishing) -> None:
    """Lost, if the file counted: what is sent behind it, in an incarnation that no consumer believes. Costs 10 s."""
    assert main.position is not None
    place = f"{main.position.file}:{main.position.pos}"
    main.sql("INSERT INTO t (id) VALUES (2)")
    main.publish(2)
    with closing(KeptState(main.other, main.name)) as before:
        after = rewind(main.settings, main.state, "main", place, lambda *_: True)
        main.sql("INSERT INTO t (id) VALUES (3)")
        main.publish(2, 3)
        assert (main.position.incarnation, after.incarnation) == (2, 2)
        before.put_back("lease")
    main.sql("INSERT INTO t (id) VALUES (4)")
    main.publish(3, 4)
    assert main.position.incarnation == 1
    assert main.messages()[-1]["pos"]["inc"] == 1
    assert not equal(main)


def test_a_commit_that_was_not_heard_of_is_not_taken_for_a_loss(main: Publishing) -> None:
    """Not lost, and must not be said to be: the server committed, and the session ended before it said so."""
    cut: list[str] = []

    def commit(connection: sa.Connection) -> None:
        raw = connection.connection.dbapi_connection
        assert raw is not None
        with closing(raw.cursor()) as cursor:
            cursor.execute(
                "SELECT IF((SELECT trx_rows_modified FROM information_schema.INNODB_TRX WHERE trx_mysql_thread_id ="
                " CONNECTION_ID()) > 0, (SELECT GROUP_CONCAT(writes) FROM position), NULL), CONNECTION_ID()"
            )
            ((writes, session),) = cursor.fetchall()
        if writes is not None and writes not in cut:
            cut.append(writes)
            raw.commit()
            main.other.execute(f"KILL {session}")

    with main.running():
        main.sql("INSERT INTO t VALUES (2, 'b')")
        main.until(lambda: main.keys()[-1:] == [2], "the publisher to run")
        sa.event.listen(main.state, "commit", commit)
        try:
            main.sql("ALTER TABLE t ADD w INT", "INSERT INTO t (id) VALUES (3)")
            main.until(lambda: main.keys()[-1:] == [3], "the row behind the statement")
            main.until_at_end()
        finally:
            sa.event.remove(main.state, "commit", commit)
        main.sql("INSERT INTO t (id) VALUES (4)")
        main.until(lambda: main.keys()[-1:] == [4], "the publisher to go on")
    assert len(cut) >= 2, "the statement's, and the position's"
    assert columns(main) == ["id", "v", "w"]


def test_a_state_that_lost_the_first_position_gets_it_back(main: Publishing) -> None:
    """Lost: every change from a publisher's first position on to where the log ended when it started again."""
    first = main.position
    with pytest.raises(ServerError, match=PUT_BACK):
        lose_position(main)
    assert (main.position, equal(main)) == (first, False)
    main.publish(2)


def lose_position(main: Publishing) -> None:
    with main.running():
        main.sql("INSERT INTO t VALUES (2, 'b')")
        main.until_at_end()
        with main.state.begin() as connection:
            connection.execute(sa.delete(position.table).where(position.table.c.migration == main.name))
        main.until(lambda: False, "the publisher to end")
