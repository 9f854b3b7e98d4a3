"""`migrate preflight`, and what `migrate init` asks of it."""

from __future__ import annotations

from dataclasses import dataclass

from migrate.model.errors import PreflightError
from migrate.model.table import Table, TableId
from migrate.preflight.known import KnownFacts
from migrate.preflight.registry import CHECKS, FOR_INIT
from migrate.preflight.result import Result, problems
from migrate.preflight.runner import run_checks
from migrate.settings import Settings


@dataclass(frozen=True, slots=True)
class Report:
    """results: in the order of the checks. tables: whose definitions could be read. flavours: by source."""

    results: list[Result]
    tables: dict[TableId, Table]
    flavours: dict[str, str]

    @property
    def problems(self) -> list[Result]:
        return problems(self.results)

    def raise_first(self) -> None:
        """Raise PreflightError for the first problem, saying how many there are."""
        if found := self.problems:
            more = f" (and {len(found) - 1} more; see `migrate preflight`)" if len(found) > 1 else ""
            raise PreflightError(found[0].message + more, hint=found[0].mend)


def run(settings: Settings, *, services: bool = False, reverse: bool = False) -> Report:
    """Run every check.

    services: of the state server and Kafka too, and all that is advice, which init need not ask for; without it
    ServerError is raised when a source does not answer. reverse: the target tables have the rows already, applications
    write there, and a cutover is to come.
    """
    known = KnownFacts(settings, reverse=reverse, is_strict=not services)
    run_checks(known, CHECKS if services else FOR_INIT)
    return Report(known.results, known.tables, known.sources.flavours)
