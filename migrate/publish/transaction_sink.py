"""What happens with what is read of a log: rows become messages, and ends of transactions the places between them."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from migrate.model.coordinate import Coordinate, in_log
from migrate.model.errors import Code, LogPlace, StopError
from migrate.model.table import Table
from migrate.publish.added_tables import Ahead
from migrate.publish.batches import Boundary
from migrate.publish.cascades import Cascades
from migrate.publish.decode.rows import RowEvent
from migrate.publish.emit import Emitter, Transaction
from migrate.publish.outbox import Outbox
from migrate.publish.schema.definitions import Definitions
from migrate.publish.schema.following import History
from migrate.state.position import Position

log = structlog.get_logger("migrate.publish")


class TransactionSink:
    """The sink of a `TransactionReader`, from one position on."""

    def __init__(
        self,
        source: str,
        position: Position,
        outbox: Outbox,
        history: History,
        definitions: Definitions,
        ahead: Ahead,
        emitter: Callable[[Table], Emitter],
        enter: Callable[[str], None],
        *,
        by_gtid: bool,
        cascades: Cascades | None,
    ) -> None:
        """ahead: tables whose place in the log is still ahead. emitter: makes one for a table. enter: told each file
        before its first message, but the position's. cascades: None where the log has what foreign keys change."""
        self._source = source
        self._position = position
        self._outbox = outbox
        self._history = history
        self._definitions = definitions
        self._ahead = ahead
        self._new_emitter = emitter
        self._enter = enter
        self._cascades = cascades
        self._entered = position.file
        # With a resume by GTID: the file and position at which it should begin.
        self._floor = in_log(position.file, position.pos) if by_gtid else None
        self._begun = False  # rows of the transaction that is being read were met
        self._emitters: dict[tuple[str, str], Emitter] = {}
        self._emitter: Emitter | None = None  # that was used last

    def begin(self, *, whole: bool) -> None:
        self._begun = True
        self._outbox.begin(whole=whole)

    def savepoint(self, name: str) -> None:
        self._outbox.mark(name)

    def rolled_back(self, name: str) -> bool:
        return self._outbox.undo(name)

    def rows(self, table: Table, transaction: Transaction, event: int, rows: RowEvent) -> None:
        emitter = self._emitter
        if emitter is None or emitter.table is not table:
            emitter = self._emitter = self._emitter_of(table)
        count, messages = emitter.encoded(transaction, event, rows)
        self._outbox.add(emitter.topic, emitter.key, messages, count)
        if self._cascades is not None:
            for topic, key, marked in self._cascades.behind(self._definitions, table, transaction, event, rows):
                self._outbox.add(topic, key, marked, 0)

    def role(self, role: str, since: Coordinate, gtid: str, at: int) -> None:
        self._history.note_role(role, since, gtid, at)
        log.info("role of the side", source=self._source, role=role, at=tuple(since))

    def boundary(self, file: str, pos: int, event_time: int, gtid: str | None) -> bool:
        """A transaction ended here; the position moves here once it is confirmed. False where nothing is to be read
        from here on: a table that was added joins here, by another schema."""
        if file != self._entered:
            self._enter(file)
            self._entered = file
        if self._floor is not None:
            if in_log(file, pos) > self._floor:
                self._floor = None
            elif gtid is None:
                return True  # what heads the file that the server began with
            else:
                file, pos = self._below_floor(file, pos, gtid)
        self._begun = False
        self._outbox.end(Boundary(file, pos, event_time, gtid))
        if self._ahead.names and self._ahead.reached(file, pos, gtid):
            self._outbox.flush()
            return False
        return True

    def _emitter_of(self, table: Table) -> Emitter:
        emitter = self._emitters.get((table.database, table.name))
        if emitter is None or emitter.table is not table:  # new to us, or its definition changed
            emitter = self._emitters[(table.database, table.name)] = self._new_emitter(table)
        return emitter

    def _below_floor(self, file: str, pos: int, gtid: str) -> tuple[str, int]:
        """By GTID the server sent a transaction from before our position: it was still committing when we took that.

        Our tables were locked then. Rows of ours would have coordinates below what is sent already, and would be taken
        for repeats.
        """
        if self._begun:
            raise StopError(
                f"source '{self._source}' sent {gtid}, which ends at {file}:{pos}, before the stored position"
                f" {self._position.file}:{self._position.pos}, and is not in its GTID set",
                hint="the log was rewritten: publish again from before it with `migrate publish --from`",
                code=Code.POSITION,
                where=LogPlace(self._source, file, pos),
            )
        return self._position.file, self._position.pos
