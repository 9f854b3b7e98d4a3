"""The command line: every command, its options, and how errors are told."""

from __future__ import annotations

import gc
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module, metadata
from pathlib import Path
from typing import Annotated

import typer

from migrate.cli.options import out
from migrate.model.command import OF_WHO_LEADS, Command, Direction, as_typed
from migrate.model.errors import MigrateError
from migrate.processes import logs
from migrate.publish.compiled import compiled
from migrate.settings import Settings, load_with_text
from migrate.terminal import printable

_INTERRUPTED = 130
"""Typer's exit code where Ctrl-C ends a command that has nothing to finish first."""
_HELP = (
    "Move MySQL and MariaDB tables to many databases and tables while the application keeps writing.\n\n"
    "First migration: new → preflight → init → run (keeps running) → copy → drain → verify.\n\n"
    "Exit codes: 0 done, 1 differences found, 2 config, 3 preflight, 4 server, 5 stopped at something unknown,"
    " 6 another process took over, 7 a cutover gave writes back, 70 a defect in this program."
)
PANELS = {
    "Set up": {"new": "new", "preflight": "set_up", "init": "set_up", "bundle": "bundle"},
    "Run": dict.fromkeys(("run", "publish", "consume", "commit", "requeue"), "processes") | {"check": "verify"},
    "Copy and verify": {"copy": "copy", "throttle": "throttle", "drain": "stream", "verify": "verify"},
    "Look": {"status": "status", "doctor": "doctor", "explain": "explain", "switch": "cutover", "alarms": "alarms"},
    "Switch": dict.fromkeys(("web", "cutover", "rollback", "finish"), "cutover"),
    "Repair": {"ddl": "ddl", "refresh": "stream", "parked": "parked", "foreign": "foreign", "repartition": "stream"},
}
"""Every command with its module, by what people do, in the order in which they do it."""
_FUNCTIONS = {"switch": "show_switch"}
_WITH_VALUE = ("--config", "-c")


def build(only: str | None = None) -> typer.Typer:
    """The program; with one command alone where that is known, as the modules of all take a second to load."""
    app = typer.Typer(name="migrate", no_args_is_help=True, pretty_exceptions_enable=False, help=_HELP)
    app.callback()(_options)
    for panel, commands in PANELS.items():
        for name, module in commands.items():
            if only not in (None, name):
                continue
            command = getattr(import_module(f"migrate.cli.{module}"), _FUNCTIONS.get(name, name))
            if isinstance(command, typer.Typer):
                app.add_typer(command, rich_help_panel=panel)
            else:
                app.command(name, rich_help_panel=panel)(command)
    return app


def named(arguments: Sequence[str]) -> str | None:
    """The command of a command line; None where none is there, or it is not known."""
    words = iter(arguments)
    for word in words:
        if word in _WITH_VALUE:
            next(words, None)
        elif not word.startswith("-"):
            return word if any(word in commands for commands in PANELS.values()) else None
        elif word not in ("--reverse", "--forward") and not word.startswith("--config="):
            return None
    return None


class _Context:
    """The config file, read when a command first needs it; with `reverse`, as the reverse stream has it."""

    def __init__(self, path: Path, reverse: bool = False) -> None:
        self.path = path
        self.reverse = reverse
        self.rollback = False  # whose stream is the reverse stream, of the migration itself
        self._loaded: tuple[Settings, str] | None = None

    def meant(self, hint: str) -> str:
        """A hint that names commands, as they are to be typed for what was loaded."""
        return as_typed(hint, self._typed) if self._loaded else hint

    def _typed(self, command: Command) -> Command:
        back = command.name in OF_WHO_LEADS if self.rollback else self.reverse
        return command.towards(Direction.REVERSE) if back else command

    @property
    def reverse_of(self) -> str:
        """The migration whose reverse stream is meant; "" when none is."""
        return load_with_text(self.path)[0].name if self.reverse else ""

    def load(self, process: str = "") -> Settings:
        if self._loaded is None:
            settings, text = load_with_text(self.path)
            self._loaded = self._reversed(settings) if self.reverse else settings, text
        logs.configure(self._loaded[0].logging, f"reverse:{process}" if self.reverse and process else process)
        return self._loaded[0]

    @staticmethod
    def _reversed(settings: Settings) -> Settings:
        found: Settings = import_module("migrate.cutover.stored_reverse_settings").stored_reverse_settings(settings)
        return found

    @property
    def text(self) -> str:
        return self._loaded[1] if self._loaded else ""


_typed: list[_Context] = []
"""Of the command line that was read last; errors leave typer's own context behind."""


def _version(asked: bool) -> None:
    if asked:
        out.print(f"migrate {metadata.version('migrate')}, publisher {'compiled' if compiled() else 'in plain Python'}")
        raise typer.Exit


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
            help="The reverse stream, from the targets to the sources (docs/rollback.md), or the forward stream.",
        ),
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    _typed.append(_Context(config, reverse))
    context.obj = _typed[-1]


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; every MigrateError is one line and an exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        gc.disable()  # see migrate.__main__
        program = build("" if given == ["--version"] else named(given))
        gc.enable()
        program(arguments, standalone_mode=True)
    except MigrateError as error:
        sys.stdout.flush()
        hint = _typed[-1].meant(error.hint) if _typed else error.hint
        sys.stderr.write(printable(f"migrate: {error.message}\n  hint: {hint}\n"))
        raise SystemExit(error.exit_code) from None
    except SystemExit as ended:
        if ended.code == _INTERRUPTED:
            sys.stderr.write("migrate: ended by Ctrl-C\n")
        raise
    except Exception:
        traceback.print_exc()  # a defect; its exit code must not look like an outcome
        raise SystemExit(MigrateError.exit_code) from None
