"""One cutover, DDL run or change of tables of a migration at a time, by a lease: what is done under it asks again
whether it is still ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

import sqlalchemy as sa

from migrate.model import process_names
from migrate.model.errors import OwnershipLost, PreflightError
from migrate.state.lease import HeldLease, Leases


class Busy(PreflightError):  # noqa: N818 - it says what is so
    """Another process has the lease, or left what is to be ended first."""


@dataclass(frozen=True, slots=True)
class SwitchLease:
    """The lease as it was taken."""

    leases: Leases
    held: HeldLease

    def still_ours(self, connection: sa.Connection) -> None:
        """In a state transaction, until that commits. Raises OwnershipLost."""
        self.leases.still_ours(connection, self.held)

    @property
    def unexpired(self) -> bool:
        """Whether nobody else can have it, by this machine's clock alone."""
        try:
            self.leases.check(self.held.name)
        except OwnershipLost:
            return False
        return True


@contextmanager
def alone(migration: str, seconds: float, state: sa.Engine, look: str) -> Iterator[SwitchLease]:
    """With the lease, which lasts so many seconds without its holder.

    look: what tells who has it, for the hint. Raises PreflightError while another process has it.
    """
    with closing(Leases(state, migration, seconds, quiet=True).start()) as leases:
        held = leases.take(process_names.CUTOVER)
        if held is None:
            raise Busy(
                "another cutover, DDL run or init that changes tables is under way, or one was killed a moment ago",
                hint=f"wait {seconds:g} s after a kill; {look}",
            )
        yield SwitchLease(leases, held)
