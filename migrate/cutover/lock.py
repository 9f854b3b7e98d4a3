"""One cutover of a migration at a time, by a lease: what is done under it asks again whether it is still ours, and the
run still what it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

import sqlalchemy as sa

from migrate.model import process_names
from migrate.model.errors import OwnershipLost, PreflightError, ServerError
from migrate.settings import Settings
from migrate.state import cutover, switch
from migrate.state.cutover import Outcome
from migrate.state.lease import HeldLease, Leases
from migrate.state.switch import Side


@dataclass(frozen=True, slots=True)
class CutoverLease:
    """The lease as it was taken."""

    leases: Leases
    held: HeldLease

    def still_ours(self, connection: sa.Connection) -> None:
        """In a state transaction, until that commits. Raises OwnershipLost."""
        self.leases.still_ours(connection, self.held)

    @property
    def surely(self) -> bool:
        """Whether nobody else can have it, by this machine's clock alone."""
        try:
            self.leases.check(self.held.name)
        except OwnershipLost:
            return False
        return True


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


@contextmanager
def alone(settings: Settings, state: sa.Engine) -> Iterator[CutoverLease]:
    """With the lease of cutovers. Raises PreflightError while another one has it."""
    with closing(Leases(state, settings.name, settings.lease.seconds, quiet=True).start()) as leases:
        held = leases.acquire(process_names.CUTOVER)
        if held is None:
            raise PreflightError(
                "another cutover, or an init that changes tables, is under way, or one was killed a moment ago",
                hint=f"wait {settings.lease.seconds:g} s after a kill; `migrate status` says where it stands",
            )
        yield CutoverLease(leases, held)
