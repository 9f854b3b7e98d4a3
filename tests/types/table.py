"""`make types`: works the matrix through on both flavours and prints it. Exit status 1 when anything differs.

A number is how many cells of that kind were compared and equal in all three: at the source, at the target through
the stream, and at the target through the copy. A dash stands where a type has no such value.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sandbox.broker import KafkaBroker
from sandbox.paths import run_dir
from sandbox.settings import Flavour
from sandbox.stack import Sandbox
from tests.types.matrix import LABELS
from tests.types.outcome import Cell, Outcome, names, work_through


def filled(flavour: str, outcome: Outcome) -> Table:
    """The matrix of one flavour."""
    table = Table("type", *LABELS, title=f"{flavour}: cells equal at source, through the stream and through the copy")
    for name in names(outcome):
        table.add_row(escape(name), *(_shown(outcome.cells.get((name, label))) for label in LABELS))
    return table


def _shown(cell: Cell | None) -> str:
    if cell is None:
        return "–"
    ways = [(way, len(found)) for way, found in (("stream", cell.stream), ("copy", cell.copy)) if found]
    if not ways:
        return str(cell.compared)
    return f"[red]{', '.join(f'{way} {wrong} of {cell.compared}' for way, wrong in ways)}[/]"


def main() -> int:
    """Print both matrices; the exit status."""
    console = Console(width=None if sys.stdout.isatty() else 132)
    status = 0
    run_dir().mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="types-", dir=run_dir()) as root:
        directory = Path(root)
        broker = KafkaBroker(directory / "kafka")
        broker.start()
        try:
            for flavour in os.environ.get("FLAVOURS", "mariadb,mysql").split(","):
                with Sandbox(Flavour(flavour), directory / flavour, targets=1, kafka=False, keep=False) as box:
                    outcome = work_through(box, broker, directory / f"{flavour}-run")
                console.print(filled(flavour, outcome))
                for line in outcome.differences():
                    console.print(escape(f"{flavour}: {line}"), style="red")
                compared = sum(cell.compared for cell in outcome.cells.values())
                console.print(
                    f"{flavour}: {len(names(outcome))} types, {compared} cells compared,"
                    f" {len(outcome.differences())} differences\n"
                )
                status |= not outcome.ok
        finally:
            broker.kill()
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
