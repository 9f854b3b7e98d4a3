"""Rows that a lost server may have: what the changes that it published leave of them, and which keys are listed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from migrate.merge import unread_rows
from migrate.merge.owned import OwnedPartition
from migrate.merge.shares import Answer, Share
from migrate.model.change import NoChange
from migrate.model.message import Message
from migrate.sharding.rule import build_rule
from migrate.sharding.spec import spec_of
from migrate.state.foreign import ForeignWrite, Kind
from migrate.target.home import Home
from migrate.target.part import Part
from migrate.target.reached import Claim
from migrate.target.refresh import HeldRows, refresh_message
from migrate.target.routing import Plan
from tests.helpers import plain_table
from tests.merge.steps import Steps
from tests.merge.test_groups import PARTITION, grouped
from tests.merge.test_planner import batch, message

PLAN = grouped()
S, R = ("s", "shop", "t"), ("r", "shop", "t")
LOST = frozenset({"r"})
NONE: dict[str, dict[str, str | None]] = {}


def settled(*messages: Message, plan: Plan = PLAN, held: bool = False) -> tuple[Answer, Share]:
    """Where source r is lost and source s has key 1, or not."""
    steps = Steps(plan)
    folded = steps.fold(OwnedPartition(Claim(PARTITION, 7, "h"), {}, {"s": {}, "r": {}}), batch(*messages))
    ((table, asked),) = folded.refreshes.values()
    rows: HeldRows = [(plan.tables[S], {"id": "1", "shard": "1", "v": "at s"})] if held else []
    answer = unread_rows.settled(Answer(table, asked, {("1",): rows}, {}), plan.members(table), folded.fold, LOST)
    return answer, steps.plan(folded, answer)


def written(share: Share) -> dict[str, dict[str, str | None]]:
    """What each place holds of each key in the end, of those that it is given."""
    found: dict[str, dict[str, str | None]] = {}
    for database, part in share.parts.items():
        for name, key, value in _values(part):
            found.setdefault(f"{database.name}.{name}", {})[key] = value
    return found


def _values(part: Part) -> list[tuple[str, str, str | None]]:
    steps = [(work, work.intents) for work in part.work] + [(work, work.refreshed) for work in part.work]
    return [
        (work.writer.name, str(one.key[0]), one.row["v"] if one.row else None) for work, some in steps for one in some
    ]


GONE = message("DELETE", ("1", "0", "a"))
INSERTED = message("INSERT", ("1", "1", "moved"), source="r")


def test_a_row_that_left_for_a_server_that_published_nothing_of_it_stays_and_is_listed() -> None:
    """Lost: the whole row, of which only the last change was at the lost server."""
    answer, share = settled(GONE)
    assert (answer.unread, written(share)) == ({("1",): S}, NONE)
    assert [*unread_rows.listed(answer)] == [ForeignWrite(S, ("1",), Kind.UNREAD, NoChange.REFRESH)]


@pytest.mark.parametrize("messages", [(GONE, INSERTED), (INSERTED, GONE)])
def test_a_row_that_the_lost_server_published_is_as_it_said(messages: tuple[Message, ...]) -> None:
    """Lost: a write that was in Kafka, as the delete of the server that the row left came behind it."""
    answer, share = settled(*messages)
    assert (answer.unread, written(share)) == ({}, {"ds_0.t_0": {"1": None}, "ds_1.t_0": {"1": "moved"}})


def test_a_row_whose_delete_the_lost_server_published_is_deleted() -> None:
    before = message("INSERT", ("1", "1", "moved"), source="r")
    after = message("DELETE", ("1", "1", "moved"), source="r", transaction=11)
    answer, share = settled(before, after)
    assert (answer.unread, written(share)) == ({}, {"ds_1.t_0": {"1": None}})


def test_a_row_that_moved_within_the_lost_server_is_at_its_last_place() -> None:
    moved = replace(message("UPDATE", ("1", "0", "b"), source="r", transaction=11), old=({"shard": "1"},))
    answer, share = settled(INSERTED, moved)
    assert (answer.unread, written(share)["ds_0.t_0"]) == ({}, {"1": "b"})


def test_a_row_that_a_server_which_answers_has_is_carried_whatever_the_lost_one_said() -> None:
    """Lost: a write that was acknowledged at a server that is still there."""
    answer, share = settled(message("DELETE", ("1", "0", "a"), source="r"), held=True)
    assert (answer.unread, written(share)) == ({}, {"ds_0.t_0": {"1": None}, "ds_1.t_0": {"1": "at s"}})


def test_a_refresh_deletes_no_row_that_the_lost_server_may_have() -> None:
    answer, share = settled(refresh_message(replace(plain_table(), source="r"), [("1",)]))
    assert (answer.unread, written(share)) == ({("1",): R}, NONE)


def by_key(left: tuple[str, str, str]) -> Plan:
    """With a rule that tells by the key alone that key 1 belongs in this table, and others in the other one."""
    other = S if left == R else R
    spec = spec_of(
        {"nodes": "ds.t_${0..1}", "table": {"column": "id", "algorithm": "MOD", "props": {"sharding-count": 2}}}, "t"
    )
    belongs = Home(build_rule(spec, "t", {"id": "int"}), spec, (other, left), "sharding", binds=False)
    plan = grouped()
    plan.tables = {id_: replace(one, belongs=belongs) for id_, one in plan.tables.items()}
    plan._groups = {"all": [*plan.tables.values()]}
    plan._by_table = {key[1:]: planned for key, planned in plan.tables.items()}
    return plan


def test_a_row_whose_key_alone_says_that_it_was_at_the_server_that_deleted_it_is_deleted() -> None:
    """Lost: the deletes of tables that are sharded by their key, as a server was lost that never has such a row."""
    answer, share = settled(GONE, plan=by_key(S))
    assert (answer.unread, written(share)) == ({}, {"ds_0.t_0": {"1": None}})
    answer, share = settled(GONE, plan=by_key(R))
    assert (answer.unread, written(share)) == ({("1",): S}, NONE)
