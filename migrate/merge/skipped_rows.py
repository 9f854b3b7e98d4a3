"""Rows that no place takes: a person can set aside what is refused of a key."""

from __future__ import annotations

import structlog

from migrate.metrics import consumer as measured
from migrate.model.change import Key, key_json
from migrate.model.errors import Code, StopError
from migrate.model.table import Table
from migrate.state.skipped_key import SkipReasons
from migrate.target.routing import Plan

log = structlog.get_logger("migrate.merge")


class RowRefused(StopError):  # noqa: N818 - what it says is what happened
    """About one row of a message, which can be set aside by its key."""

    code = Code.TARGET


class SkippedRows:
    def __init__(self, plan: Plan, skips: SkipReasons | None = None) -> None:
        """skips: None where nobody sets any aside."""
        self._plan = plan
        self._skips = skips

    def why(self, table: Table, key: Key) -> str | None:
        """The reason for which a person set aside what is refused of a key; None: nobody did."""
        if self._skips is None:
            return None
        tables = self._plan.members(self._plan.find(*table.id))
        return next(filter(None, (self._skips.reason(one.table.id, key) for one in tables)), None)

    def skip_or_raise(self, table: Table, of: Key, error: StopError, which: str) -> None:
        """which: change of the key it is. Raises RowRefused."""
        key = key_json(of)
        where = f"{table.full_name} key {key} {which}"
        if why := self.why(table, of):
            measured.set_aside.labels("skipped").inc()
            log.warning("a change that no place takes is left out", change=where, refusal=error.message, reason=why)
            return
        skip = f"to continue without it: `migrate parked skip {table.full_name} '{key}' --reason …`"
        raise RowRefused(f"{where}: {error.message}", hint=error.hint_and(skip)) from None
