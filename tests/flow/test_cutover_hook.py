"""Hooks stop writes in place of the cutover, which waits for the transactions that are open, or ends them."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

import pymysql
import pytest

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.failover.support import SLOW, wait
from tests.flow.test_cutover import MORE, Switched, connected, switched

_HOOK = """\
import os, signal, sys, pymysql
word, side = sys.argv[1:]
open("{calls}", "a").write(f"{{word}} {{side}}\\n")
if word == "close" and os.path.exists("{broken}"):
    sys.exit("the load balancer does not answer")
if word == "close" and os.path.exists("{apart}"):
    sys.exit(0)
if word == "close" and os.path.exists("{hand}"):
    os.kill(int(open("{hand}").read()), signal.SIGSTOP)
    port, user, password = {servers}["target"][0]
    server = pymysql.connect(host="127.0.0.1", port=port, user=user, password=password, autocommit=True)
    server.cursor().execute("REPLACE INTO {place} (id, user_id, value, history) VALUES (900000, 2, 1, '')")
for port, user, password in {servers}[side]:
    server = pymysql.connect(host="127.0.0.1", port=port, user=user, password=password)
    server.cursor().execute(f"SET GLOBAL read_only = {{int(word == 'close')}}")
"""


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_hook_stops_writes_and_one_that_fails_gives_them_back(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    sides = {"source": [box.source], "target": box.targets}
    servers = {side: [(one.port, one.user, one.password) for one in found] for side, found in sides.items()}
    calls, broken, apart, hand = (tmp_path / name for name in ("calls", "broken", "apart", "hand"))
    hook = tmp_path / "hook.py"
    more = MORE.replace("stop: read_only", f"stop: hook, hooks: {{writes: ['{sys.executable}', '{hook}']}}")
    with switched(box, kafka, tmp_path, more) as one:
        named = {"calls": calls, "broken": broken, "apart": apart, "hand": hand, "servers": servers}
        hook.write_text(_HOOK.format(place=f"{one.flow.name}_0.orders_0", **named), "utf-8")
        one.flow.migration.ask("verify")
        broken.touch()
        failed = one.flow.child("failed", "cutover")
        assert failed.wait(SLOW)
        said = failed.log.read_text("utf-8")
        assert (failed.returncode, "exit status 1: the load balancer does not answer" in said) == (7, True), said
        assert (one.side(), one.writable()) == ("source", ["source", "target"])
        assert calls.read_text("utf-8") == "close source\nopen source\n"
        broken.unlink()
        a_write_by_hand_that_nobody_has_read_yet_holds_the_switch_back(one, hand)
        calls.write_text(calls.read_text("utf-8").replace("close source\nopen source\n", "", 1), "utf-8")
        one.flow.migration.ask("cutover")
        assert (one.side(), one.writable()) == ("target", ["target"])
        one.flow.migration.ask("rollback")
        assert (one.side(), one.writable()) == ("source", ["source"])
        told = calls.read_text("utf-8").splitlines()[2:]
        assert told == ["close source", "close target", "open source"]
        assert one.flow.differences(box.source) == []
        apart.touch()  # it keeps new sessions away, and those that are there are left to the cutover
        open_transactions_are_waited_for_and_ended_after_a_while(one)
        apart.unlink()
        a_hook_of_a_phase_or_a_step_stops_it(one, tmp_path)


def a_hook_of_a_phase_or_a_step_stops_it(one: Switched, tmp_path: Path) -> None:
    """A refusal in the freeze gives writes back; one before a phase leaves everything as it was."""
    refused, config = tmp_path / "refused", one.flow.migration.config
    script = f'what=${{MIGRATE_STEP:-$MIGRATE_PHASE}}; ! grep -qx "$what" {refused}'
    command = f"[sh, -c, '{script}']"
    plain = config.read_text("utf-8")
    config.write_text(f"{plain}hooks: {{before: {{cutover: {command}, step: {command}}}}}\n", "utf-8")
    refused.write_text("drain\n")
    said = one.flow.refused("cutover", code=7)
    assert "writes are given back: `drain` is not begun, hooks.before.step refuses" in said
    assert (one.side(), one.writable()[0]) == ("source", "source")
    refused.write_text("cutover\n")
    assert "`cutover` is not begun, hooks.before.cutover refuses" in one.flow.refused("cutover", code=4)
    config.write_text(plain, "utf-8")


def a_write_by_hand_that_nobody_has_read_yet_holds_the_switch_back(one: Switched, hand: Path) -> None:
    """Kept for ever: what was written by hand at a target became an application's with the switch, where the stream
    from there had not read it yet."""
    (publisher,) = one.flow.children("back-t0")
    hand.write_text(str(publisher.pid), "ascii")
    text = one.flow.migration.config.read_text("utf-8")
    one.flow.migration.config.write_text(text.replace("freeze_seconds: 60", "freeze_seconds: 3"))
    said = one.flow.refused("cutover", code=7)
    # Where the machine is slow the steps before have used up what the freeze may take.
    assert "the stream from the targets did not reach" in said or "the freeze took longer than 3 s" in said, said
    assert "writes are given back" in said
    one.flow.migration.config.write_text(text)
    hand.unlink()
    publisher.stop(SLOW)  # its lease may have run out meanwhile
    one.flow.child("back-t0", "--reverse", "publish", "--source", "t0")
    assert (one.side(), one.writable()) == ("source", ["source", "target"])
    wait(lambda: one.flow.migration.ask("foreign", "list")["count"], "the write by hand")
    assert "1 row written at a standby side" in one.flow.refused("cutover")
    one.flow.migration.do("foreign", "discard", "--all")


def open_transactions_are_waited_for_and_ended_after_a_while(one: Switched) -> None:
    """One that commits within `cutover.wait_seconds` goes along; one that stays is ended and named."""
    flow, source = one.flow, one.box.source
    text = flow.migration.config.read_text("utf-8")
    flow.migration.config.write_text(text.replace("wait_seconds: 1", "wait_seconds: 8"))
    waiting = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'LOCK TABLES%'"
    with closing(connected(source, flow.database, one.at_source)) as held, held.cursor() as cursor:
        held.autocommit(False)
        cursor.execute("UPDATE orders SET value = 777 WHERE id = 2")
        patient = flow.child("patient", "cutover")
        wait(lambda: source.query(waiting)[0][0], "the lock to wait for the transaction")
        cursor.execute("UPDATE orders SET value = 778 WHERE id = 4")
        held.commit()
        assert patient.wait(SLOW)
        said = patient.log.read_text("utf-8")
        assert (patient.returncode, "ended " in said) == (0, False), said
        cursor.execute("SELECT 1")
    assert (one.side(), flow.differences(source)) == ("target", [])
    assert [flow.source_rows(source)[key][2] for key in (2, 4)] == [777, 778]

    flow.migration.config.write_text(text)
    with closing(connected(one.box.targets[1], f"{flow.name}_1", one.at_target[1])) as held, held.cursor() as cursor:
        held.autocommit(False)
        cursor.execute("UPDATE orders_0 SET value = 12345 WHERE id = 2")
        told = flow.migration.do("rollback")
        assert f"target 't1': ended {one.at_target[1]['user']}@" in told
        with pytest.raises(pymysql.MySQLError):
            held.commit()
    assert (one.side(), flow.differences(source)) == ("source", [])
    assert flow.source_rows(source)[2][2] == 777
