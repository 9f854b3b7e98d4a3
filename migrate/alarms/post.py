"""A thread for each receiver: one that hangs keeps neither the others nor the looks nor a stop waiting."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import structlog

from migrate.alarms.letter import Letter
from migrate.alarms.receivers import deliver
from migrate.model.errors import MigrateError, defect
from migrate.settings import Alarms, Receiver

log = structlog.get_logger("migrate.alarms")


@dataclass(frozen=True, slots=True)
class TakenLetter:
    receiver: str
    letter: Letter


class Post:
    def __init__(self, settings: Alarms, arrived: Callable[[], None] = lambda: None) -> None:
        """arrived: called from the threads whenever a receiver has taken a letter."""
        self._settings = settings
        self._arrived = arrived
        self._taken: queue.SimpleQueue[TakenLetter] = queue.SimpleQueue()
        self._busy: dict[str, threading.Thread] = {}

    def send(self, receiver: Receiver, letters: Iterable[Letter]) -> None:
        """In order, to an idle one; what it does not take comes again in the next round."""
        todo = list(letters)
        if not todo:
            return
        thread = threading.Thread(target=self._deliver, args=(receiver, todo), name=receiver.name, daemon=True)
        self._busy[receiver.name] = thread
        thread.start()

    def taken(self) -> list[TakenLetter]:
        """Since this was asked last."""
        found = []
        while not self._taken.empty():
            found.append(self._taken.get())
        return found

    def wait(self, seconds: float) -> None:
        """At most so long, for what is under way."""
        ends = time.monotonic() + seconds
        for thread in self._busy.values():
            thread.join(max(0.0, ends - time.monotonic()))

    def is_idle(self, name: str) -> bool:
        return name not in self._busy or not self._busy[name].is_alive()

    def _deliver(self, receiver: Receiver, letters: list[Letter]) -> None:
        for letter in letters:
            about = {"receiver": receiver.name, "alarm": letter.alarm.kind, "subject": letter.alarm.subject}
            try:
                deliver(receiver, letter, self._settings)
            except MigrateError as error:
                log.warning("an alarm was not taken, tried again", **about, error=error.message)
                return
            except Exception as error:
                log.error("a receiver failed by a defect of this program", **about, error=defect(error))
                return
            log.info("an alarm was sent", **about, status=letter.status.value)
            self._taken.put(TakenLetter(receiver.name, letter))
            self._arrived()
