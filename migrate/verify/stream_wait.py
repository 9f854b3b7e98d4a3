"""Waiting for the stream between two looks at rows that differ: one that is behind makes no differences."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

import sqlalchemy as sa
import structlog
from sqlalchemy.exc import DBAPIError

from migrate.model import process_names
from migrate.model.errors import MigrateError
from migrate.mysql.errors import text
from migrate.settings import Settings
from migrate.state import lease
from migrate.state import migration as migrations
from migrate.verify.catch_up import CatchUp, come
from migrate.verify.recheck import Hurry

log = structlog.get_logger("migrate.verify")
_ASK_SECONDS = 0.5


class StreamWait:
    """Of the stream of a migration. Where it does not run there is nothing to wait for; one that does not come as far
    in `check.wait_seconds` is not waited for again."""

    def __init__(
        self, settings: Settings, state: sa.Engine, hurry: Hurry, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        """settings: as asked for, whatever servers the publishers read by now. hurry: of that stream."""
        self._settings = settings
        self._hurry = hurry
        self._state = state
        self._sleep = sleep
        self._is_behind = False

    def __call__(self, sources: Collection[str]) -> None:
        """Wait until what these sources have logged by now is at the target."""
        if self._is_behind:
            return
        try:
            if not self._runs(sources):
                return
            most = self._settings.check.wait_seconds
            self._hurry(most)
            catch_up = CatchUp(self._settings, self._state, sources)
            if not come(catch_up.passed, sources, most, self._sleep, _ASK_SECONDS):
                self._is_behind = True
                log.warning("the stream is behind: what differs may be on its way", sources=sorted(sources))
        except MigrateError as error:
            self._give_up(error.message)
        except DBAPIError as error:
            self._give_up(text(error.orig or error))

    def _give_up(self, reason: str) -> None:
        self._is_behind = True
        log.warning("the stream is not waited for", reason=reason)

    def _runs(self, sources: Collection[str]) -> bool:
        name = self._settings.name
        with self._state.connect() as connection:
            held = lease.holders(connection, name)
            parts = migrations.get(connection, name).partitions
        return held.keys() >= {*map(process_names.publisher, sources), *(part.lease for part in parts)}
