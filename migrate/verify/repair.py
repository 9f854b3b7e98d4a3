"""Repair: keys that differ are refreshed by their owners, and in no other way (invariant refresh-settles-doubt)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import sqlalchemy as sa
import structlog

from migrate.model.change import Key
from migrate.model.errors import ServerError
from migrate.settings import Settings
from migrate.target.refresh_request import bring
from migrate.target.routing import PlannedTable
from migrate.verify.difference import Verdict

log = structlog.get_logger("migrate.verify")
_BATCH = 500
_SECONDS = 120.0  # in which a batch must have been carried out

Refresh = Callable[[PlannedTable, Sequence[Key]], None]
"""Has keys of a table, or of its group, refreshed. Raises StopError when a partition is stopped, ServerError."""


def refresher(settings: Settings, state: sa.Engine, sleep: Callable[[float], None] = time.sleep) -> Refresh:
    """Asks the owners, and waits until they have done so.

    sleep: waits so many seconds; what it raises ends the wait.
    """

    def refresh(planned: PlannedTable, keys: Sequence[Key]) -> None:
        for start in range(0, len(keys), _BATCH):
            bring(settings, state, planned, keys[start : start + _BATCH], _SECONDS, sleep)
        log.info("refreshed", table=planned.table.full_name, keys=len(keys))

    return refresh


def carried_out(refresh: Refresh) -> Refresh:
    """The same, until a server is away: then nobody carries requests out, those of other tables neither, and none of
    them is waited for again."""
    away: list[ServerError] = []

    def once(planned: PlannedTable, keys: Sequence[Key]) -> None:
        if away:
            raise away[0]
        try:
            refresh(planned, keys)
        except ServerError as error:
            away.append(error)
            raise

    return once


def mendable(verdicts: Mapping[Key, Verdict]) -> list[Key]:
    """The keys that a refresh sets right: not those that two source tables have, nor those whose rows are in another
    table than their own at the side that is read."""
    return [key for key, one in verdicts.items() if not one.by_hand]


def way_out(by_hand: Iterable[str], repair: str) -> str:
    """What there is to do about rows that differ, as part of a hint.

    by_hand: of each of them, as `Verdict.by_hand`. repair: what to do about those that a refresh sets right.
    """
    ways = dict.fromkeys(by_hand)
    kinds = [*(way for way in ways if way), *([repair] if "" in ways else [])]
    return f"{', '.join(kinds)}{' (docs/verification.md)' if any(ways) else ''}"
