"""`migrate new`: the questions, and the options that answer them."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from migrate.cli.options import out
from migrate.commands.new_config import FORM, SOURCE, TARGET, Account, Answers, new_config, tables_of
from migrate.commands.new_config_channels import read_channels
from migrate.model.errors import ConfigError

_Targets = Annotated[
    list[str] | None, typer.Option("--target", help="Server that takes rows, written as the source is. Repeatable.")
]
_NAME = re.compile(r"[A-Za-z0-9_-]{1,48}")


def new(
    context: typer.Context,
    name: Annotated[str | None, typer.Option(help="The migration's name: letters, digits, _ and -.")] = None,
    source: Annotated[
        str | None, typer.Option(help=f"The server that has the tables, as {FORM}.", show_default=False)
    ] = None,
    target: _Targets = None,
    state: Annotated[
        str | None,
        typer.Option(help="The server for the service's own state; else the first target."),
    ] = None,
    kafka: Annotated[str | None, typer.Option(help="Kafka's brokers, as host:port,host:port.")] = None,
    table: Annotated[
        list[str] | None,
        typer.Option("--table", help="Table to move, as database.table, or a pattern with * and ?. Repeatable."),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option("--column", help="The column to shard a table by, as database.table=column. Repeatable."),
    ] = None,
    whole: Annotated[
        list[str] | None, typer.Option("--whole", help="Table (or pattern) that is not sharded. Repeatable.")
    ] = None,
    databases: Annotated[
        int | None, typer.Option(min=1, max=1024, help="Shard databases in all. Default: 4, or one a target.")
    ] = None,
    tables_each: Annotated[int | None, typer.Option(min=1, max=1024, help="Shard tables in each. Default: 4.")] = None,
    shard_from: Annotated[
        int, typer.Option(min=0, help="Rows below which a table stays whole; 0 shards every table.")
    ] = 10_000,
    tls: Annotated[
        str | None,
        typer.Option(
            help="For every server: verify, off, or the PEM file of the authority that its certificate is checked with."
        ),
    ] = None,
    password_command: Annotated[
        str | None,
        typer.Option(help="Program that prints the password, with {host}, {port} and {user} for the server's own."),
    ] = None,
    kafka_security: Annotated[
        list[str] | None,
        typer.Option(
            "--kafka-security",
            help="Option of kafka.security, as option=value; a secret as 'option=${VARIABLE}'. Repeatable.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file if it exists.")] = False,
) -> None:
    """Write a config file for a new migration, with sharding rules that spread the real rows; no password is in it."""
    path: Path = context.obj.path
    if path.exists() and not force:
        raise ConfigError(f"{path} exists", hint="choose another file with --config, or overwrite it with --force")
    passwords = _Passwords()
    called = _asked(name, "--name", "Name of the migration", "shop")
    if not _NAME.fullmatch(called):
        raise ConfigError(f"--name: '{called}' is not made of up to 48 letters, digits, _ and -")
    from_ = Account.read(_asked(source, "--source", "Source (user@host:port)"), "--source", SOURCE)
    channels = read_channels(tls, password_command, kafka_security or ())
    found = tables_of(from_, passwords.of, channels) if _is_terminal() and not table else []
    to = [Account.read(one, "--target", TARGET) for one in _several(target, "--target", "Targets (user@host:port …)")]
    answers = Answers(
        name=called,
        source=from_,
        targets=to,
        state=Account.read(state, "--state", "STATE_PASSWORD") if state else to[0],
        bootstrap=_asked(kafka, "--kafka", "Kafka (host:port,host:port)"),
        tables=_several(table, "--table", f"Tables ({_shown(found)})", _all_of(found)),
        columns=dict(_column(one) for one in column or ()),
        whole=whole or (),
        databases=_number(databases, "Shard databases in all", max(4, len(to))),
        tables_each=_number(tables_each, "Shard tables in each", 4),
        shard_from=shard_from,
        channels=channels,
    )
    made = new_config(answers, passwords.of)
    _write(path, made.text, force)
    for one in made.tables:
        out.print(f"{one.name}: {one.told}", markup=False)
    unset = [variable for variable in made.variables if variable not in os.environ]
    out.print(f"{path} is written; next: {_exports(unset)}`migrate{_config(path)} preflight`", markup=False)


class _Passwords:
    """From the environment; where a variable is not set, a terminal is asked, and the answer goes nowhere else."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def of(self, variable: str) -> str:
        """Raises ConfigError."""
        found = os.environ.get(variable) or self._known.get(variable)
        if found is None and _is_terminal():
            found = self._known[variable] = str(typer.prompt(f"Password ({variable} is not set)", hide_input=True))
        if found is None:
            raise ConfigError(
                f"environment variable {variable} is not set", hint=f"export {variable}=... before the command"
            )
        return found


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _asked(given: str | None, option: str, question: str, default: str | None = None) -> str:
    if given is not None:
        return given
    if not _is_terminal():
        raise ConfigError(f"{option} is missing, and there is no terminal to ask at", hint=f"add {option}")
    return str(typer.prompt(question, default=default))


def _several(given: list[str] | None, option: str, question: str, default: str | None = None) -> list[str]:
    return list(given) if given else _asked(None, option, question, default).replace(",", " ").split()


def _number(given: int | None, question: str, default: int) -> int:
    if given is not None or not _is_terminal():
        return default if given is None else given
    return int(typer.prompt(question, default=default, type=int))


def _column(text: str) -> tuple[str, str]:
    table, sign, column = text.rpartition("=")
    if not sign or "." not in table or not column:
        raise ConfigError(f"--column: '{text}' is not written as database.table=column")
    return table, column


def _shown(tables: list[str]) -> str:
    some = ", ".join(tables[:8])
    return f"there are {some}{' …' if len(tables) > 8 else ''}" if tables else "database.table"


def _all_of(tables: list[str]) -> str | None:
    """The pattern for all of one database, where there is one alone."""
    databases = {one.partition(".")[0] for one in tables}
    return f"{databases.pop()}.*" if len(databases) == 1 else None


def _write(path: Path, text: str, force: bool) -> None:
    """Raises ConfigError."""
    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from None


def _config(path: Path) -> str:
    return "" if path == Path("migrate.yaml") else f" --config {path}"


def _exports(unset: list[str]) -> str:
    return f"set {', '.join(unset)}, then " if unset else ""
