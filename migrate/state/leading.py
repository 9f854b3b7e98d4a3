"""Which of the two streams leads: what reads one side as the truth must not run while applications are at the other."""

from __future__ import annotations

import sqlalchemy as sa

from migrate.model.errors import PreflightError
from migrate.state import cutover, switch
from migrate.state import migration as migrations
from migrate.state.switch import Side

OTHER = "the other direction is"
"""Begins a hint that names the other stream's command, as it is to be typed."""


def leads(connection: sa.Connection, name: str) -> bool:
    """Whether applications write at the sources of this migration, or of this way back."""
    of = migrations.reverse_of(connection, name)
    side = switch.get(connection, of or name).side
    return side is (Side.TARGET if of else Side.SOURCE)


def refuse_unless(connection: sa.Connection, name: str, what: str) -> None:
    """Raise PreflightError where what is read as the truth is the side that follows, and of a finished migration.

    what: a command's name.
    """
    migrations.refuse_finished(connection, name)
    if leads(connection, name):
        return
    back = migrations.reverse_of(connection, name)
    here, there = ("targets", "sources") if back else ("sources", "targets")
    raise PreflightError(
        f"`{what}` would read the {here}, and applications are at the {there}: newer rows would count as wrong",
        hint=f"{OTHER} `migrate {'' if back else '--reverse '}{what}`",
    )


def hold(connection: sa.Connection, name: str) -> None:
    """No cutover begins or switches until the transaction ends. For a migration, or its way back."""
    switch.get(connection, migrations.reverse_of(connection, name) or name, lock=True)


def refuse_now(connection: sa.Connection, name: str, what: str) -> None:
    """As `refuse_unless` and `refuse_in_cutover`, and it stays so until the transaction ends."""
    hold(connection, name)
    refuse_unless(connection, name, what)
    refuse_in_cutover(connection, name)


def refuse_in_cutover(connection: sa.Connection, name: str) -> None:
    """Raise PreflightError while a cutover is under way: what is asked for now could be done after its switch."""
    run = cutover.latest(connection, migrations.reverse_of(connection, name) or name)
    if run is not None and run.open:
        raise PreflightError("a cutover is under way", hint="once it is over; `migrate status` says where it stands")
