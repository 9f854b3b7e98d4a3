"""`migrate bundle`: the program for spark-submit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from migrate.cli.options import out


def bundle(
    directory: Annotated[Path, typer.Argument(help="Where to; made when it is not there.")] = Path("spark"),
) -> None:
    """Write migrate.zip, full_copy.py and verify.py as spark-submit takes them. Needs no config file."""
    from jobs.bundle import bundle as write

    for file in write(directory):
        out.print(str(file), markup=False)
