"""A server is gone for good: applications leave its side without its last writes."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, wait
from tests.flow.test_cutover import Switched, switched

AWAY = ("rollback", "--without", "t1")
UNREAD = {("5009", "unread"), ("5013", "unread")}


@pytest.mark.timeout(600)
def test_applications_leave_a_target_that_is_gone_and_what_is_lost_is_told(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    with switched(box, kafka, tmp_path) as one:
        flow, ask = one.flow, one.flow.migration.ask
        ask("verify")
        ask("cutover")
        one.write_at_target(0, "INSERT INTO orders_1 VALUES (5001, 2, 7, 'at t0')")
        one.write_at_target(1, "INSERT INTO orders_1 VALUES (5003, 1, 7, 'at t1')")
        one.write_at_target(0, "INSERT INTO orders_1 VALUES (5009, 2, 7, 'to t1'), (5013, 2, 7, 'deleted')")
        one.write_at_target(1, "INSERT INTO orders_1 VALUES (5011, 1, 7, 'to t0')")
        ask("--reverse", "drain", "--timeout", str(SLOW))
        assert "'t1' answers" in refused(one, "--without", "t1", "--yes")
        assert "no server there is named 'main'" in refused(one, "--without", "main")
        gone = box.targets[1]
        flow.children("back-t1")[0].stop(SLOW)
        try:
            one.write_at_target(1, "INSERT INTO orders_1 VALUES (5005, 1, 7, 'unread')")
            one.write_at_target(0, "INSERT INTO orders_1 VALUES (5007, 2, 7, 'read')")
            one.write_at_target(1, "INSERT INTO orders_1 VALUES (5009, 1, 8, 'moved there')")
            one.write_at_target(1, "DELETE FROM orders_1 WHERE id = 5011")
            gone.kill()
            one.write_at_target(0, "DELETE FROM orders_1 WHERE id IN (5009, 5013)")
            one.write_at_target(0, "INSERT INTO orders_1 VALUES (5011, 2, 9, 'moved here')")
            blocked = "SELECT process FROM halt WHERE process LIKE 'consume: %' AND code = 'source'"
            wait(lambda: flow.state_of(blocked), "the rows that left t0 to be looked for at t1")
            said = refused(one)
            assert "source 't1': " in said
            page = flow.migration.do("status")
            assert ("stage: switched" in page, "NO ANSWER: " in page) == (True, True), page
            assert "`migrate --reverse status` says more" in said
            told = flow.migration.do("rollback", "--without", "t1")
            assert "'t1': up to " in told
            assert "of the stream blocked, as rows cannot be read again" in told
            assert "nothing was changed" in told
            assert one.side() == "target"

            done = flow.migration.do("rollback", "--without", "t1", "--yes")
            assert "switched: applications are at the sources" in done
            assert (one.side(), one.source_writable()) == ("source", True)
            assert one.stage() == ("reversed", "migrate preflight"), "which names the server"
            assert "processes still run" in refused(one, "--abandon", "--without", "t1", command="finish")
            rows = flow.source_rows(box.source)
            assert [key for key in (5001, 5003, 5005, 5007) if key in rows] == [5001, 5003, 5007]
            assert rows[5011] == (5011, 2, 9, "moved here")
            assert rows[5009] == (5009, 2, 7, "to t1"), "its last values that were at the source"
            assert rows[5013] == (5013, 2, 7, "deleted"), "or moved to t1: nothing tells"
            left = [f'{flow.name}_0.orders_1 key ["{key}"]' for key in (5009, 5013)]
            assert [one_row in done for one_row in left] == [True, True], done
            assert {(*row["key"], row["kind"]) for row in ask("foreign", "list")["listed"]} == UNREAD
            journal = flow.state_of("SELECT stage, detail FROM cutover_step WHERE step = 'without t1'")
            assert [stage for stage, _ in journal] == ["begun", "done"]
            assert journal[0][1] in told
        finally:
            gone.start()
        flow.child("back-t1-again", "--reverse", "publish", "--source", "t1")
        wait(
            lambda: (
                {(*row["key"], row["kind"]) for row in ask("foreign", "list")["listed"]}
                == UNREAD | {("5005", "late"), ("5009", "late"), ("5011", "late")}
            ),
            "what a server that comes back after all has to be listed",
        )
        assert 5005 not in flow.source_rows(box.source), "over an application's row, perhaps"
        flow.drain()
        assert "no verification of all tables was clean" in refused(one, command="cutover")


@pytest.mark.timeout(600)
def test_applications_leave_a_source_that_is_gone_for_the_targets(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    with switched(box, kafka, tmp_path) as one:
        flow = one.flow
        one.write_at_source("INSERT INTO orders VALUES (5001, 2, 7, 'read')")
        flow.drain()
        box.source.kill()
        try:
            assert "source 'main': " in refused(one, command="cutover")
            done = flow.migration.do("cutover", "--without", "main", "--yes")
            assert "switched: applications are at the targets" in done
            assert one.side() == "target"
            one.write_at_target(0, "UPDATE orders_1 SET history = 'here' WHERE id = 5001")
        finally:
            box.source.start()
        wait(lambda: flow.source_rows(box.source)[5001][3] == "here", "the reverse stream to reach the source again")

        flow.child("publish-again", "publish")
        flow.drain()
        flow.stop()
        assert "'main' answers" in refused(one, "--without", "main", "--yes", command="finish")
        box.source.kill()
        try:
            assert "main, database" not in flow.migration.do("finish", "--without", "main")
            ended = flow.migration.do("finish", "--without", "main", "--yes")
            assert f"main, database {flow.database}: left as it is" in ended
            assert one.stage() == ("finished", "")
        finally:
            box.source.start()


@pytest.mark.long  # about 60 s a server
@pytest.mark.timeout(600)
def test_a_target_that_is_lost_before_it_is_opened_is_left_again(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    """Lost: the way on. The cutover could not open the target, which an earlier rollback had closed; it was never done,
    and no other one could begin."""
    with switched(box, kafka, tmp_path) as one:
        flow, ask = one.flow, one.flow.migration.ask
        ask("verify")
        ask("cutover")
        ask("--reverse", "verify")
        ask("rollback")
        held = tmp_path / "held"
        half = flow.held("half", "migrate.commands.cutover:Cutover.finish", held, "cutover")
        wait(held.exists, "the cutover to have switched")
        flow.children("back-t1")[0].stop(SLOW)
        gone = box.targets[1]
        gone.kill()
        try:
            (guardian,) = Path(f"/proc/{half.pid}/task/{half.pid}/children").read_text("ascii").split()
            os.kill(int(guardian), signal.SIGKILL)  # it would try for ten minutes
            held.unlink()
            assert half.wait(2 * SLOW)
            said = half.log.read_text("utf-8")
            assert "`migrate rollback --without NAME` goes back without a server that is lost for good" in said
            assert one.stage() == ("switching", "migrate cutover")
            flow.nobody_switches()
            assert "writes are still stopped at 't1'" in flow.refused("rollback", code=4, seconds=2 * SLOW)
            done = flow.migration.do("rollback", "--without", "t1", "--yes")
            assert "switched: applications are at the sources" in done
            assert (one.side(), one.source_writable()) == ("source", True)
        finally:
            gone.start()


@pytest.mark.long  # about 60 s a server
@pytest.mark.timeout(600)
def test_a_server_that_comes_back_before_the_switch_is_asked_again_and_the_rows_kept_meanwhile_hold_the_next_one(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    with switched(box, kafka, tmp_path) as one:
        flow, ask = one.flow, one.flow.migration.ask
        ask("verify")
        ask("cutover")
        one.write_at_target(0, "INSERT INTO orders_1 VALUES (5001, 2, 7, 'deleted'), (5003, 2, 7, 'later')")
        ask("--reverse", "drain", "--timeout", str(SLOW))
        gone, held, unread = box.targets[1], tmp_path / "held", tmp_path / "unread"
        flow.children("back-consume")[0].stop(SLOW)
        gone.kill()
        try:
            one.write_at_target(0, "DELETE FROM orders_1 WHERE id = 5001")
            flow.held("back-held", "migrate.state.stop_reason:note", unread, "--reverse", "consume")
            wait(unread.exists, "the row to have been looked for at t1, and the state to be told")
            both = "migrate.commands.cutover_check:check,migrate.commands.cutover_freeze:Freeze._roles"
            half = flow.held("half", both, held, *AWAY, "--yes")
            wait(held.exists, "the rollback to have found no partition that waits for t1")
            unread.unlink()
            blocked = "SELECT process FROM halt WHERE process LIKE 'consume: %' AND code = 'source'"
            wait(lambda: flow.state_of(blocked), "the state to be told that t1 was asked, before the rollback began")
            held.unlink()
            wait(held.exists, "the rollback to have drained")
        finally:
            gone.start()
        held.unlink()
        assert half.wait(2 * SLOW)
        said = half.log.read_text("utf-8")
        assert "writes are given back: 't1' answers" in said
        assert (one.side(), one.writable()) == ("target", ["target"])
        flow.child("back-t1-again", "--reverse", "publish", "--source", "t1")
        one.write_at_target(0, "DELETE FROM orders_1 WHERE id = 5003")
        ask("--reverse", "drain", "--timeout", str(SLOW))
        rows = flow.source_rows(box.source)
        assert (5001 in rows, 5003 in rows) == (True, False), "the second was looked for at t1"
        assert "1 row" in refused(one)
        flow.migration.do("foreign", "discard", "--all")
        assert 5001 not in flow.source_rows(box.source)
        assert flow.differences(box.source) == []
        ask("--reverse", "verify")
        assert "switched: applications are at the sources" in flow.migration.do("rollback")


def refused(one: Switched, *options: str, command: str = "rollback") -> str:
    """What it says when it does nothing."""
    return one.flow.refused(command, *options, seconds=2 * SLOW)
