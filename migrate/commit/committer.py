"""The committer: publishes the consumed prefix as the group's offsets (invariant one-committer).

Killed before its commit it selects the same prefix again; killed after it, before marking, it commits again and then
marks. Nobody reads the group's offsets to resume; they are a copy for lag tools.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

import sqlalchemy as sa
import structlog

from migrate.kafka.reader import PartitionReader
from migrate.metrics import shared
from migrate.model import process_names
from migrate.settings import Settings
from migrate.state import consumed_total, record
from migrate.state import migration as migrations
from migrate.state.database import in_transaction
from migrate.state.lease import Leases
from migrate.state.record import Partition

log = structlog.get_logger("migrate.commit")


class Committer:
    def __init__(self, settings: Settings, state: sa.Engine, leases: Leases, stop: threading.Event) -> None:
        self._settings = settings
        self._state = state
        self._leases = leases
        self._stop = stop
        self._reader = PartitionReader(settings.kafka, settings.group)
        with state.connect() as connection:
            self._migration = migrations.get(connection, settings.name)
        self._renewal = time.monotonic() + settings.commit.renew_seconds
        self._gone: set[str] = set()  # topics, by id, that the broker did not know
        self._marked: dict[Partition, int] = {}  # up to where records are marked: the next look begins there

    def run(self) -> None:
        """Commit until stopped; waits `commit.idle_seconds` when there is nothing to do."""
        try:
            while not self._stop.is_set():
                self._leases.check(process_names.COMMIT)
                if time.monotonic() >= self._renewal:
                    self.renew()
                    self._renewal = time.monotonic() + self._settings.commit.renew_seconds
                if not self.commit_once():
                    self._stop.wait(self._settings.commit.idle_seconds)
        finally:
            self._reader.close()

    def commit_once(self) -> int:
        """One pass over all partitions: select, commit at the broker, mark. Returns how many records were marked."""
        partitions = self._migration.partitions
        since = self._marked

        def look(connection: sa.Connection) -> dict[Partition, int]:
            found = {part: record.uncommitted_prefix(connection, part, since.get(part, 0)) for part in partitions}
            return {part: end for part, end in found.items() if end is not None}

        ends = in_transaction(self._state, look, self._stop)
        ends = self._commit(ends)
        if not ends:
            return 0

        def mark(connection: sa.Connection) -> int:
            return sum(record.mark_committed(connection, part, end, since.get(part, 0)) for part, end in ends.items())

        marked = in_transaction(self._state, mark, self._stop)
        since.update(ends)
        shared.committed_records.inc(marked)
        log.debug("committed", records=marked)
        return marked

    def renew(self) -> None:
        """Commit the ends of the consumed prefixes once more, even if nothing came for long, and look at all records.

        One below what is marked is *consumed* again only if somebody set its partition back by hand.
        """
        self._marked.clear()
        totals = in_transaction(
            self._state, lambda connection: consumed_total.totals(connection, self._settings.name), self._stop
        )
        self._commit({partition: total.next_offset for partition, total in totals.items()})

    def _commit(self, ends: Mapping[Partition, int]) -> dict[Partition, int]:
        """Commit at the broker; what it took. A topic that is gone keeps the others from nothing."""
        taken = {}
        for topic in self._migration.topics:
            mine = {part: end for part, end in ends.items() if part.topic_id == topic.id}
            if not mine:
                continue
            if self._reader.commit(topic.name, {part.number: end for part, end in mine.items()}):
                taken.update(mine)
            elif topic.id not in self._gone:
                self._gone.add(topic.id)
                log.warning("the topic is not there", topic=topic.name)
        return taken
