"""`migrate verify` and `migrate check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from migrate.cli.options import Json, Tables, out, print_json
from migrate.cli.progress import RowsBar
from migrate.cutover import phase_hooks as hooks
from migrate.model.change import key_json
from migrate.model.errors import ConfigError, DifferenceFound, PreflightError
from migrate.model.words import counted
from migrate.processes import entry
from migrate.processes.parent import follow_parent
from migrate.settings import Settings
from migrate.state import database, phase, verification
from migrate.state.phase import Phase
from migrate.status.snapshot_reading import standing_of_check
from migrate.status.told_check import shown_check
from migrate.target.stored_plan import stored_plan
from migrate.verify import certificate as certificates
from migrate.verify import certificate_page, quick_modes
from migrate.verify.quick_modes import Mode

_SAMPLED = 20  # chunks of each table, where it is not said


def verify(
    context: typer.Context,
    table: Tables = None,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair", help="Repair rows that differ: read them at the source again, write them, and compare again."
        ),
    ] = False,
    anew: Annotated[
        bool,
        typer.Option(
            "--anew", help="Start from the beginning instead of resuming a verification that was stopped or killed."
        ),
    ] = False,
    mode: Annotated[
        Mode | None,
        typer.Option(
            help="Compare only a part, without Spark: chunks in key order, a random sample, or counts and last keys."
        ),
    ] = None,
    chunks: Annotated[
        int | None, typer.Option(help="With --mode order or sample: maximum number of chunks of each table.", min=1)
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Only print the last certificate; compares nothing.")] = False,
    page: Annotated[
        Path | None,
        typer.Option("--page", help="Also write the certificate to this HTML file; with --show the last certificate."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare source and target row by row, with Spark. Exit code 1 if rows differ; their keys are shown.

    A verification that was stopped or killed is resumed.
    """
    settings = context.obj.load("verify")
    if page is not None:
        if mode is not None:
            raise ConfigError("--mode makes no certificate", hint="`migrate verify --page FILE` compares every row")
        certificate_page.check_file(page)
    if show:
        _show_last(settings, as_json, page)
        return
    if chunks is not None and mode not in (Mode.ORDER, Mode.SAMPLE):
        raise ConfigError(
            "--chunks needs --mode order or sample", hint="without --mode every chunk is compared, with it only some"
        )
    if mode is not None:
        if anew:
            raise ConfigError("--mode keeps no progress that --anew could drop", hint="leave --anew out")
        if repair:
            raise ConfigError("--mode only compares", hint="`migrate verify --repair` compares every row and repairs")
        _look(settings, mode, table, chunks, as_json)
        return
    from jobs import verify as job  # pyspark is slow to import

    with hooks.around(settings, hooks.Phase.VERIFY) as facts:
        _tell_not_copied(settings, table)
        with RowsBar("verifying") as bar:

            def progress(step: job.VerifyProgress) -> None:
                bar.update(step.table, step.rows, step.rows_estimate)

            result = job.run(settings, table, progress, repair=repair, anew=anew)
        facts["differences"] = str(result.total)
    if page is not None:
        certificate_page.write_page(result.certificate, page)
    if as_json:
        print_json(result.as_dict())
    else:
        out.print(result.summary(), markup=False)
    result.raise_first()


def _tell_not_copied(settings: Settings, chosen: list[str] | None) -> None:
    """As what a copy has not brought yet is looked at again and again before it counts as missing."""
    with database.opened(settings.state) as state, state.connect() as connection:
        stages = phase.every(connection, settings.name)
    names = {f"{schema}.{name}": stage for (_, schema, name), stage in stages.items()}
    left = [name for name, stage in names.items() if stage is not Phase.COPIED and (not chosen or name in chosen)]
    if left:
        told = f"{', '.join(left[:3])}{' …' if len(left) > 3 else ''}"
        typer.echo(f"not copied yet, so rows will be missing: {told} (`migrate copy`)", err=True)


def _show_last(settings: Settings, as_json: bool, page: Path | None) -> None:
    with database.opened(settings.state) as state, state.connect() as connection:
        last = verification.latest(connection, settings.name)
        paper = verification.certificate(connection, last.id) if last else None
    if paper is None:
        raise PreflightError(f"migration '{settings.name}' was never verified to the end", hint="`migrate verify`")
    if page is not None:
        certificate_page.write_page(paper, page)
    if as_json:
        print_json(paper)
    else:
        out.print(certificates.page(paper), markup=False)


def _look(settings: Settings, mode: Mode, table: list[str] | None, chunks: int | None, as_json: bool) -> None:
    wanted = chunks or (_SAMPLED if mode is Mode.SAMPLE else None)
    with database.opened(settings.state) as state:
        report = quick_modes.run(settings, stored_plan(settings, state), state, mode, table, wanted)
    if as_json:
        print_json(report.as_dict())
    else:
        for line in report.lines():
            out.print(line, markup=False)
    report.raise_first()


def check(
    context: typer.Context,
    once: Annotated[bool, typer.Option("--once", help="Run once and exit; exit code 1 if rows differ.")] = False,
    as_json: Json = False,
) -> None:
    """Compare copied chunks every two minutes, without Spark, and record differences in the state."""
    settings = context.obj.load("check")
    if not once:
        follow_parent()
        entry.check(settings)
        return
    done = entry.check_once(settings)
    with database.opened(settings.state) as state, state.connect() as connection:
        now = standing_of_check(connection, stored_plan(settings, state))
    if as_json:
        print_json(now)
    else:
        out.print("\n".join(shown_check(now)), markup=False)
    if done.differences:
        first = now["named"][0]
        raise DifferenceFound(
            f"{counted(done.differences, 'difference')}; first: {first['table']} key {key_json(first['key'])}"
            f" {first['kind']}",
            hint="`migrate status --json` names them",
        )
