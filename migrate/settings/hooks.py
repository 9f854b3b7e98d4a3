"""`hooks`: executables of the user's that run before and after a phase; one that fails stops what it guards."""

from __future__ import annotations

from pydantic import Field

from migrate.settings.base import Seconds, Section

Hook = tuple[str, ...]
"""An executable and its arguments; () is none."""


class _OfPhases(Section):
    copy_: Hook = Field(default=(), alias="copy")
    verify: Hook = ()
    cutover: Hook = ()
    rollback: Hook = ()
    finish: Hook = ()


class Before(_OfPhases):
    step: Hook = ()
    """Each step of a cutover or a rollback, up to the switch."""


class After(_OfPhases):
    """Also where the phase failed, but for `step`."""

    step: Hook = ()
    """Each step of a cutover or a rollback, but for the switch."""


class PhaseHooks(Section):
    before: Before = Before()
    after: After = After()
    seconds: Seconds = 30.0
    """How long one may take."""
    environment: tuple[str, ...] = ()
    """Names of environment variables that they get, besides PATH, HOME, USER, LANG, TZ and the like."""
