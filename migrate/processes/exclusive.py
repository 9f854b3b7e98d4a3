"""Standing in for every process of a migration, for what must not happen beside one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager

import sqlalchemy as sa

from migrate.model import process_names
from migrate.model.errors import PreflightError
from migrate.settings import Settings
from migrate.state.lease import Leases
from migrate.state.migration import Migration


@contextmanager
def for_everyone(
    settings: Settings, state: sa.Engine, known: Migration, hint: str, sources: Iterable[str] = ()
) -> Iterator[Leases]:
    """Hold every process's lease, so that none runs meanwhile.

    sources: further ones, that the config does not have any more. Raises PreflightError, with the hint, when one runs.
    """
    read = sorted({*sources, *(source.name for source in settings.sources)})
    names = [process_names.publisher(source) for source in read]
    names += [*process_names.SINGLE, *(partition.lease for partition in known.partitions)]
    with closing(Leases(state, settings.name, settings.lease.seconds, quiet=True).start()) as leases:
        for name in names:
            if leases.acquire(name) is None:
                raise PreflightError(f"a process still runs: the lease '{name}' is held", hint=hint)
        yield leases
