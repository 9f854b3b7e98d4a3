"""`migrate status` on one screen: what is shown of how much, and in which order. Costs no server."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from migrate.cli.status_page import MOST, page
from migrate.model.command import Command
from migrate.status.blocker import Blocker, Kind
from migrate.status.snapshot import PartitionStatus, Snapshot
from migrate.status.stage import Stage, StageStatus
from migrate.status.table_state import TableState
from tests.status.test_stage import snapshot

STANDS = StageStatus(Stage.COPYING, [Blocker(Kind.COPY_RUNS)], Command.of("status --watch"))


def found_by(**changes: Any) -> Snapshot:
    return snapshot(check={"last": None}, **changes)


def shown(now: Snapshot, stands: StageStatus | None = STANDS, **options: Any) -> list[str]:
    written = StringIO()
    Console(file=written, width=160, **options).print(page(now, stands, str))
    return written.getvalue().splitlines()


def tables(copied: int, copying: int) -> dict[str, TableState]:
    states = [TableState.COPIED] * copied + [TableState.COPYING] * copying
    return {f"shop.t_{number}": state for number, state in enumerate(states)}


def partitions(count: int, waiting: int) -> list[PartitionStatus]:
    one = PartitionStatus("shop", 0, 5, 5, 5, 10, "host:1")
    return [replace(one, partition=n, end=12 if n < waiting else 5) for n in range(count)]


def test_the_stage_is_first_and_the_next_command_last() -> None:
    lines = shown(found_by())
    assert (lines[0], lines[-1]) == ("stage: copying", "next: `migrate status --watch`")
    assert lines[1].startswith("  held back: ")
    alone = shown(found_by(), None)
    assert alone[0].startswith("migration shop")
    assert not [line for line in alone if line.startswith("next")]


def test_of_some_tables_and_partitions_each_has_its_line() -> None:
    lines = shown(found_by(tables=tables(MOST - 1, 1), partitions=partitions(MOST, 1)))
    assert len([line for line in lines if line.startswith("table shop.t_")]) == MOST
    assert len([line for line in lines if "host:1" in line and line.startswith("│")]) == MOST


@pytest.mark.parametrize("count", [MOST + 1, 1000])
def test_of_many_tables_those_that_are_not_copied_are_named_and_the_others_counted(count: int) -> None:
    lines = shown(found_by(tables=tables(count - 2, 2)))
    assert f"tables: {count}, {count - 2} copied, 2 copying" in lines
    assert [line for line in lines if line.startswith("table ")] == [
        f"table shop.t_{count - 2}: copying",
        f"table shop.t_{count - 1}: copying",
    ]


def test_of_many_tables_that_are_not_copied_the_first_are_named_and_the_rest_counted() -> None:
    lines = shown(found_by(tables=tables(0, MOST + 30)))
    assert len([line for line in lines if line.startswith("table shop.t_")]) == MOST
    assert "  and 30 tables more; `migrate status --json` has all" in lines


def test_of_many_partitions_those_with_messages_and_without_a_consumer_are_shown() -> None:
    found = partitions(64, waiting=2)
    found[50] = replace(found[50], owner="")
    lines = shown(found_by(partitions=found))
    assert "partitions: 64, 1 without a consumer; 14 messages waiting, 640 rows applied" in lines
    assert [line.split("│")[2].strip() for line in lines if line.startswith("│")] == ["0", "1", "50"]
    assert not [line for line in shown(found_by(partitions=partitions(64, 0))) if line.startswith("│")]


def test_a_terminal_shows_what_needs_a_person_in_a_colour_and_a_file_has_none() -> None:
    now = found_by(unanswered=["Kafka is away"])
    coloured = shown(now, force_terminal=True, color_system="standard")
    assert "\x1b[1;31mNO ANSWER: Kafka is away\x1b[0m" in coloured
    assert "\x1b" not in "".join(shown(now))
