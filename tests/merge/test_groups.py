"""Tables that share their places: which are refused, where keys go, and which keys the sources are asked for."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from migrate.merge.owned import OwnedPartition
from migrate.merge.shares import Share
from migrate.merge.table_versions import Layouts
from migrate.model.change import Key, partition_of
from migrate.model.coordinate import Coordinate
from migrate.model.errors import StopError
from migrate.model.message import Message
from migrate.model.table import Table
from migrate.settings import Settings
from migrate.state.record import Partition
from migrate.target.groups import misfits
from migrate.target.reached import Claim
from migrate.target.refresh import HeldRows, refresh_message
from migrate.target.routing import Plan
from tests.helpers import SHARDING, int_column, make_settings, plain_table, plan_of, raw_settings, text_column
from tests.merge.steps import Steps
from tests.merge.test_planner import at, batch, delayed, message, wanted
from tests.merge.test_table_versions import Told

PARTITION = Partition("m", "topic", 3)


def settings_of(*changes: dict[str, Any], **more: Any) -> Settings:
    """Table shop.t of the sources s, r and so on in the group `all`; each with changes to its entry."""
    server = raw_settings()["sources"][0]
    sources = [{**server, "name": name} for name, _ in zip("srq", changes, strict=False)]
    tables = [
        {"name": "shop.t", "source": name, "group": "all", "sharding": SHARDING, **change}
        for name, change in zip("srq", changes, strict=False)
    ]
    return make_settings(sources=sources, tables=tables, **more)


def grouped(*changes: dict[str, Any], **tables: Table) -> Plan:
    """With two tables that are alike but for `changes` and `tables` (by source)."""
    return plan_of(
        tables.get("s", plain_table()),
        tables.get("r", replace(plain_table(), source="r")),
        settings=settings_of(*changes or ({}, {})),
    )


PLAN = grouped()
DS_0, DS_1 = PLAN.used_databases


def share_of(*messages: Message, plan: Plan = PLAN, **applied: Coordinate) -> Share:
    by_name = {"ds_0": DS_0, "ds_1": DS_1}
    owner = OwnedPartition(Claim(PARTITION, 7, "h"), {}, {"s": {by_name[name]: one for name, one in applied.items()}})
    return Steps(plan).share(owner, batch(*messages))


def asked(share: Share) -> dict[str, set[str] | None]:
    """Key: the places that are in doubt, as database.table; None for all."""
    return {
        key[0]: None if doubt.places is None else {f"{place.database.name}.{place.table}" for place in doubt.places}
        for _, keys in share.folded.refreshes.values()
        for key, doubt in keys.items()
    }


# -- what a group is


def test_tables_of_a_group_send_a_key_to_one_partition_and_others_where_they_always_did() -> None:
    one, other = PLAN.tables.values()
    numbers = [one.partition((str(key),), 8) for key in range(100)]
    assert numbers == [other.partition((str(key),), 8) for key in range(100)]
    assert len(set(numbers)) == 8
    assert numbers == [partition_of("*", "all", (str(key),), 8) for key in range(100)]
    (alone,) = plan_of(plain_table()).tables.values()
    assert [alone.partition((str(key),), 8) for key in range(100)] == [
        partition_of("shop", "t", (str(key),), 8) for key in range(100)
    ]


def test_a_table_that_joins_a_group_later_moves_no_key_and_leaves_the_rules_of_the_others() -> None:
    (before,) = plan_of(plain_table(), settings=settings_of({})).tables.values()
    after = PLAN.tables["s", "shop", "t"]
    assert before.rule_hash == after.rule_hash
    assert [before.partition((str(key),), 8) for key in range(50)] == [
        after.partition((str(key),), 8) for key in range(50)
    ]


def test_a_table_that_comes_into_a_group_after_it_began_has_another_rule() -> None:
    (alone,) = plan_of(plain_table()).tables.values()
    assert alone.rule_hash != PLAN.tables["s", "shop", "t"].rule_hash


def told(plan: Plan) -> list[str]:
    return [str(error) for error in misfits(plan.tables.values())]


def test_tables_that_are_alike_are_a_group() -> None:
    assert told(PLAN) == []
    assert told(grouped({"rows": [{"column": "shard", "below": 2}]}, {})) == []


FEWER = {**SHARDING, "nodes": "ds_${0..1}.t_0"}
OTHER_RULE = {**SHARDING, "table": {"column": "id", "algorithm": "MOD", "props": {"sharding-count": 2}}}


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (
            grouped({"group": None}, {}),
            r"t0/d0\.t_0 takes rows of s/shop\.t and of r/shop\.t, which are not of one gro",
        ),
        (grouped({"group": None}, {"group": None}), r"takes rows of s/shop\.t and of r/shop\.t, which are not of one"),
        (grouped({}, {"group": "some"}), r"takes rows of s/shop\.t and of r/shop\.t, which are not of one group"),
        (grouped({}, {"sharding": OTHER_RULE}), r"group 'all': s/shop\.t and r/shop\.t differ in their sharding rule"),
        (
            grouped(
                {},
                {},
                r=replace(plain_table(), source="r", columns=(*plain_table().columns[:2], text_column("w"))),
                s=plain_table(),
            ),
            r"group 'all': s/shop\.t and r/shop\.t differ in their columns: v, w",
        ),
        (
            grouped({}, {}, r=replace(plain_table(key=("id", "shard")), source="r")),
            r"group 'all': s/shop\.t and r/shop\.t differ in their key: id and id, shard",
        ),
        (
            grouped({}, {}, s=plain_table(unique_keys=(("v",),))),
            r"group 'all': s/shop\.t has a further unique key \(v\), whose values two sources may both hold",
        ),
    ],
)
def test_tables_that_share_places_and_are_not_alike_are_refused_by_what_differs(plan: Plan, said: str) -> None:
    (one,) = told(plan)
    assert re.search(said, one)


def test_tables_of_a_group_with_some_places_in_common_are_refused_by_one_of_the_others() -> None:
    whole = {"nodes": "ds_0.t_0"}
    (one,) = told(grouped({}, {"sharding": whole}))
    assert "s/shop.t and r/shop.t differ in their target tables: t0/d0.t_1" in one


def test_tables_of_a_group_over_two_topics_are_refused() -> None:
    tables = [replace(plain_table(), name=name) for name in ("t", "u")]
    settings = make_settings(
        tables=[{"name": "shop.?", "group": "all", "sharding": SHARDING}],
        kafka={"bootstrap": "127.0.0.1:1", "topics": {"more": ["shop.u"]}},
    )
    (one,) = told(plan_of(*tables, settings=settings))
    assert "shop.t and s/shop.u differ in their topic: the main one and more" in one


def test_every_table_that_does_not_fit_is_named_and_none_twice() -> None:
    tables = [replace(plain_table(), name=name) for name in ("t", "u", "v")]
    tables[1] = replace(tables[1], columns=(*tables[1].columns[:2], text_column("w")))
    tables[2] = replace(tables[2], unique_keys=(("v",),))
    settings = make_settings(tables=[{"name": "shop.?", "group": "all", "sharding": SHARDING}])
    expected = ("shop.t and s/shop.u differ in their columns: v, w", "shop.v has a further unique key (v)")
    for said, one in zip(expected, told(plan_of(*tables, settings=settings)), strict=True):
        assert said in one


# -- which keys are in doubt


def test_changes_of_one_table_that_take_no_row_away_are_applied_and_nobody_is_asked() -> None:
    share = share_of(
        message("INSERT", ("1", "0", "a"), ("2", "1", "b")), message("UPDATE", ("1", "0", "c"), transaction=11)
    )
    assert (asked(share), wanted(share.parts)["ds_0"]) == ({}, {"t_0": [("1", "c")]})


def test_a_delete_and_a_move_ask_for_the_keys_they_took_away() -> None:
    moved = replace(message("UPDATE", ("2", "1", "b"), transaction=11), old=({"shard": "0"},))
    share = share_of(message("DELETE", ("1", "3", "a")), moved, message("INSERT", ("3", "0", "c"), transaction=12))
    assert asked(share) == {"1": {"ds_1.t_1"}, "2": {"ds_0.t_0", "ds_1.t_0"}}
    assert wanted(share.parts)["ds_1"]["t_1"] == [("1", None)], "the ledger learns of it"


def test_a_key_that_two_tables_change_in_one_batch_is_asked_for() -> None:
    share = share_of(
        message("INSERT", ("1", "0", "a"), ("2", "0", "b")), message("INSERT", ("1", "1", "c"), source="r")
    )
    assert asked(share) == {"1": {"ds_0.t_0", "ds_1.t_0"}}


def test_what_a_database_has_already_is_asked_for_all_the_same_after_a_crash() -> None:
    share = share_of(message("DELETE", ("1", "0", "a")), ds_0=at(50))
    assert (asked(share), share.parts) == ({"1": {"ds_0.t_0"}}, {})


def test_where_only_the_server_can_compare_keys_two_tables_put_all_in_doubt() -> None:
    table = replace(plain_table(), columns=(text_column("id"), int_column("shard"), text_column("v")))
    plan = grouped(s=table, r=replace(table, source="r"))
    mixed = share_of(message("INSERT", ("A", "0", "a")), message("INSERT", ("a", "1", "c"), source="r"), plan=plan)
    assert asked(mixed) == {"A": None, "a": None}
    assert asked(share_of(message("INSERT", ("A", "0", "a"), ("b", "0", "b")), plan=plan)) == {}


def test_a_key_that_is_also_to_be_refreshed_is_asked_for_at_every_place() -> None:
    asking = refresh_message(replace(plain_table(), source="r"), [("1",)])
    assert asked(share_of(message("DELETE", ("1", "0", "a")), asking)) == {"1": None}
    assert asked(share_of(asking, message("DELETE", ("1", "0", "a")))) == {"1": None}


# -- what becomes of them


def found(share: Share, **held: list[str]) -> dict[str, dict[str, str | None]]:
    """Refreshed by place: key: value; `held`: the sources that have a key, each with a value of its own."""
    rows: dict[Key, HeldRows] = {
        (key.removeprefix("k"),): [
            (PLAN.tables[name, "shop", "t"], {"id": key.removeprefix("k"), "shard": "1", "v": f"at {name}"})
            for name in names
        ]
        for key, names in held.items()
    }
    share = Steps(PLAN).answered(share.folded, rows)
    return {
        f"{database.name}.{work.writer.name}": {
            intent.key[0]: intent.row["v"] if intent.row else None for intent in work.refreshed
        }
        for database, part in share.parts.items()
        for work in part.work
        if work.refreshed
    }


def test_a_row_that_one_source_has_is_written_where_it_belongs_and_deleted_where_it_was() -> None:
    gone = message("DELETE", ("1", "0", "a"), ("2", "3", "b"))
    assert found(share_of(gone), k1=["r"], k2=[]) == {
        "ds_0.t_0": {"1": None},
        "ds_1.t_0": {"1": "at r"},
        "ds_1.t_1": {"2": None},
    }


def test_a_refresh_of_a_person_sets_every_place_right() -> None:
    places = found(share_of(refresh_message(plain_table(), [("1",)])), k1=["s"])
    assert places == {
        "ds_0.t_0": {"1": None},
        "ds_0.t_1": {"1": None},
        "ds_1.t_0": {"1": "at s"},
        "ds_1.t_1": {"1": None},
    }


def test_a_row_that_two_sources_have_stops_with_its_key_and_both() -> None:
    with pytest.raises(
        StopError, match=r'shop\.t key \["1"\] as its sources have it: .* this one is in s/shop.t, r/shop.t'
    ):
        found(share_of(message("DELETE", ("1", "0", "a"))), k1=["s", "r"])


def test_a_source_whose_publisher_has_not_begun_is_not_asked() -> None:
    told = Told()
    layouts = Layouts(told, PLAN)
    members = [*PLAN.tables.values()]
    with pytest.raises(StopError, match=r"group 'all': the publisher of source 'r' has not begun with shop\.t"):
        layouts.refuse_unread(members)
    told.ready.add(("r", "shop", "t"))
    layouts.refuse_unread(members)


def test_the_writers_of_a_group_know_all_its_tables_and_share_a_ledger() -> None:
    share = share_of(message("INSERT", ("1", "0", "a")), message("INSERT", ("2", "0", "c"), source="r"))
    works = share.parts[DS_0].work
    assert [work.writer.table.source for work in works] == ["s", "r"]
    assert {work.writer.members for work in works} == {frozenset(PLAN.tables)}
    assert {work.writer.noted_as.id for work in works} == {("*", "", "all")}


def test_columns_that_another_table_of_the_group_has_by_now_are_reset_by_rows_without_them() -> None:
    """Lost: the default of a row that moved from a table with the column to one without it, where the delete of the old
    one is held back until its children were looked for."""
    added = replace(plain_table(), columns=(*plain_table().columns, int_column("n")))
    told, plan = Told(), grouped({"ddl": "apply"}, {"ddl": "apply"})
    one, other = plan.tables["s", "shop", "t"], plan.tables["r", "shop", "t"]
    layouts = Layouts(told, plan)
    layouts.refresh()
    assert layouts.absent_columns(one) == layouts.absent_columns(other) == frozenset()
    told.of["s", "shop", "t"] = [(at(0), plain_table()), (at(5), added)]
    layouts.refresh()
    assert layouts.absent_columns(one) == layouts.absent_columns(other) == {"n"}
    assert layouts.absent_columns(layouts.newest(one)) == frozenset()
    told.reaches["r"] = told.reaches["s"]
    owner = OwnedPartition(Claim(PARTITION, 7, "h"), {})
    parts = Steps(plan, told).share(owner, batch(message("INSERT", ("2", "0", "c"), source="r"))).parts
    assert [work.writer.reset for part in parts.values() for work in part.work] == [["`n` = DEFAULT"]]
    ignoring = Layouts(told, grouped({"ddl": "ignore"}, {"ddl": "ignore"}))  # the targets may not have it yet
    ignoring.refresh()
    assert ignoring.absent_columns(other) == frozenset()
    told.of["r", "shop", "t"] = [(at(9), replace(added, source="r"))]
    layouts.refresh()
    assert layouts.absent_columns(layouts.newest(other)) == frozenset()
    assert layouts.absent_columns(replace(one, group="")) == frozenset()


def test_delayed_deletes_of_two_tables_in_one_batch_come_back_as_their_own() -> None:
    """Their coordinates are of two sources, and one that waits again goes out under its table."""
    share = share_of(delayed("7", "ds_1", "t_1"), replace(delayed("9", "ds_1", "t_1"), source="r"))
    works = [work for part in share.parts.values() for work in part.work]
    assert [(work.writer.table.source, [one.key for one in work.returned]) for work in works] == [
        ("s", [("7",)]),
        ("r", [("9",)]),
    ]
