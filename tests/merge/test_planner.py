"""What a batch wants of each database: repeats, watermarks, returned deletes, and what stops it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from migrate.merge.owned import OwnedPartition
from migrate.merge.shares import Parts
from migrate.model.coordinate import Coordinate
from migrate.model.errors import StopError
from migrate.model.message import CANAL, Delay, Message, Received, Row
from migrate.state.record import Consumed, Partition
from migrate.target.part import Part
from migrate.target.reached import Claim
from migrate.target.refresh import refresh_message
from migrate.target.routing import Plan
from tests.helpers import int_column, make_settings, plain_table, plan_of, raw_settings
from tests.merge.steps import Steps
from tests.merge.test_table_versions import Told

PLAN = plan_of(plain_table())
DS_0, DS_1 = PLAN.used_databases
PARTITION = Partition("m", "topic", 3)


def owned(watermark: dict[str, Coordinate] | None = None, **applied: Coordinate) -> OwnedPartition:
    databases = {"ds_0": DS_0, "ds_1": DS_1}
    return OwnedPartition(
        Claim(PARTITION, 7, "h"), watermark or {}, {"s": {databases[name]: at for name, at in applied.items()}}
    )


def at(ordinal: int, transaction: int = 10) -> Coordinate:
    return Coordinate(1, 1, transaction, ordinal)


def message(kind: str, *rows: tuple[str, str, str], ordinals: tuple[int, ...] = (), **more: Any) -> Message:
    parts: dict[str, Any] = {
        "database": "shop",
        "table": "t",
        "source": "s",
        "incarnation": 1,
        "file": 1,
        "transaction": 10,
        "es": 99,
        **more,
    }
    data: tuple[Row, ...] = tuple({"id": key, "shard": shard, "v": value} for key, shard, value in rows)
    return Message(type=kind, data=data, rows=ordinals or tuple(2 * index for index in range(len(rows))), **parts)


def batch(*messages: Message, first: int = 100, unread: tuple[int, ...] = ()) -> list[Received]:
    return [
        Received(PARTITION, first + 2 * index, 50, each, first + 2 * index not in unread)
        for index, each in enumerate(messages)
    ]


def plan(owner: OwnedPartition, items: list[Received], of: Plan = PLAN) -> tuple[Parts, Consumed]:
    share = Steps(of).share(owner, items)
    return share.parts, share.consumed


def wanted(parts: Parts) -> dict[str, dict[str, list[tuple[str, str | None]]]]:
    """Database: table: (key, value or None) of each intent."""
    return {
        database.name: {
            work.writer.name: [
                (intent.key[0], None if intent.row is None else intent.row["v"]) for intent in work.intents
            ]
            for work in part.work
        }
        for database, part in parts.items()
    }


def test_a_batch_is_split_by_database_and_place_and_ends_behind_its_last_offset() -> None:
    parts, consumed = plan(owned(), batch(message("INSERT", ("1", "0", "a"), ("2", "1", "b"), ("3", "2", "c"))))
    assert wanted(parts) == {"ds_0": {"t_0": [("1", "a")], "t_1": [("3", "c")]}, "ds_1": {"t_0": [("2", "b")]}}
    assert {(part.claim.epoch, part.partition.number, part.highest["s"]) for part in parts.values()} == {(7, 3, at(4))}
    assert (consumed.end, consumed.messages, consumed.rows, consumed.event_ms) == (101, 1, 3, 99)
    assert consumed.highest == {"s": at(4)}


def test_offsets_may_have_gaps() -> None:
    items = batch(message("INSERT", ("1", "0", "a")), message("DELETE", ("1", "0", "a"), ordinals=(5,)))
    _, consumed = plan(owned(), items)
    assert (consumed.end, consumed.messages) == (103, 2)


def test_a_replay_of_the_publisher_never_goes_back() -> None:
    """Changes A, B and C of a row come as A B A B C."""
    a, b, c = (
        message("INSERT", ("1", "0", "A"), ordinals=(0,)),
        message("UPDATE", ("1", "0", "B"), ordinals=(2,)),
        message("UPDATE", ("1", "0", "C"), ordinals=(4,)),
    )
    assert wanted(plan(owned(), batch(a, b, a, b, c))[0]) == {"ds_0": {"t_0": [("1", "C")]}}
    assert wanted(plan(owned(), batch(a, b, a))[0]) == {"ds_0": {"t_0": [("1", "B")]}}


def test_the_stored_watermark_is_enough_to_know_a_repeat() -> None:
    parts, consumed = plan(
        owned({"s": at(2)}),
        batch(message("INSERT", ("1", "0", "A"), ("1", "0", "B"), ("2", "0", "C"), ordinals=(0, 2, 3))),
    )
    assert wanted(parts) == {"ds_0": {"t_0": [("2", "C")]}}
    assert consumed.highest == {"s": at(3)}


def test_repeats_alone_move_the_prefix_and_no_watermark_and_touch_no_database() -> None:
    parts, consumed = plan(owned({"s": at(9)}), batch(message("INSERT", ("1", "0", "A"), ordinals=(9,))))
    assert (parts, consumed.highest, consumed.end) == ({}, {}, 101)


def test_what_one_database_has_already_is_planned_for_the_others_only() -> None:
    parts, consumed = plan(
        owned(ds_0=at(2)), batch(message("INSERT", ("1", "0", "a"), ("2", "1", "b"), ("3", "2", "c")))
    )
    assert wanted(parts) == {"ds_0": {"t_1": [("3", "c")]}, "ds_1": {"t_0": [("2", "b")]}}
    assert consumed.highest == {"s": at(4)}


def test_sources_are_judged_apart() -> None:
    settings = make_settings(
        sources=[{**raw_settings()["sources"][0], "name": name, "port": port} for name, port in (("s", 1), ("z", 2))],
        tables=[{**raw_settings()["tables"][0], "source": name} for name in ("s", "z")],
    )
    both = plan_of(plain_table(), replace(plain_table(), source="z"), settings=settings)
    mine = message("INSERT", ("1", "0", "s"), ordinals=(2,))
    theirs = message("INSERT", ("2", "0", "z"), source="z", transaction=5)
    parts, consumed = plan(owned({"s": at(0)}), batch(mine, theirs), both)
    assert consumed.highest == {"s": at(2), "z": at(0, 5)}
    (part,) = parts.values()
    assert part.highest == {"s": at(2), "z": at(0, 5)}
    assert len(part.work) == 2  # the same place, two tables


def test_a_message_without_pos_counts_by_its_offset() -> None:
    messages = [
        message("INSERT", ("1", "0", "a"), source=CANAL, incarnation=0, file=0, transaction=offset, ordinals=(0,))
        for offset in (100, 102)
    ]
    parts, consumed = plan(owned({CANAL: Coordinate(0, 0, 100, 0)}), batch(*messages))
    assert wanted(parts) == {"ds_0": {"t_0": [("1", "a")]}}
    assert consumed.highest == {CANAL: Coordinate(0, 0, 102, 0)}


@pytest.mark.parametrize("kind", ["CREATE", "QUERY", "INSERT"])
def test_a_message_without_rows_is_consumed_in_its_turn(kind: str) -> None:
    parts, consumed = plan(owned(), batch(message(kind, table="unknown")))
    assert (parts, consumed.end, consumed.rows) == ({}, 101, 0)


def test_a_message_that_was_consumed_before_is_only_counted() -> None:
    parts, consumed = plan(
        owned(),
        batch(message("INSERT", ("1", "0", "a")), message("INSERT", ("2", "0", "b"), transaction=11), unread=(100,)),
    )
    assert wanted(parts) == {"ds_0": {"t_0": [("2", "b")]}}
    assert (consumed.end, consumed.messages) == (103, 2)


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (message("INSERT", ("1", "0", "a"), table="u"), "table shop.u of source 's', which is not in the config"),
        (message("INSERT", ("1", "0", "a"), source="z"), "table shop.t of source 'z', which is not in the config"),
        (message("ERASE", ("1", "0", "a")), "message type ERASE is not a row change"),
        (message("INSERT", ("9", "x", "secret")), 'shop.t key ["9"] at (1, 1, 10, 0): table shop.t: column shard'),
    ],
)
def test_what_cannot_be_planned_stops(bad: Message, told: str) -> None:
    state = owned()
    with pytest.raises(StopError) as caught:
        plan(state, batch(message("INSERT", ("1", "0", "a"), transaction=9), bad))
    assert told in caught.value.message
    assert "secret" not in str(caught.value)
    assert (state.watermark, state.applied["s"]) == ({}, {})


# -- delayed deletes


def delayed(key: str, database: str, table: str, ordinal: int = 0, tier: int = 1) -> Message:
    return Message(
        database="shop",
        table="t",
        type="DELETE",
        data=({"id": key},),
        source="s",
        incarnation=1,
        file=1,
        transaction=10,
        rows=(ordinal,),
        delay=Delay(tier, 5, database, table),
    )


def only(parts: Parts) -> Part:
    (part,) = parts.values()
    return part


def test_a_delayed_delete_goes_to_its_place_and_skips_the_watermark() -> None:
    parts, consumed = plan(owned({"s": at(50)}, ds_1=at(50)), batch(delayed("7", "ds_1", "t_1")))
    (work,) = only(parts).work
    assert (work.writer.name, work.intents) == ("t_1", [])
    assert [(item.key, item.coordinate, item.tier) for item in work.returned] == [(("7",), at(0), 1)]
    assert list(parts) == [DS_1]
    assert only(parts).highest == {"s": None}  # the epoch is checked, the coordinate stays
    assert (consumed.highest, consumed.end, consumed.rows) == ({}, 101, 0)


def test_delayed_deletes_join_the_changes_of_their_place() -> None:
    parts, _ = plan(
        owned(), batch(message("INSERT", ("1", "0", "a")), delayed("7", "ds_0", "t_0"), delayed("8", "ds_0", "t_0"))
    )
    (work,) = only(parts).work
    assert [intent.key for intent in work.intents] == [("1",)]
    assert [item.key for item in work.returned] == [("7",), ("8",)]
    assert only(parts).highest == {"s": at(0)}


IGNORING, APPLYING = (
    plan_of(plain_table(), settings=make_settings(tables=[{**raw_settings()["tables"][0], "ddl": policy}]))
    for policy in ("ignore", {"columns": "apply", "rename": "ignore", "truncate": "apply"})
)


@pytest.mark.parametrize("kind", ["TRUNCATE", "ERASE", "RENAME", "ALTER"])
def test_a_statement_of_another_producer_stops_where_rows_or_columns_would_differ(kind: str) -> None:
    """Lost: the rows that a TRUNCATE takes away stayed at the targets with `ddl: ignore`, and nothing said so."""
    statement = message(kind, is_ddl=True, sql=f"{kind} t", source=CANAL)
    with pytest.raises(StopError, match=f"shop.t: a {kind} statement is in the topic"):
        plan(owned(), batch(statement))
    with pytest.raises(StopError, match=f"shop.t: a {kind} statement is in the topic"):
        plan(owned(), batch(statement), APPLYING)  # which nobody would bring to the targets
    if kind == "ALTER":
        plan(owned(), batch(statement), IGNORING)
    else:
        with pytest.raises(StopError, match="stay at the targets"):
            plan(owned(), batch(statement), IGNORING)


@pytest.mark.parametrize("kind", ["CINDEX", "DINDEX"])
def test_a_statement_of_another_producer_about_an_index_stops_nothing(kind: str) -> None:
    _, consumed = plan(owned(), batch(message(kind, is_ddl=True, sql="CREATE INDEX i ON t (v)", source=CANAL)))
    assert (consumed.messages, consumed.rows) == (1, 0)


@pytest.mark.parametrize("kind", ["ALTER", "CREATE", "ERASE", "TRUNCATE", "RENAME", "CINDEX", "DINDEX"])
def test_a_statement_that_our_publisher_sends_for_other_readers_has_no_effect(kind: str) -> None:
    """It has dealt with the statement before it sends the message (`publish.ddl_messages`)."""
    row = message("INSERT", ("1", "0", "a"), transaction=9)
    statement = message(kind, is_ddl=True, sql=f"{kind} t")
    behind = message("INSERT", ("2", "0", "b"), transaction=11)
    share = plan(owned(), batch(row, statement, behind, row, statement))
    assert wanted(share[0]) == {"ds_0": {"t_0": [("1", "a"), ("2", "b")]}}
    assert (share[1].messages, share[1].rows, share[1].highest) == (5, 3, {"s": at(0, 11)})
    parts, consumed = plan(owned({"s": at(0, 11)}), batch(statement))
    assert (parts, consumed.highest, consumed.end, consumed.last) == ({}, {}, 101, ("s", at(0)))


@pytest.mark.parametrize(("database", "table"), [("ds_0", "t_9"), ("ds_9", "t_0")])
def test_a_delayed_delete_for_no_place_of_the_table_stops(database: str, table: str) -> None:
    with pytest.raises(StopError, match=rf"a delayed delete names {database}\.{table}, which is no place of shop\.t"):
        plan(owned(), batch(delayed("7", database, table)))


class SetAside:
    """What a person has decided, without a state database."""

    def reason(self, _id: tuple[str, str, str], key: tuple[str, ...]) -> str | None:
        return "tested" if key == ("1",) else None


def test_a_change_that_no_place_takes_and_is_set_aside_takes_its_row_from_where_it_was() -> None:
    old: Row = {"shard": "0"}
    nowhere = message("UPDATE", ("1", "none", "b"), ("2", "1", "c"), ordinals=(0, 2), old=(old, {"v": "x"}))
    with pytest.raises(StopError, match=r'key \["1"\]') as told:
        plan(owned(), batch(nowhere))
    assert "migrate parked skip shop.t '[\"1\"]'" in told.value.hint
    share = Steps(PLAN, None, SetAside()).share(owned(), batch(nowhere))  # type: ignore[arg-type]
    assert wanted(share.parts) == {"ds_0": {"t_0": [("1", None)]}, "ds_1": {"t_0": [("2", "c")]}}


def test_a_row_that_no_place_took_goes_where_it_belongs_from_now_on() -> None:
    """Lost: the row as it was mended at the source, once its key was set aside: the row before it had no place, so that
    the change was left out too. Without that it stopped the partition, and so did the row's end."""
    mended = message("UPDATE", ("1", "1", "b"), old=({"shard": None},))
    gone = message("DELETE", ("3", "none", "b"), transaction=12)
    share = Steps(PLAN).share(owned(), batch(mended, gone))
    assert wanted(share.parts) == {"ds_1": {"t_0": [("1", "b")]}}


# -- refreshes


def test_a_refresh_follows_the_changes_and_leaves_its_row_at_one_place_alone() -> None:
    steps = Steps(PLAN)
    keys = [("1",), ("2",)]
    asked = refresh_message(plain_table(), keys)
    folded = steps.fold(owned({"s": at(50)}), batch(message("UPDATE", ("1", "0", "a"), transaction=11), asked))
    ((table, found),) = folded.refreshes.values()
    assert [*found] == keys
    share = steps.answered(folded, {("1",): [(table, {"id": "1", "shard": "1", "v": "b"})], ("2",): []})
    places = {
        (database.name, work.writer.name): {intent.key[0]: intent.row and intent.row["v"] for intent in work.refreshed}
        for database, part in share.parts.items()
        for work in part.work
    }
    gone = {"1": None, "2": None}
    assert places == {
        ("ds_0", "t_0"): gone,
        ("ds_0", "t_1"): gone,
        ("ds_1", "t_0"): {"1": "b", "2": None},
        ("ds_1", "t_1"): gone,
    }
    assert wanted(share.parts)["ds_0"]["t_0"] == [("1", "a")]
    assert share.consumed.highest == {"s": at(0, 11)}
    assert {database.name: part.highest for database, part in share.parts.items()} == {
        "ds_0": {"s": at(0, 11)},
        "ds_1": {"s": at(0, 11)},
    }


def test_a_refresh_stands_behind_changes_of_older_columns_that_came_later_by_a_rewind() -> None:
    older = replace(plain_table(), columns=(*plain_table().columns, int_column("n")))
    steps = Steps(PLAN, Told((at(0, 0), older), (at(0, 5), plain_table())))
    types = {column.name: column.type for column in older.columns}
    again = message("UPDATE", ("1", "0", "old"), incarnation=2, transaction=3)
    again = replace(again, data=({**again.data[0], "n": "1"},), mysql_type=types)
    items = batch(message("UPDATE", ("2", "0", "a")), again, refresh_message(plain_table(), [("1",)]))
    folded = steps.fold(owned(), items)
    ((table, _),) = folded.refreshes.values()
    share = steps.answered(folded, {("1",): [(table, {"id": "1", "shard": "0", "v": "now"})]})
    there = [work for work in share.parts[DS_0].work if work.writer.name == "t_0"]
    said = [[intent.key[0] for intent in (*work.intents, *work.refreshed)] for work in there]
    assert said == [["2"], ["1"], ["1"]]
    assert [bool(work.refreshed) for work in there] == [False, False, True]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"incarnation": 3}, "has come to incarnation 2, file 99"),
        ({"incarnation": 2, "file": 100}, "has come to incarnation 2, file 99"),
        ({"source": CANAL}, "messages of Canal are ordered by their offset"),
    ],
)
def test_a_message_from_beyond_what_its_publisher_stored_is_refused_and_moves_no_mark(
    more: dict[str, Any], why: str
) -> None:
    """Lost: every real change behind it, of which it made a repeat."""
    told = Told((at(0, 0), plain_table()))
    steps = Steps(PLAN, told)
    with pytest.raises(StopError, match=why):
        steps.share(owned(), batch(message("INSERT", ("1", "0", "a"), **more)))
    told.reaches["s"] = (3, 100)
    if "source" not in more:  # once the publisher has come there
        steps.share(owned(), batch(message("INSERT", ("1", "0", "a"), **more)))


@pytest.mark.parametrize("known", ["state", "database", "batch"])
@pytest.mark.parametrize(
    ("later", "reach", "hint"),
    [((2, 1), (1, 99), "begins the later one again"), ((1, 9), (1, 8), "once the publisher has come to file 9 again")],
    ids=["a rewind", "a file, or a failover to a third server"],
)
def test_a_message_from_before_what_was_applied_is_a_repeat_only_where_the_state_has_that_place(
    known: str, later: tuple[int, int], reach: tuple[int, int], hint: str
) -> None:
    """Lost: every change from then on, dropped as a repeat, where a state lost a rewind, or a failover,
    and the publisher went on in a third server's log under the same number. Costs nothing."""
    place = Coordinate(*later, 1, 0)
    holder = owned({"s": place} if known == "state" else {}, **({"ds_0": place} if known == "database" else {}))
    first = [message("INSERT", ("2", "0", "b"), incarnation=later[0], file=later[1], transaction=1)]
    items = batch(*(first if known == "batch" else ()), message("INSERT", ("1", "0", "a"), transaction=70))
    told = Told((at(0, 0), plain_table()))
    steps = Steps(PLAN, told)
    steps.share(holder, items)  # the messages are believed
    told.reaches["s"] = reach
    with pytest.raises(StopError, match="is published from incarnation 1, file 1, and incarnation") as stopped:
        steps.share(holder, items)
    assert hint in str(stopped.value.hint)
    assert "up to position 70 of that file" in str(stopped.value.hint)
    told.reaches["s"] = later  # once its publisher is there again
    assert "1" not in str(wanted(steps.share(holder, items).parts).get("ds_0", {}).get("t_0", []))


# -- the plan


def test_the_rule_hash_changes_with_columns_key_and_rule_and_with_nothing_else() -> None:
    def hash_of(table: Any = None, **changes: Any) -> str:
        (planned,) = plan_of(table or plain_table(), settings=make_settings(**changes)).tables.values()
        return planned.rule_hash

    base = hash_of()
    assert base == hash_of(consume={"write_rows": 7})
    others = [
        hash_of(plain_table(key=("id", "shard"))),
        hash_of(databases={"ds_0": {"target": "t0", "database": "d0"}, "ds_1": {"target": "t1", "database": "dX"}}),
    ]
    assert len({base, *others}) == 3


def test_a_part_never_lowers_the_fence_of_a_database_that_has_more() -> None:
    """After a crash ds_0 is ahead; the first batch brings it a delayed delete only, and ends before that."""
    delayed = message("DELETE", ("4", "0", "x"), ordinals=(1,), delay=Delay(0, 5, "ds_0", "t_0"))
    first = batch(message("INSERT", ("5", "1", "y"), ordinals=(5,)), delayed)
    parts, done = plan(owned(ds_0=at(9)), first)
    assert {database.name: part.highest["s"] for database, part in parts.items()} == {"ds_0": at(9), "ds_1": at(5)}
    assert done.highest == {"s": at(5)}
