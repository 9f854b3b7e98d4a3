"""`migrate bundle`: the program for spark-submit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from migrate.cli.options import out


def bundle(
    directory: Annotated[Path, typer.Argument(help="The folder to write to; created if it does not exist.")] = Path(
        "spark"
    ),
) -> None:
    """Write migrate.zip, full_copy.py and verify.py for spark-submit. Needs no config file."""
    from jobs.bundle import bundle as write

    for file in write(directory):
        out.print(str(file), markup=False)
