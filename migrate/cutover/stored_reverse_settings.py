"""The reverse stream's settings, from the config and what `migrate init` stored."""

from __future__ import annotations

from migrate.cutover.reverse_settings import reversed_settings
from migrate.settings import Settings
from migrate.state import database
from migrate.target.stored_plan import stored_plan


def stored_reverse_settings(settings: Settings) -> Settings:
    """The settings with source and target exchanged. Raises PreflightError before init, ConfigError, ServerError."""
    with database.opened(settings.state) as state:
        return reversed_settings(settings, stored_plan(settings, state))
