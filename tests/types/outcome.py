"""What became of each value of the matrix: source, stream and copy compared cell by cell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.types.matrix import cases_of
from tests.types.special import special_tables
from tests.types.ways import UPDATED, Rows, Ways, Wide, streamed, wide_tables

CellKey = tuple[str, str]
"""A case's name and a value's label."""


@dataclass
class Cell:
    """A type's values of one label: how many were compared, and where one way did not give what the source holds."""

    compared: int = 0
    stream: list[str] = field(default_factory=list)
    copy: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return self.compared > 0 and not self.stream and not self.copy


@dataclass
class Outcome:
    """Of one flavour. cells: one for each label a type has values of; others: what is wrong with whole tables."""

    cells: dict[CellKey, Cell] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.others and all(cell.ok for cell in self.cells.values())

    def differences(self) -> list[str]:
        """One line each."""
        found = list(self.others)
        for (name, label), cell in self.cells.items():
            found += [f"{name}, {label}: stream, {line}" for line in cell.stream]
            found += [f"{name}, {label}: copy, {line}" for line in cell.copy]
        return found


def work_through(
    box: Sandbox, kafka: KafkaBroker, directory: Path, copy: Callable[[Ways], None] = Ways.copy
) -> Outcome:
    """The whole matrix on both ways; `copy` brings the rows by the second."""
    outcome = Outcome()
    tables = [*wide_tables(cases_of(box.flavour)), *special_tables()]
    with streamed(box, kafka, directory, tables) as ways:
        truth = {table.name: ways.truth(table) for table in tables}
        stream = {table.name: ways.found(table) for table in tables}
        outcome.others += unequal(ways.checksums(), "stream")
        copy(ways)
        outcome.others += unequal(ways.checksums(), "copy")
        for table in tables:
            judge(outcome, table, truth[table.name], stream[table.name], ways.found(table))
    return outcome


def unequal(checksums: dict[str, tuple[object, object]], way: str) -> list[str]:
    return [f"{table}: {way}, CHECKSUM TABLE differs" for table, (ours, theirs) in checksums.items() if ours != theirs]


def judge(outcome: Outcome, table: Wide, truth: Rows, stream: Rows, copy: Rows) -> None:
    """Add a table's cells. Rows that are missing or should not be are among `others`."""
    expected = {*range(table.rows), *range(UPDATED, UPDATED + table.rows)}
    for way, keys in (("source", truth.keys()), ("stream", stream.keys()), ("copy", copy.keys())):
        if keys != expected:
            outcome.others.append(f"{table.name}: {way}, keys {sorted(keys ^ expected)} are missing or too much")
    for key in sorted(truth.keys() & stream.keys() & copy.keys()):
        row = key if key < UPDATED else (key - UPDATED or table.rows) - 1
        shown = [(case.name, *table.value(case, row)) for case in table.cases]
        shown += [(name, "odd" if row else "null", definition) for name, definition in table.generated.items()]
        for index, (name, label, sql) in enumerate(shown):
            cell = outcome.cells.setdefault((name, label), Cell())
            cell.compared += 1
            for wrong, found in ((cell.stream, stream), (cell.copy, copy)):
                if found[key][index] != truth[key][index] or (truth[key][index] is None) != (label == "null"):
                    wrong.append(f"{sql[:60]}: {_short(found[key][index])} for {_short(truth[key][index])}")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) < 100 else f"{text[:90]}… ({len(text)})"


def names(outcome: Outcome) -> Sequence[str]:
    """The types in the order of the matrix."""
    return list(dict.fromkeys(name for name, _ in outcome.cells))
