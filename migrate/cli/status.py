"""`migrate status`: where the migration stands as a whole, and each part of it."""

from __future__ import annotations

import sys
import time
from typing import Annotated, Any

import sqlalchemy as sa
import typer
from rich.console import RenderableType
from rich.live import Live
from rich.text import Text

from migrate.cli.options import Json, out, print_json
from migrate.cli.status_page import page
from migrate.model.errors import ConfigError, MigrateError
from migrate.settings import Settings
from migrate.state import database
from migrate.status import blockers, ended_migration, snapshot_reading, told, unlike_tables
from migrate.status.facts import standing
from migrate.status.next_step import typed_remedy
from migrate.status.snapshot import Snapshot
from migrate.status.stage import StageStatus
from migrate.status.verdict import Verdict, verdict
from migrate.terminal import Printable, console, printable

_SECONDS = 2.0


def status(
    context: typer.Context,
    watch: Annotated[
        bool, typer.Option("--watch", help="Refresh it on the screen until Ctrl-C or the end of the migration.")
    ] = False,
    as_json: Json = False,
    exit_code: Annotated[
        bool,
        typer.Option("--exit-code", help="Exit with 0 where all is well, 1 where a person is needed, 2 if unknown."),
    ] = False,
) -> None:
    """Show where the migration stands, what holds it back, and which command to run next."""
    if watch and (as_json or exit_code):
        raise ConfigError(f"--watch and {'--json' if as_json else '--exit-code'} exclude each other")
    settings = context.obj.load("status")
    try:
        found = _shown(settings, context.obj, watch=watch, as_json=as_json)
    except MigrateError as error:
        if not exit_code:
            raise
        sys.stderr.write(printable(f"migrate: {error.message}\n  hint: {context.obj.meant(error.hint)}\n"))
        found = Verdict.UNKNOWN
    if exit_code:
        raise typer.Exit(found)


def _shown(settings: Settings, asked: Any, *, watch: bool, as_json: bool) -> Verdict:
    """Print it; whether a person is needed."""
    with database.opened(settings.state) as state:
        if watch:
            _watch(settings, state, asked)
            return Verdict.FINE
        ended = ended_migration.read(settings, state)
        if ended is not None:
            print_json(ended) if as_json else out.print(ended_migration.told(ended), markup=False)
            return Verdict.PERSON if ended["next"] else Verdict.FINE
        now = snapshot_reading.read(settings, state, whoever_answers=True)
        stands = None if asked.reverse else standing(settings, state, now)
    if as_json:
        print_json(as_document(now, stands))
    else:
        out.print(page(now, stands, asked.meant))
    return verdict(stands.held if stands else blockers.of_stream(settings, now))


def as_document(now: Snapshot, stands: StageStatus | None) -> dict[str, Any]:
    """What `--json` prints. stands: None for a reverse stream."""
    return {**(_about(stands) if stands else {}), **now.as_dict()}


def _about(stands: StageStatus) -> dict[str, Any]:
    """For programs: the sentences, and what they are made of."""
    return {
        "stage": stands.stage,
        "holds_back": [told.told(one) for one in stands.held],
        "blockers": [
            {**one.as_dict(), "remedy": typed_remedy(one, back_leads=stands.back_leads)} for one in stands.held
        ],
        "next": str(stands.next or ""),
    }


def _watch(settings: Settings, state: sa.Engine, asked: Any) -> None:
    """Redraws until the migration is finished; servers that are away for a while are told, and asked again."""
    unlike = unlike_tables.kept()
    with Live(console=console(highlight=False), auto_refresh=False) as live:
        while True:
            try:
                ended = ended_migration.read(settings, state)
                live.update(Printable(_frame(settings, state, ended, asked, unlike)), refresh=True)
                if ended is not None and not ended["next"]:
                    return
            except MigrateError as error:
                live.update(Printable(Text(f"{error.message}\n  {error.hint}")), refresh=True)
            time.sleep(_SECONDS)


def _frame(
    settings: Settings, state: sa.Engine, ended: dict[str, Any] | None, asked: Any, unlike: unlike_tables.Named
) -> RenderableType:
    if ended is not None:
        return Text(ended_migration.told(ended))
    now = snapshot_reading.read(settings, state, whoever_answers=True)
    return page(now, None if asked.reverse else standing(settings, state, now, unlike), asked.meant)
