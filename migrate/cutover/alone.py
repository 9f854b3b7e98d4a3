"""One cutover of a migration at a time, by a lease: what is done under it asks again whether it is still ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

import sqlalchemy as sa

from migrate.model.errors import OwnershipLost, PreflightError
from migrate.settings import Settings
from migrate.state.lease import Held, Leases

LEASE = "cutover"


@dataclass(frozen=True, slots=True)
class Alone:
    """The lease as it was taken."""

    leases: Leases
    held: Held

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


@contextmanager
def alone(settings: Settings, state: sa.Engine) -> Iterator[Alone]:
    """With the lease of cutovers. Raises PreflightError while another one has it."""
    with closing(Leases(state, settings.name, settings.lease.seconds, quiet=True).start()) as leases:
        held = leases.acquire(LEASE)
        if held is None:
            raise PreflightError(
                "another cutover is under way, or one was killed a moment ago",
                hint=f"wait {settings.lease.seconds:g} s after a kill; `migrate status` says where it stands",
            )
        yield Alone(leases, held)
