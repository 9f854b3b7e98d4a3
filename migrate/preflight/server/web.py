"""`migrate web`: whose tokens acknowledge (decision 0033)."""

from __future__ import annotations

from migrate.preflight.result import Result, Verdict
from migrate.settings import Settings
from migrate.settings.web import SHARED, SHARED_REMEDY


def check(settings: Settings) -> list[Result]:
    """A note where one token acknowledges for every instance."""
    return [Result("web", "web.token", Verdict.NOTE, SHARED, SHARED_REMEDY)] if settings.web.is_shared else []
