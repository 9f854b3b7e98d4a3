"""Broadcast tables: nodes, columns that their servers fill, and copies at other sources. Costs 1 s on each flavour."""

from __future__ import annotations

from typing import Any

import pytest

from migrate.cutover.reverse_settings import reversed_settings
from migrate.model.table import Table, TableId
from migrate.preflight.result import Result, Verdict
from migrate.preflight.schema import broadcast
from migrate.target.broadcast import notes_of_lost, notes_of_rollback
from migrate.target.routing import Plan, PlannedTable
from tests.helpers import int_column, make_settings, plan_of
from tests.preflight.support import Case, one, session

ACCOUNT = {"user": "u", "password": "p"}
NODES = ["ds_1.t", "ds_0.t"]  # the first is not the first by name


def planned(*sources: str) -> Plan:
    """A broadcast table of the first source, and a table of each other one."""
    raw: dict[str, Any] = {
        "sources": [{"name": name, "host": "h", "port": port, **ACCOUNT} for port, name in enumerate(sources, 1)],
        "targets": [{"name": f"t{number}", "host": "i", "port": number, **ACCOUNT} for number in (1, 2)],
        "databases": {f"ds_{number}": {"target": f"t{number + 1}", "database": "shop"} for number in (0, 1)},
        "tables": [
            {"name": "shop.t", "source": sources[0], "sharding": {"broadcast": NODES}},
            *({"name": "shop.u", "source": name, "sharding": {"nodes": f"ds_0.u_{name}"}} for name in sources[1:]),
        ],
    }
    names = zip(sources, ("t", *"u" * (len(sources) - 1)), strict=True)
    made = [Table(source, "shop", name, (int_column("id"),), ("id",)) for source, name in names]
    return plan_of(*made, settings=make_settings(**raw))


def reverse(plan: Plan) -> Plan:
    settings = reversed_settings(plan.settings, plan)
    tables: dict[TableId, Table] = {}
    for wanted in settings.tables:
        id_ = (settings.source_of(wanted), wanted.database, wanted.table)
        tables[id_] = Table(*id_, (int_column("id"),), ("id",))
    return Plan(settings, tables)


def told(found: list[Result]) -> list[tuple[str, str]]:
    assert {result.verdict for result in found} <= {Verdict.NOTE}
    return [(result.message, result.mend) for result in found]


def test_the_nodes_are_named_with_the_one_that_the_reverse_stream_reads() -> None:
    forward = planned("s")
    ((message, mend),) = told([*broadcast.check(forward)])
    assert message.startswith("shop.t has every row at each of 2 nodes: t2/shop.t, t1/shop.t; the reverse stream will")
    assert "read the first, t2/shop.t" in message
    assert mend.endswith("name the nodes under `broadcast`")
    ((message, _),) = told([*broadcast.check(reverse(forward))])
    assert "nodes: t2/shop.t, t1/shop.t; the reverse stream reads the first, t2/shop.t" in message


@pytest.mark.parametrize("back", [False, True])
def test_copies_at_other_sources_are_old_after_a_cutover(back: bool) -> None:
    """Lost after a rollback: what the application of sharded sources would read there."""
    plan = planned("a", "b", "c")
    _, (message, mend) = told([*broadcast.check(reverse(plan) if back else plan)])
    assert "shop.t is written at source 'a' alone" in message or "writes shop.t at source 'a' alone" in message
    assert message.endswith(": what b, c may have of it stays as it was at the cutover")
    assert "give it the same rows there before a rollback" in mend


def test_columns_that_each_nodes_server_fills_are_named(case: Case) -> None:
    """Lost: that nodes are equal after the switch, as only AUTO_INCREMENT was told."""
    made = "made DATETIME(3) NOT NULL DEFAULT NOW(3)"
    case.at_source(f"ALTER TABLE t ADD {made}, ADD seen DATETIME NULL ON UPDATE NOW(), ADD same INT DEFAULT 1")

    def filled(table: PlannedTable) -> list[Result]:
        with session(case.box.source) as connection:
            return [*broadcast.check_filled(connection, table)]

    assert filled(case.table()) == []
    case.raw["tables"][0]["sharding"] = {"broadcast": NODES}
    found = one([one for one in case.report(services=True).results if "fills in" in one.message])
    ((message, mend),) = told([found])
    assert "each of 2 nodes fills in a value of its own for the same row: `made` DEFAULT " in message
    assert "`seen` ON UPDATE" in message
    assert "AUTO_INCREMENT" not in message
    assert "same`" not in message
    assert "have the application give these columns' values in its statements" in mend


def test_a_rollback_names_copies_that_are_old() -> None:
    assert [*notes_of_rollback(reverse(planned("a")))] == []
    (note,) = notes_of_rollback(reverse(planned("a", "b", "c")))
    assert note.startswith("the reverse stream wrote a/shop.t alone: what b, c may have")


def test_a_rollback_without_the_server_of_the_first_node_names_the_nodes_that_have_its_last_rows() -> None:
    """Lost: these rows, by a repair that takes them for wrong ones."""
    plan = reverse(planned("s"))
    (note,) = notes_of_lost(plan, ["t2"])
    assert "shop.t: what 't2' had not sent of this broadcast table is at t1/shop.t: run `migrate verify` before" in note
    assert [*notes_of_lost(plan, ["t1"])] == [*notes_of_lost(plan, ["t1", "t2"])] == []
