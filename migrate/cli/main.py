"""The command line: every command, its options, and how errors are told."""

from __future__ import annotations

import sys
import traceback
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

from migrate.cli.bundle import bundle
from migrate.cli.copy import copy
from migrate.cli.cutover import cutover, finish, rollback, show_switch, web
from migrate.cli.explain import explain
from migrate.cli.foreign import foreign
from migrate.cli.options import Json, SourceOfTable, Table, Timeout, out, print_json
from migrate.cli.parked import parked
from migrate.cli.progress import Waiting
from migrate.cli.status import status
from migrate.cli.throttle import throttle
from migrate.cli.verify import check, verify
from migrate.commands import drain as draining
from migrate.commands import init as initialising
from migrate.commands import refresh as refreshing
from migrate.commands import repartition as repartitioning
from migrate.commands import rewind as rewinding
from migrate.cutover.way_back import way_back
from migrate.model.command import OF_WHO_LEADS, Command, Direction, as_typed
from migrate.model.errors import ConfigError, MigrateError
from migrate.model.words import counted
from migrate.preflight import run as preflights
from migrate.processes import entry, logs, supervisor
from migrate.processes.parent import follow_parent
from migrate.publish.compiled import compiled
from migrate.settings import Settings, load_with_text
from migrate.state import database
from migrate.state.position import Position
from migrate.terminal import printable

_INTERRUPTED = 130
"""Typer's exit code where Ctrl-C ends a command that has nothing to finish first."""
app = typer.Typer(
    name="migrate",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help=(
        "Move MySQL and MariaDB tables to many databases and tables while the application keeps writing.\n\n"
        "First migration: preflight → init → run (keeps running) → copy → drain → verify.\n\n"
        "Exit codes: 0 done, 1 differences found, 2 config, 3 preflight, 4 server, 5 stopped at something unknown,"
        " 6 another process took over, 7 a cutover gave writes back, 70 a defect in this program."
    ),
)
app.add_typer(parked, name="parked")
app.add_typer(foreign, name="foreign")
app.command()(copy)
app.command()(explain)
app.command()(verify)
app.command()(bundle)
app.command()(check)
app.command()(throttle)
app.command()(cutover)
app.command()(rollback)
app.command()(finish)
app.command("switch")(show_switch)
app.command()(web)
app.command()(status)


class _Context:
    """The config file, read when a command first needs it; with `reverse`, as the way back has it."""

    def __init__(self, path: Path, reverse: bool = False) -> None:
        self.path = path
        self.reverse = reverse
        self.rollback = False  # whose stream is the way back, of the migration itself
        self._loaded: tuple[Settings, str] | None = None

    def meant(self, hint: str) -> str:
        """A hint that names commands, as they are to be typed for what was loaded."""
        return as_typed(hint, self._typed) if self._loaded else hint

    def _typed(self, command: Command) -> Command:
        back = command.name in OF_WHO_LEADS if self.rollback else self.reverse
        return command.towards(Direction.REVERSE) if back else command

    @property
    def reverse_of(self) -> str:
        """The migration whose way back is meant; "" when none is."""
        return load_with_text(self.path)[0].name if self.reverse else ""

    def load(self, process: str = "") -> Settings:
        if self._loaded is None:
            settings, text = load_with_text(self.path)
            self._loaded = way_back(settings) if self.reverse else settings, text
        logs.configure(self._loaded[0].logging, f"reverse:{process}" if self.reverse and process else process)
        return self._loaded[0]

    @property
    def text(self) -> str:
        return self._loaded[1] if self._loaded else ""


_typed: list[_Context] = []
"""Of the command line that was read last; errors leave typer's own context behind."""


def _version(asked: bool) -> None:
    if asked:
        out.print(f"migrate {metadata.version('migrate')}, publisher {'compiled' if compiled() else 'in plain Python'}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    config: Annotated[
        Path,
        typer.Option(
            "--config", "-c", envvar="MIGRATE_CONFIG", help="The migration's YAML file; see config/example.yaml."
        ),
    ] = Path("migrate.yaml"),
    reverse: Annotated[
        bool,
        typer.Option(
            "--reverse/--forward",
            help="The way back, from the targets into the sources (docs/cutover.md), or the way there.",
        ),
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    _typed.append(_Context(config, reverse))
    context.obj = _typed[-1]


@app.command()
def preflight(context: typer.Context, as_json: Json = False) -> None:
    """Look at sources, tables, targets, state and Kafka; say what must be mended, and how. Leaves nothing behind."""
    settings = context.obj.load()
    report = preflights.run(settings, services=True, way_back=bool(context.obj.reverse_of))
    if as_json:
        rows = [
            {"check": r.check, "subject": r.subject, "verdict": r.verdict, "message": r.message, "mend": r.mend}
            for r in report.results
        ]
        print_json({"ok": not report.problems, "results": rows})
    else:
        told = ""
        for result in report.results:
            out.print(f"{result.verdict:>14}  {result.message}", markup=False)
            if result.mend and result.mend != told:
                out.print(f"{'':16}→ {result.mend}", markup=False)
            told = result.mend
    if report.problems:
        raise typer.Exit(3)


@app.command()
def init(context: typer.Context) -> None:
    """Create the state database, the topics and the target tables. Running it again changes nothing that is there."""
    settings = context.obj.load()
    done = initialising.initialise(settings, context.obj.text, out.print, reverse_of=context.obj.reverse_of)
    following = "`migrate --reverse run`" if context.obj.reverse else "`migrate run`, then `migrate copy`"
    out.print(f"migration {settings.name} is ready; next: {following}")
    tables, topics = counted(done.tables_created, "target table"), counted(done.topics_created, "topic")
    out.print(f"{tables} and {topics} created")


@app.command()
def run(context: typer.Context) -> None:
    """Run every process of the migration under one supervisor, until SIGTERM or Ctrl-C."""
    settings = context.obj.load("run")
    names = ", ".join(supervisor.process_names(settings))
    out.print(f"supervising {names}; logs in {settings.run_dir / 'logs'}")
    sys.stdout.flush()
    supervisor.run(settings, context.obj.path, ["--reverse"] if context.obj.reverse else [])


@app.command()
def publish(
    context: typer.Context,
    source: Annotated[str | None, typer.Option(help="Which source; needed when there are several.")] = None,
    place: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Publish again from an earlier place: binlog.000012:4711, a GTID set, or 2026-01-31T12:00:00Z.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="With --from: do not ask.")] = False,
    clear_batches: Annotated[
        bool,
        typer.Option("--clear-batches", help="Only forget the batches that a killed publisher left in `status`."),
    ] = False,
) -> None:
    """Publish one source's binlog to the topic."""
    settings = context.obj.load()
    if source is None and len(settings.sources) > 1:
        names = ", ".join(item.name for item in settings.sources)
        raise ConfigError("there are several sources", hint=f"choose one with --source: {names}")
    name = settings.source(source or settings.sources[0].name).name
    settings = context.obj.load(f"publish:{name}")
    if clear_batches:
        with database.opened(settings.state) as state:
            forgotten = rewinding.clear_batches(settings, state, name)
        out.print(f"{counted(forgotten, 'batch', 'batches')} forgotten")
        return
    if place is not None:
        with database.opened(settings.state) as state:
            rewinding.rewind(settings, state, name, place, lambda *positions: yes or _confirm_rewind(*positions))
    follow_parent()
    entry.publish(settings, name)


def _confirm_rewind(before: Position, after: Position) -> bool:
    out.print(
        f"source {before.source} is published to {before.file}:{before.pos}. Everything from"
        f" {after.file}:{after.pos} on would be published again: rows at the target go back, and forward again."
    )
    return sys.stdin.isatty() and typer.confirm("Go back?")


@app.command()
def consume(context: typer.Context) -> None:
    """Read the topic, record every message, merge and write to the target."""
    follow_parent()
    entry.consume(context.obj.load("consume"))


@app.command()
def commit(context: typer.Context) -> None:
    """Commit the offsets of consumed messages, and clean up old records."""
    follow_parent()
    entry.commit(context.obj.load("commit"))


@app.command()
def requeue(context: typer.Context) -> None:
    """Bring deletes that found nothing back when their delay is over."""
    follow_parent()
    entry.requeue(context.obj.load("requeue"))


@app.command()
def drain(
    context: typer.Context,
    timeout: Timeout = 600.0,
    as_json: Json = False,
) -> None:
    """Wait until everything the sources have logged up to now is at the target."""
    settings = context.obj.load("drain")
    waiting = Waiting()
    with database.opened(settings.state) as state:
        now = draining.drain(settings, state, timeout, lambda now: waiting.say(draining.left(now)))
    if as_json:
        print_json({**now.as_dict(), "drained": True})
    else:
        out.print(
            f"drained: {counted(now.rows_applied, 'row change')} applied, "
            + ("none waiting" if now.drained else f"since then {draining.left(now)}")
        )


@app.command()
def refresh(
    context: typer.Context,
    table: Table,
    keys: Annotated[
        list[str],
        typer.Argument(metavar="KEY...", help="""Keys of rows; of several columns as a JSON list: '["7", "eu"]'."""),
    ],
    source: SourceOfTable = None,
    timeout: Timeout = 60.0,
) -> None:
    """Read single rows at the source again, and write or delete them wherever they may be at the target."""
    settings = context.obj.load("refresh")
    with database.opened(settings.state) as state:
        count = refreshing.refresh(settings, state, table, keys, source, timeout)
    out.print(f"{count} {'row' if count == 1 else 'rows'} of {table} refreshed")


@app.command()
def repartition(
    context: typer.Context,
    partitions: Annotated[int, typer.Argument(help="How many there shall be; more than there are.")],
    topic: Annotated[str | None, typer.Option(help="Which topic; needed when there are several.")] = None,
) -> None:
    """Give a topic more partitions. Only while nothing runs and everything published is at the target."""
    settings = context.obj.load("repartition")
    with database.opened(settings.state) as state:
        now = repartitioning.repartition(settings, state, partitions, topic)
    out.print(f"topic {now.name} has {counted(now.partitions, 'partition')}; next: `migrate run`")


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; every MigrateError is one line and an exit code."""
    try:
        app(arguments, standalone_mode=True)
    except MigrateError as error:
        sys.stdout.flush()
        hint = _typed[-1].meant(error.way_out) if _typed else error.way_out
        sys.stderr.write(printable(f"migrate: {error.message}\n  hint: {hint}\n"))
        raise SystemExit(error.exit_code) from None
    except SystemExit as ended:
        if ended.code == _INTERRUPTED:
            sys.stderr.write("migrate: ended by Ctrl-C\n")
        raise
    except Exception:
        traceback.print_exc()  # a defect; its exit code must not look like an outcome
        raise SystemExit(MigrateError.exit_code) from None
