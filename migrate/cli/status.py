"""`migrate status`: where the migration stands as a whole, and each part of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Annotated, Any

import sqlalchemy as sa
import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from migrate.cli.options import Json, out, print_json
from migrate.model.errors import ConfigError, MigrateError
from migrate.model.words import counted
from migrate.settings import Settings
from migrate.state import database
from migrate.status import blockers, ended_migration, snapshot_reading, told, unlike_tables
from migrate.status.facts import standing
from migrate.status.next_step import typed_remedy
from migrate.status.snapshot import Snapshot
from migrate.status.stage import StageStatus
from migrate.status.told_check import shown_check
from migrate.status.told_copy import told_copy
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
        sys.stderr.write(printable(f"migrate: {error.message}\n  hint: {context.obj.meant(error.way_out)}\n"))
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
                live.update(Printable(Text(f"{error.message}\n  {error.way_out}")), refresh=True)
            time.sleep(_SECONDS)


def _frame(
    settings: Settings, state: sa.Engine, ended: dict[str, Any] | None, asked: Any, unlike: unlike_tables.Named
) -> RenderableType:
    if ended is not None:
        return Text(ended_migration.told(ended))
    now = snapshot_reading.read(settings, state, whoever_answers=True)
    return page(now, None if asked.reverse else standing(settings, state, now, unlike), asked.meant)


def page(now: Snapshot, stands: StageStatus | None, meant: Callable[[str], str]) -> RenderableType:
    """Everything, for a terminal. stands: None for a reverse stream; meant: a hint with this stream's commands."""
    lines: list[RenderableType] = []

    def say(line: str) -> None:
        lines.append(Text(line))

    if stands is not None:
        say(f"stage: {stands.stage}" + (f"; next: `{stands.next}`" if stands.next else ""))
        for one in stands.held:
            say(f"  held back: {told.told(one)}")
    say(f"migration {now.migration}, topic {', '.join(now.topics)}, lag {now.lag_seconds:.1f} s")
    for source in now.sources:
        behind = "caught up" if source.caught_up else "behind" if source.log_end else source.problem
        published = source.published or "nothing yet"
        say(f"source {source.name}: published {published}, log at {source.log_end or '?'}: {behind}")
        if source.outstanding["batches"]:
            count, ids = source.outstanding["batches"], [str(batch[0]) for batch in source.outstanding["first"]]
            listed = f"number {ids[0]}" if count == 1 else f"the first are {', '.join(ids)}"
            say(
                f"source {source.name}: {counted(count, 'batch', 'batches')},"
                f" {counted(source.outstanding['rows'], 'row')}, not confirmed by Kafka at the last flush; {listed}"
            )
        if source.replaying:
            say(f"source {source.name}: replays; rows may go back until {source.replaying} is published again")
        if source.doubt:
            way = "`migrate drain`, then `migrate verify`, all tables, in the direction that leads"
            say(f"IN DOUBT {source.name}: {source.doubt}\n        → {way}")
    if now.plain:
        say(f"not encrypted: {', '.join(now.plain)}")
    for problem in now.unanswered:
        say(f"NO ANSWER: {problem}")
    parts = Table("topic", "partition", "consumed to", "topic end", "waiting", "rows applied", "consumer")
    for part in now.partitions:
        cells = (part.topic, part.partition, part.consumed, part.end, part.waiting, part.rows, part.owner or "none")
        parts.add_row(*(str(cell) for cell in cells))
    lines.append(parts)
    if now.leading:
        say("running: " + ", ".join(f"{name} ({who})" for name, who in now.leading.items()))
    say("records: " + ", ".join(f"{count} {name}" for name, count in now.records.items()))
    say(f"empty deletes waiting: {now.empty_deletes}" + (" at those that answer" if now.unanswered else ""))
    if now.forgotten:
        say(f"compared: nothing, since {now.forgotten['since']} because {now.forgotten['because']}")
    if now.waiting_markers:
        say(f"foreign keys: {counted(now.waiting_markers, 'marker')} until the copy of the table is closed")
    for lost in now.lost:
        say(meant(f"LOST: {lost}; `{blockers.of_lost(lost)}`"))
    if now.foreign:
        say(f"FOREIGN: {told.foreign(now.foreign)}")
    if now.parked:
        say(meant(f"PARKED: {now.parked} changes that the target refuses; `migrate parked list` names them"))
    if now.skips:
        say(meant(f"SKIPS what is refused of {counted(now.skips, 'key')}; `migrate parked list` names them"))
    if now.left_out:
        since = f", {now.left_out_since} of them since the last clean verification of all tables began"
        count = f"LEFT OUT: {counted(now.left_out, 'message')}{since if now.left_out_since < now.left_out else ''}"
        say(meant(f"{count}; `migrate parked list` names them"))
    for topic in sorted(now.gone):
        say(f"GONE topic {topic}: the broker does not have it")
    for name, phase in now.tables.items():
        say(f"table {name}: {phase}{told_copy(now.copies.get(name), phase)}")
    for row in now.oversized:
        say(
            f"LEFT OUT {row['operation']} of {row['database']}.{row['table']} key {row['key']} at"
            f" {tuple(row['coordinate'])}: its message has"
            f" {row['size']} bytes; "
            + (
                "a verification of all tables that began later was clean"
                if row["verified"]
                else "the target lacks the row or has an older one, unless it came again since (see `migrate verify`)"
            ),
        )
    for line in shown_check(now.check):
        say(line)
    for halted in now.halted:
        since = "" if halted["since"] == halted["at"] else f", last tried at {halted['at']}"
        say(
            f"STOPPED {halted['process']} since {halted['since']}{since}: {halted['reason']}"
            f"\n        → {meant(halted['hint'])}"
        )
    for ended in now.ended:
        say(f"ENDED {ended['process']} at {ended['at']}, `migrate run` starts it again: {ended['reason']}")
        say(f"        → {meant(ended['hint']) or 'its log, below run_dir, says more'}")
    return Group(*lines)
