"""One cutover of a migration at a time, by a lease: what is done under it asks again whether it is still ours, and the
run still what it was."""

from __future__ import annotations

from contextlib import AbstractContextManager

import sqlalchemy as sa

from migrate.model.errors import PreflightError, ServerError
from migrate.settings import Settings
from migrate.state import cutover, switch, switch_lease
from migrate.state.cutover import Outcome
from migrate.state.switch import Side
from migrate.state.switch_lease import SwitchLease


def nobody_came(migration: str, side: Side, connection: sa.Connection) -> None:
    """Raises PreflightError when a run is under way, or applications are not at this side; no run begins before the
    commit."""
    here = switch.get(connection, migration, lock=True).side is side
    last = cutover.latest(connection, migration)
    if not here or (last is not None and last.open):
        raise PreflightError("another cutover is under way", hint="`migrate status` says where it stands")


def still_at(migration: str, run: int, outcome: Outcome, connection: sa.Connection) -> None:
    """Raises ServerError when somebody else has ended the run meanwhile; the next one may have begun. Until the commit
    nobody does."""
    if cutover.lock(connection, migration, run) is not outcome:
        raise ServerError(f"run {run} was ended by another process", hint="`migrate status` says where it stands")


def alone(settings: Settings, state: sa.Engine) -> AbstractContextManager[SwitchLease]:
    """With the lease of cutovers, which outlasts a freeze in which the state hangs: it was renewed at most a quarter of
    its time before. Raises PreflightError while another one has it."""
    seconds = max(settings.lease.seconds, settings.cutover.freeze_seconds * 4 / 3 + 1)
    return switch_lease.alone(settings.name, seconds, state, "`migrate status` says where it stands")
