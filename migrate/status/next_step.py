"""The command to type next, chosen from the remedies of what holds a migration back."""

from __future__ import annotations

from collections.abc import Sequence

from migrate.model import process_names
from migrate.model.command import OF_WHO_LEADS, Command, Direction
from migrate.status.blocker import COPY, DRAIN, FOREIGN, PARKED, PREFLIGHT, REPAIR, RUN, VERIFY, WATCH, Blocker
from migrate.status.snapshot import Snapshot

_ORDER = (PARKED, COPY, FOREIGN, PREFLIGHT, DRAIN, WATCH, VERIFY, REPAIR)
"""Of remedies, the first that any blocker has: what is parked first, as nothing comes behind it; what a person has to
judge (`verify`) before what mends by itself (`verify --repair`)."""


def mend(now: Snapshot, blockers: Sequence[Blocker]) -> Command:
    """The command that mends what keeps copied tables from being at their target."""
    return missing(now) or min((one.remedy for one in blockers if one.remedy), key=_rank, default=REPAIR)


def _rank(remedy: Command) -> int:
    return _ORDER.index(COPY if remedy.name == COPY.name else remedy)


def missing(now: Snapshot, *, behind: bool = True) -> Command | None:
    """The command that starts what does not run; None when nothing is missing. behind: what is behind the topic too."""
    lacking = [
        Command(("publish", "--source", one.name))
        for one in now.sources
        if process_names.publisher(one.name) not in now.leading
    ]
    owners = [part.owner for part in now.partitions]
    if behind:
        working = {*now.leading, *(("consume",) if all(owners) else ())}
        needed = [
            "consume",
            *([process_names.REQUEUE] if now.returning else ()),
            *(one["process"] for one in now.halted),
        ]
        lacking += [Command((name,)) for name in needed if ":" not in name and name not in working]
    if not lacking:
        return None
    if now.ended:  # `migrate run` starts it again, by itself
        return PREFLIGHT
    return lacking[0] if now.leading or any(owners) else RUN


def typed(command: Command, *, back: bool, back_leads: bool) -> Command:
    """A command of a stream, as it is typed: a verification is run in the direction that leads, and settles both.

    back: of the reverse stream.
    """
    if command == FOREIGN:
        return command  # of both streams
    reverse = back_leads if command.name in OF_WHO_LEADS else back
    return command.towards(Direction.REVERSE) if reverse else command


def typed_remedy(one: Blocker, *, back: bool = False, back_leads: bool) -> str:
    """The remedy of a blocker as it is typed; "" where others come first. Otherwise as `typed`."""
    if one.remedy is None:
        return ""
    return str(typed(one.remedy, back=back or one.stream is Direction.REVERSE, back_leads=back_leads))
