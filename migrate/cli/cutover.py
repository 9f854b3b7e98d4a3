"""`migrate cutover`, `migrate rollback`, `migrate finish`, `migrate switch` and `migrate web`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from migrate.cli.options import Json, out, print_json
from migrate.commands import cutover_run
from migrate.commands import finish as finishing
from migrate.cutover.journal import CutoverReport
from migrate.model.errors import ConfigError, PreflightError
from migrate.model.words import counted
from migrate.processes.parent import follow_parent
from migrate.state import database, switch
from migrate.state import migration as migrations
from migrate.state.cutover import SwitchDirection
from migrate.web import serve

Rehearse = Annotated[
    bool, typer.Option("--rehearse", help="Run every step that does not block writes, and estimate the freeze.")
]
Freeze = Annotated[
    bool,
    typer.Option(
        "--freeze",
        help="With --rehearse: also block writes, measure the freeze, and allow writes again. Does not switch.",
    ),
]
Abort = Annotated[
    bool, typer.Option("--abort", help="Allow writes again after a run that was killed before its switch.")
]
Without = Annotated[
    list[str] | None,
    typer.Option(
        metavar="SERVER",
        help="Continue without a server that is lost for good; its last writes are lost too. The default is a dry run,"
        " which shows the last place whose writes are kept. Repeatable.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="With --without: apply. The default is a dry run.")]


def _command(direction: SwitchDirection, name: str, told: str) -> Callable[..., None]:
    """A command that moves applications. told: its help."""

    def command(
        context: typer.Context,
        rehearse: Rehearse = False,
        freeze: Freeze = False,
        abort: Abort = False,
        without: Without = None,
        yes: Yes = False,
        as_json: Json = False,
    ) -> None:
        _go(context, direction, _Asked(rehearse, freeze, abort, tuple(without or ()), yes, as_json))

    command.__name__, command.__doc__ = name, told
    return command


cutover = _command(
    SwitchDirection.TO_TARGETS,
    "cutover",
    "Switch applications to the targets: block writes at the sources, drain, compare, switch, allow writes.",
)
rollback = _command(
    SwitchDirection.TO_SOURCES,
    "rollback",
    "Switch applications back to the sources. Nothing that was written at the targets is lost.",
)


@dataclass(frozen=True, slots=True)
class _Asked:
    """The options of `migrate cutover` and `migrate rollback`."""

    rehearse: bool
    freeze: bool
    abort: bool
    without: tuple[str, ...]
    yes: bool
    as_json: bool

    def check(self) -> None:
        """Raises ConfigError for options that exclude each other."""
        named = {"--rehearse": self.rehearse, "--abort": self.abort, "--without": bool(self.without)}
        given = [name for name, there in named.items() if there]
        if len(given) > 1 and given != ["--abort", "--without"]:
            raise ConfigError(f"{given[0]} and {given[1]} exclude each other")
        if self.freeze and not self.rehearse:
            raise ConfigError("--freeze goes with --rehearse only")
        if self.yes and not self.without:
            raise ConfigError("--yes goes with --without only")


def _go(context: typer.Context, direction: SwitchDirection, asked: _Asked) -> None:
    if context.obj.reverse:
        raise ConfigError("`migrate cutover` and `migrate rollback` take no --reverse", hint="leave out --reverse")
    asked.check()
    settings = context.obj.load("cutover")
    context.obj.rollback = direction is SwitchDirection.TO_SOURCES

    def say(line: str) -> None:
        if not asked.as_json:
            out.print(line, markup=False)

    with database.opened(settings.state) as state:
        if asked.abort:
            cutover_run.abort(settings, state, say, asked.without)
            say("writes are given back; applications are where they were")
            return
        if asked.without:
            delivered, notes = cutover_run.delivered(settings, state, direction, asked.without, say)
            for server, upto in delivered.items():
                say(f"'{server}': {upto} is kept; what it took after that is lost")
            if not asked.yes:
                for note in notes:
                    say(note)
                say("nothing was changed; --yes applies it, without a comparison")
                if asked.as_json:
                    print_json({"delivered": delivered, "notes": notes})
                return
        report = cutover_run.switch_over(
            *(settings, state, context.obj.path, direction, say),
            rehearse=asked.rehearse,
            freeze=asked.freeze,
            without=asked.without,
        )
    if asked.as_json:
        print_json(asdict(report) if report is not None else {"finished": "an earlier run"})
    else:
        _told(report)


def _told(report: CutoverReport | None) -> None:
    if report is None:
        out.print("the rest of an earlier run is done: applications are switched")
        return
    for note in report.notes:
        out.print(note, markup=False)
    parts = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in report.parts.items())
    if report.measured:
        out.print(
            f"ready; nobody could write for {report.freeze_seconds:.2f} s ({parts}); writes are given back, and nothing"
            " was switched"
        )
        return
    if report.rehearsed:
        out.print(f"ready; the freeze would take about {report.freeze_seconds:.1f} s ({parts})")
        return
    side, way = ("targets", "rollback") if report.direction is SwitchDirection.TO_TARGETS else ("sources", "cutover")
    out.print(
        f"switched: applications are at the {side}; nobody could write for {report.freeze_seconds:.2f} s ({parts})"
    )
    out.print(f"{counted(report.keys, 'key')} compared inside; `migrate {way}` moves applications back")


def finish(
    context: typer.Context,
    yes: Annotated[bool, typer.Option("--yes", help="Apply. The default is a dry run.")] = False,
    abandon: Annotated[
        bool, typer.Option("--abandon", help="Give the migration up while applications are at the sources.")
    ] = False,
    keep_topics: Annotated[bool, typer.Option("--keep-topics", help="Keep its topics in Kafka.")] = False,
    unread: Annotated[
        bool, typer.Option("--unread", help="Finish even if changes made at the sources have not reached the targets.")
    ] = False,
    without: Annotated[
        list[str] | None,
        typer.Option(metavar="SERVER", help="Do not clean up a server that is lost for good. Repeatable."),
    ] = None,
    as_json: Json = False,
) -> None:
    """End a migration for good: rollback becomes impossible, the records for an audit stay, the rest is removed."""
    if context.obj.reverse:
        raise ConfigError("a migration is finished with its reverse stream", hint="say it without --reverse")
    settings = context.obj.load("finish")

    def say(line: str) -> None:
        if not as_json:
            out.print(line, markup=False)

    with database.opened(settings.state) as state:
        plans = finishing.finish(
            *(settings, state, say),
            abandon=abandon,
            keep_topics=keep_topics,
            do=yes,
            unread=unread,
            without=without or (),
        )
    if as_json:
        print_json(asdict(plans))
        return
    if not plans.done:
        where = ", ".join(f"{database} ({target})" for target, database in plans.databases)
        say(f"applications stay at the {plans.side}s, and there will be no rollback")
        say(f"the service's tables leave: {where}")
        say(f"topics deleted: {', '.join(plans.topics) or 'none'}")
    for block in plans.blocks:
        say(f"{block.side} '{block.server}': writes stay stopped ({block.method}), until: {'; '.join(block.ending)}")
    if plans.parked:
        told = f"the sources refused {counted(plans.parked, 'change')} of the targets"
        say(f"{told}: `migrate --reverse parked list` names what the sources lack")
    say("finished" if plans.done else f"nothing was changed; `migrate finish {plans.options}` does it")


def web(context: typer.Context) -> None:
    """Serve the operator's page, the metrics and the applications' switch over HTTP."""
    follow_parent()
    serve(context.obj.load("web"), context.obj.path, lambda address: out.print(f"listening on {address}"))


def show_switch(
    context: typer.Context,
    forget: Annotated[
        str | None,
        typer.Option(metavar="INSTANCE", help="Remove an application process that is gone for good from the list."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the switch that applications read, and the version that each application process acknowledged."""
    settings = context.obj.load("switch")
    with database.opened(settings.state) as state, state.begin() as connection:
        migrations.get(connection, settings.name, finished=True)
        if forget is not None and not switch.forget_application(connection, settings.name, forget):
            raise PreflightError(f"no application is known as '{forget}'", hint="`migrate switch` lists them")
        now = switch.get(connection, settings.name)
        known = switch.every_application(connection, settings.name)
    if as_json:
        print_json({"switch": asdict(now), "applications": [asdict(one) for one in known]})
        return
    out.print(f"version {now.version}: applications are at the {now.side}, writes are {now.writes}")
    for one in known:
        out.print(f"{one.instance}: version {one.version}, seen {one.seen} UTC", markup=False)
