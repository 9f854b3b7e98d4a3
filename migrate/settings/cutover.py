"""How a cutover stops writes, and what it may cost."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from migrate.settings.base import Positive, Seconds, Section


class Hooks(Section):
    """Executables with their arguments, to which `close` or `open` and the side are added."""

    writes: tuple[str, ...] = ()
    """Stops writes of applications, and gives them back."""
    seconds: Seconds = 30.0
    """How long one may take."""
    environment: tuple[str, ...] = ()
    """Names of environment variables that it gets, besides PATH, HOME, USER, LANG, TZ and the like."""


class Cutover(Section):
    stop: Literal["read_only", "revoke", "application", "hook"] = "read_only"
    """How writes are stopped at the side that is left."""
    accounts: tuple[str, ...] = ()
    """The applications' accounts, as user@host: with `revoke` those whose writes are taken; with `read_only` none of
    them may have a right that it does not stop."""
    max_lag_seconds: Seconds = 5.0
    """A cutover does not begin while the stream is further behind."""
    freeze_seconds: Seconds = 10.0
    """For how long nobody may write at most; then writes are given back."""
    wait_seconds: float = Field(default=2.0, ge=0)
    """How long open transactions are waited for before they are ended."""
    acknowledge_seconds: Seconds = 5.0
    """With `application`: how long an application may take to say that it has stopped."""
    verified_within_hours: Annotated[float, Field(gt=0)] = 24.0
    """How long ago the last clean verification of all tables may have begun, for a cutover; rollbacks ask for none."""
    max_keys: Positive = 200_000
    """Keys that changed since the last verification and are compared before the freeze."""
    max_keys_frozen: Positive = 5_000
    """As many may be left to compare inside it."""
    cascades: Literal["refuse", "unused"] | tuple[str, ...] = "refuse"
    """What foreign keys change outside the binlog and no marker follows is compared by nobody: such tables are refused,
    but for those, as database.table, whose parents applications are said not to change; `unused`: all."""
    hooks: Hooks = Hooks()

    @model_validator(mode="after")
    def _named(self) -> Cutover:
        if self.stop == "revoke" and not self.accounts:
            raise ValueError("stop: revoke needs 'accounts', those of the applications, as user@host")
        if self.stop == "hook" and not self.hooks.writes:
            raise ValueError("stop: hook needs hooks.writes, an executable with its arguments")
        if self.wait_seconds >= self.freeze_seconds:
            raise ValueError(f"wait_seconds is not below freeze_seconds ({self.freeze_seconds:g})")
        return self
