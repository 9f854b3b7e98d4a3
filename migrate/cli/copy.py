"""The command `migrate copy`."""

from __future__ import annotations

from typing import Annotated

import typer

from migrate.cli.options import Json, Tables, out, print_json
from migrate.cli.progress import RowsBar
from migrate.cli.throttle import told_copied
from migrate.copy.recopy import Recopy
from migrate.cutover.phase_hooks import Phase, around
from migrate.model.words import counted


def copy(
    context: typer.Context,
    table: Tables = None,
    restart: Annotated[
        bool,
        typer.Option(
            "--restart", help="With --table: copy the table again from its first row. Rows at the target stay."
        ),
    ] = False,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="SQL",
            help="With --table, once it is copied: copy only the rows again that meet this SQL condition, evaluated at"
            " the source. TIMESTAMP columns and NOW() are in UTC.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Copy every row that the sources have now, with Spark. Resumes where an earlier run stopped."""
    from jobs import full_copy  # pyspark is slow to import; only this command needs it

    settings = context.obj.load("copy")
    once_more = Recopy(restart, where)
    with around(settings, Phase.COPY), RowsBar("copying") as bar:

        def progress(step: full_copy.CopyProgress) -> None:
            bar.update(step.table, step.rows_read, step.rows_estimate, step.more())

        result = full_copy.run(settings, table, progress, once_more, lambda: bar.say("starting Spark"))
    if as_json:
        print_json(result.as_dict())
        return
    for one in result.tables:
        out.print(told_copied(one), markup=False)
        if one.counts.parked:
            told = f"PARKED: the target refuses {counted(one.counts.parked, 'row')} of {one.table}"
            out.print(f"{told}; `migrate parked list` names them")
    out.print(
        f"copied {counted(result.rows_read, 'row')} in {result.seconds:.1f} s, {result.rows_per_second:.0f} rows/s"
    )
    out.print("next: `migrate drain`, then `migrate verify`")
