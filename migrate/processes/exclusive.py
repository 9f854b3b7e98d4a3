"""Standing in for every process of a migration, for what must not happen beside one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager

import sqlalchemy as sa

from migrate.model import process_names
from migrate.model.errors import PreflightError
from migrate.settings import Settings
from migrate.state import migration as migrations
from migrate.state.lease import Leases
from migrate.state.migration import Migration


@contextmanager
def for_everyone(
    settings: Settings, state: sa.Engine, known: Migration, hint: str, sources: Iterable[str] = ()
) -> Iterator[Leases]:
    """Hold every process's lease, so that none runs meanwhile; and that of cutovers, which would take these for running
    processes.

    sources: further ones, that the config does not have any more. Raises PreflightError, with the hint, when one runs.
    """
    with state.connect() as connection:
        of = migrations.reverse_of(connection, settings.name) or settings.name
    read = sorted({*sources, *(source.name for source in settings.sources)})
    names = [process_names.publisher(source) for source in read]
    names += [*process_names.SINGLE, *(partition.lease for partition in known.partitions)]
    with (
        closing(Leases(state, of, settings.lease.seconds, quiet=True).start()) as cutovers,
        closing(Leases(state, settings.name, settings.lease.seconds, quiet=True).start()) as leases,
    ):
        for taken, name in [(cutovers, process_names.CUTOVER), *((leases, name) for name in names)]:
            if taken.take(name) is None:
                raise PreflightError(f"a process still runs: the lease '{name}' is held", hint=hint)
        yield leases
