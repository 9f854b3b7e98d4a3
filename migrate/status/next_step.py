"""The command that mends what keeps a stream from being at its target."""

from __future__ import annotations

from migrate.delay.requeue import LEASE as REQUEUE
from migrate.model.words import counted
from migrate.publish.publisher import lease_name
from migrate.state import stop_reason
from migrate.state.reached import Lost
from migrate.status.readiness import to_be_verified
from migrate.status.snapshot import Status
from migrate.verify.scheduled import PROCESS as CHECK

FOREIGN = "migrate foreign compare"
WATCH = "migrate status --watch"
"""Where nothing is to be done but to wait."""


def tables(names: list[str]) -> str:
    """How many, and the first of them by name."""
    return f"{counted(len(names), 'table')} ({', '.join(names[:3])}{' …' if len(names) > 3 else ''})"


def mend(now: Status, problems: list[str]) -> str:
    """The command that mends what keeps copied tables from being at their target."""
    if start := missing(now):
        return start
    if now.parked or now.skips or any(stop_reason.is_partition(one["process"]) for one in now.halted):
        return "migrate parked list"
    if copies := [one for one in now.lost if one.of_copy]:
        return of_lost(copies[0])
    if now.foreign:
        return FOREIGN
    if now.unanswered:
        return "migrate preflight"
    rest = set(problems) - set(to_be_verified(now))
    if rest and all(line.startswith(f"{CHECK} stands still") for line in rest):
        return WATCH  # it tries again by itself
    if rest:
        return "migrate drain"
    # of a server in doubt, or that came back with less, it is for a person to judge what differs
    judged = now.lost or any(source.doubt for source in now.sources)
    return "migrate verify" if judged else "migrate verify --repair"


def of_lost(one: Lost) -> str:
    """The command that brings what a database lost."""
    return f"migrate copy --table {one.what} --restart" if one.of_copy else "migrate verify"


def typed(command: str, *, back: bool, back_leads: bool) -> str:
    """A command of a stream, as it is typed: a verification is run in the direction that leads, and settles both.

    back: of the way back.
    """
    if command == FOREIGN:
        return command  # of both streams
    reverse = back_leads if command.startswith("migrate verify") else back
    return command.replace("migrate", "migrate --reverse", 1) if reverse else command


def missing(now: Status, *, behind: bool = True) -> str:
    """The command that starts what does not run; "" when nothing is missing. behind: also what is behind the topic."""
    lacking = [f"publish --source {one.name}" for one in now.sources if lease_name(one.name) not in now.leading]
    owners = [part.owner for part in now.partitions]
    if behind:
        working = {*now.leading, *(("consume",) if all(owners) else ())}
        needed = ["consume", *([REQUEUE] if now.returning else ()), *(one["process"] for one in now.halted)]
        lacking += [name for name in needed if ":" not in name and name not in working]
    if not lacking:
        return ""
    if now.ended:  # `migrate run` starts it again, by itself
        return "migrate preflight"
    return f"migrate {lacking[0]}" if now.leading or any(owners) else "migrate run"
