"""Writes that no stream may carry: at a standby side, by hand; and what comes for a side that is active by then."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import Producer

from migrate.model.message import encode
from migrate.model.table import Table
from migrate.target.refresh import refresh_message
from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.chaos.faults import cut_some
from tests.failover.support import SLOW, wait
from tests.flow import launcher
from tests.flow.test_cutover import MORE, Switched, switched
from tests.forked import Child

NOBODY_STOPS = MORE.replace("stop: read_only", "stop: application")


def listed(one: Switched, count: int) -> list[dict[str, Any]]:
    """What `migrate foreign list` says, once it has so many."""

    def enough() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = one.flow.migration.ask("foreign", "list")["listed"]
        return found if len(found) >= count else []

    told: list[dict[str, Any]] = wait(enough, f"{count} foreign writes to be listed")
    return told


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_write_by_hand_at_a_standby_side_changes_nothing_at_the_active_one_and_holds_the_switch_back(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path
) -> None:
    """Lost: the reverse stream took a DELETE at a target for an application's, and deleted the row at the source."""
    with switched(box, kafka, tmp_path, columns=", KEY by_value (value)") as one:
        flow, ask = one.flow, one.flow.migration.ask
        ask("verify")
        in_another_shard(one)
        ask("cutover", "--rehearse", "--freeze")  # the switch's version is above the roles' from here on
        before = flow.source_rows(box.source)
        one.write_at_target(0, "DELETE FROM orders_0 WHERE id = 24")
        one.write_at_target(0, "UPDATE orders_0 SET value = -5 WHERE id = 44")
        one.write_at_target(0, "UPDATE orders_0 SET value = -6 WHERE id = 64")
        found = listed(one, 3)
        ask("--reverse", "drain", "--timeout", str(SLOW))
        assert flow.source_rows(box.source) == before
        where = (f"{flow.name}_0.orders_0", "target", "t0", "foreign")
        assert [(row["table"], row["side"], row["server"], row["kind"]) for row in found] == [where] * 3
        assert [row["key"] for row in found] == [["24"], ["44"], ["64"]]

        assert one.stage()[1] == "migrate foreign compare"
        refused = flow.refused("cutover")
        assert "3 rows written at a standby side" in refused
        assert "3 rows listed and not equal" in flow.refused("foreign", "compare", code=1)
        one.write_at_source("UPDATE orders SET value = -6 WHERE id = 64")  # by chance the same
        said = flow.migration.do("foreign", "discard", where[0], "24")
        assert said.strip().endswith("1 row equal at both sides now; 1 other row listed, `migrate foreign list`")
        assert [row["key"] for row in ask("foreign", "list")["listed"]] == [["44"]]
        carried_without_an_applications_write(one, where[0], "44")
        assert ask("foreign", "list") == {"count": 0, "listed": []}
        flow.drain()
        after = flow.source_rows(box.source)
        assert {key for key, row in after.items() if row != before.get(key)} == {44, 64}
        assert (after[44][2], 24 in after) == (-5, True)
        assert flow.differences(box.source) == []
        assert one.stage()[0] == "ready"

        role = f"_migrate_role WHERE migration = '{flow.name}-reverse'"
        ((version,),) = box.source.query(f"SELECT version FROM {role}", database=flow.database)
        box.source.execute(f"DELETE FROM {role}", database=flow.database)  # as before an update
        assert f"no role in main, database {flow.database}" in flow.refused("cutover")
        made = f"INSERT INTO _migrate_role VALUES ('{flow.name}-reverse', 'active', {version}, 0)"
        box.source.execute(made, database=flow.database)
        ask("cutover")
        carried_whole(one)
        late(one, kafka)
        ask("--reverse", "verify")
        ask("rollback")
        assert flow.differences(box.source) == []
        cleaned_up(one)


def in_another_shard(one: Switched) -> None:
    """Lost: a row that an application looks for in its shard, once somebody had moved it by hand, as it was, to another
    shard: in the one table of the sources it was equal."""
    flow, moved = one.flow, "INSERT INTO orders_1 SELECT * FROM orders_0 WHERE id = 164"
    one.write_at_target(0, moved)
    one.write_at_target(0, "DELETE FROM orders_0 WHERE id = 164")
    found = listed(one, 2)
    assert {(row["table"], *row["key"]) for row in found} == {(f"{flow.name}_0.orders_{n}", "164") for n in (0, 1)}
    assert "2 rows listed and not equal" in flow.refused("foreign", "compare", code=1)
    assert "2 rows written at a standby side" in flow.refused("cutover")
    flow.migration.do("foreign", "discard", "--all")
    assert flow.differences(one.box.source) == []


def carried_without_an_applications_write(one: Switched, table: str, key: str) -> None:
    """Lost: what an application had written to the row at the active side, and the stream not yet brought."""
    flow, box, of_application = one.flow, one.box, "UPDATE orders SET history = '{}' WHERE id = {}"
    carry = ("foreign", "carry", table, key)

    def history() -> str:
        return str(flow.source_rows(box.source)[int(key)][3])

    flow.children("consume")[0].stop(SLOW)
    one.write_at_source(of_application.format("first", key))
    refused = flow.refused(*carry, "--timeout", "2", code=4)
    assert "the stream from the sources did not reach the end of the log" in refused
    assert history() == "first"
    consumer = flow.child("consume-again", "consume")
    flow.migration.do(*carry)  # the stream has brought the whole row: nothing is left to carry
    assert history() == "first"

    by_hand = f"UPDATE orders_0 SET value = -5 WHERE id = {key}"
    one.write_at_target(0, by_hand)
    listed(one, 1)
    with carrying(one, *carry) as said:
        consumer.stop(SLOW)
        one.write_at_source(of_application.format("second", key))
    assert "was changed at the active side meanwhile" in said[0]
    assert history() == "second"
    consumer = flow.child("consume-once-more", "consume")
    flow.drain()
    one.write_at_target(0, by_hand)
    listed(one, 1)
    with carrying(one, *carry) as said:  # and what came to the standby side, when the active one has left it again
        one.write_at_source(of_application.format("third", key))
        flow.drain()
        consumer.stop(SLOW)
        one.write_at_source(of_application.format("second", key))
    assert "was changed at the standby side meanwhile" in said[0]
    assert history() == "second"
    flow.child("consume-at-last", "consume")
    flow.drain()
    one.write_at_target(0, by_hand)
    listed(one, 1)
    flow.migration.do(*carry)


@contextmanager
def carrying(one: Switched, *carry: str) -> Iterator[list[str]]:
    """What `migrate foreign carry` refuses by, for what is done between its looks at the two sides."""
    held, said = one.flow.directory / "held-carry", list[str]()
    child = Child("carry", one.flow.directory / "carry.log", Path.cwd())
    command = launcher.command(one.flow.migration, "hold-after", "migrate.commands.foreign:pass_up_to", 1, *carry)
    child.start(command, {**one.flow.migration.environment, "HELD_AT": str(held)})
    wait(held.exists, "the stream to have passed")
    yield said
    held.unlink()
    assert child.wait(SLOW)
    said.append(child.log.read_text("utf-8"))
    assert child.returncode == 3, said


def carried_whole(one: Switched) -> None:
    """Lost: a row that moves to another database: deleted in the first one, and the second refused."""
    flow, box = one.flow, one.box
    carry = ("foreign", "carry", f"{flow.database}.orders", "104")
    moved = "UPDATE orders SET user_id = user_id + 1 WHERE id = 104"

    def at_targets() -> list[int]:
        asked = "SELECT user_id FROM {}_{}.orders_0 WHERE id = 104"
        found = [box.targets[number].query(asked.format(flow.name, number)) for number in (0, 1)]
        return [row[0] for rows in found for row in rows]

    box.source.execute(moved, database=flow.database)
    listed(one, 1)
    with carrying(one, *carry) as said:
        flow.children("back-consume")[0].stop(SLOW)
        one.write_at_target(1, "INSERT INTO orders_0 VALUES (104, 7, 0, 'of an application')")
    assert "was changed at the active side meanwhile" in said[0]
    assert at_targets() == [52, 7]
    one.write_at_target(1, "DELETE FROM orders_0 WHERE id = 104")
    flow.child("back-consume-again", "--reverse", "consume")
    flow.migration.ask("--reverse", "drain", "--timeout", str(SLOW))
    moves = ("UPDATE orders SET user_id = 63 WHERE id = 124", "UPDATE orders SET user_id = 53 WHERE id = 104")
    box.source.execute(*moves, database=flow.database)
    listed(one, 2)
    with child_elsewhere(one, "id", "ON DELETE CASCADE", 104):
        told = flow.refused("foreign", "carry", "--all", code=5)
        assert f"would delete or change rows of {flow.name}_billing.lines with a row of" in told, (
            "lost: what the key took along"
        )
        assert at_targets() == [52, 53], "both, which every comparison names"
        other = "SELECT user_id FROM orders_0 WHERE id = 124"
        found = [box.targets[number].query(other, database=f"{flow.name}_{number}") for number in (0, 1)]
        assert found == [(), ((63,),)], "twice: a row that nothing kept from leaving"
    flow.migration.do(*carry)
    assert at_targets() == [53]
    box.source.execute("UPDATE orders SET value = -7 WHERE id = 144", database=flow.database)
    listed(one, 1)
    changed = ("foreign", "carry", f"{flow.database}.orders", "144")
    with child_elsewhere(one, "value", "ON UPDATE SET NULL", 144) as lines:
        assert "that is to change" in flow.refused(*changed, code=5)
        assert box.targets[0].query(f"SELECT of_order FROM {lines}") == ((72,),), "lost: what the row was of"
    flow.migration.do(*changed)


@contextmanager
def child_elsewhere(one: Switched, column: str, rule: str, key: int) -> Iterator[str]:
    """A table of another database, whose row refers to one of `orders_0`."""
    server, billing, parent = one.box.targets[0], f"{one.flow.name}_billing", f"{one.flow.name}_0.orders_0"
    # From MySQL 8.4 on a foreign key wants a unique key there, unless the session says otherwise.
    lax = ["SET SESSION restrict_fk_on_non_standard_key = 0"] if one.box.flavour == "mysql" else []
    server.execute(
        f"CREATE DATABASE {billing}",
        *lax,
        f"CREATE TABLE {billing}.`lines` (of_order BIGINT{' UNSIGNED' * (column == 'id')} NULL,"
        f" FOREIGN KEY (of_order) REFERENCES {parent} ({column}) {rule})",
        f"INSERT INTO {billing}.`lines` SELECT {column} FROM {parent} WHERE id = {key}",
    )
    try:
        yield f"{billing}.`lines`"
    finally:
        server.execute(f"DROP DATABASE {billing}")


def cleaned_up(one: Switched) -> None:
    """Lost: with the reverse stream up, rows that `migrate init` deleted at the targets, as a condition was added to
    their table, were deleted at the source too."""
    flow, box = one.flow, one.box
    before = flow.source_rows(box.source)
    flow.drain()
    for label in ("publish", "consume-at-last", "commit", "requeue"):
        for child in flow.children(label):
            child.stop(SLOW)
    written = flow.migration.config.read_text("utf-8")
    flow.migration.config.write_text(
        written.replace("    sharding:\n", "    rows: [{column: value, below: 100}]\n    sharding:\n")
    )
    flow.migration.do("init")
    at_target = f"SELECT COUNT(*) FROM {flow.name}_0.orders_0 WHERE value >= 100"
    assert box.targets[0].query(at_target) == ((0,),)
    box.targets[0].execute("UPDATE orders_0 SET value = -9 WHERE id = 24", database=f"{flow.name}_0")
    assert [row["key"] for row in listed(one, 1)] == [["24"]]  # the reverse stream has read that far
    wait(lambda: not flow.state_of("SELECT 1 FROM record WHERE state = 0"), "what it read to be consumed")
    assert flow.source_rows(box.source) == before


def late(one: Switched, kafka: KafkaBroker) -> None:
    """Lost: a refresh that was asked before the cutover and consumed after it wrote the old side's row over the
    application's, and the fence hid that from the reverse stream; and so where the target had come back without its
    last switch, with sessions that were ended by that."""
    flow, box = one.flow, one.box
    one.write_at_target(0, "UPDATE orders_0 SET value = 777 WHERE id = 84")
    flow.migration.ask("--reverse", "drain", "--timeout", str(SLOW))
    box.source.execute("UPDATE orders SET value = 111 WHERE id = 84", database=flow.database)
    assert [(row["key"], row["kind"], row["side"]) for row in listed(one, 1)] == [(["84"], "foreign", "source")]
    back = f"UPDATE _migrate_role SET role = 'standby' WHERE migration = '{flow.name}'"
    box.targets[0].execute(back, database=f"{flow.name}_0")
    with closing(box.targets[0].connect()) as connection:
        cut_some(connection, 1000, Random(1))  # noqa: S311
    flow.children("back-t0")[0].kill()  # nobody here would start it again
    flow.child("back-t0-again", "--reverse", "publish", "--source", "t0")
    [topic] = {part["topic"] for part in flow.migration.ask("status")["partitions"]}
    message = encode(refresh_message(Table("main", flow.database, "orders", (), ("id",)), [("84",)]))
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce(topic, message, partition=0)
    assert producer.flush(SLOW) == 0
    wait(lambda: [row["kind"] for row in listed(one, 1)] == ["late"], "the refresh to be refused")
    at_target = f"SELECT value FROM {flow.name}_0.orders_0 WHERE id = 84"
    assert box.targets[0].query(at_target) == ((777,),)
    assert "1 row written at a standby side, or too late" in flow.refused("rollback")
    discard = ("foreign", "discard", "--all")  # a partition whose session was ended is stopped for a moment
    wait(lambda: flow.migration.run(*discard).returncode == 0, "the row to be as at the active side")
    assert box.targets[0].query(at_target) == ((777,),)
    assert flow.source_rows(box.source)[84][2] == 777
