"""The end of a freeze that comes whatever hangs: a server that accepts and says nothing, or this process itself.

`interrupting` ends what this process waits for. The guardian (`migrate.commands.cutover_guardian`), told by a
`GuardianLine`, kills it a little later, should it not even get to that: stopped in its terminal, or inside a call that
no signal interrupts.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import IO

from migrate.model.errors import ServerError

RUN, UNTIL, SETTLED = "run", "until", "settled"
GRACE = 3.0  # seconds that a process has to give writes back by itself


class _Interrupted(BaseException):
    """Past everything that handles errors: whoever waits does not go on waiting."""


def over(seconds: float) -> ServerError:
    """What there is to say when a freeze has had its seconds."""
    return ServerError(
        f"the freeze took longer than {seconds:g} s (cutover.freeze_seconds)", hint="`--rehearse` predicts it"
    )


@contextmanager
def interrupting(seconds: float) -> Iterator[None]:
    """Raises ServerError once the block has taken so long, also out of a read from a socket. In the main thread only,
    as signals are handled there; elsewhere it does nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise _Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except _Interrupted:
        raise over(seconds) from None
    finally:
        signal.signal(signal.SIGALRM, before)


@dataclass(frozen=True, slots=True)
class GuardianLine:
    """The line to the guardian."""

    pipe: IO[str]

    def run(self, number: int) -> None:
        """It is this run that would be ended. Raises ServerError when the guardian is gone."""
        try:
            self._say(f"{RUN} {number}")
        except OSError as error:
            raise ServerError(
                "the guardian, which would give writes back after a kill, has ended", hint="try again"
            ) from error

    def until(self, seconds: float) -> None:
        """What stops writes, or gives them back, is to be over after so many seconds."""
        with suppress(OSError):
            self._say(f"{UNTIL} {seconds + GRACE:g}")

    def settled(self) -> None:
        """It is over."""
        with suppress(OSError):
            self._say(SETTLED)

    def _say(self, word: str) -> None:
        self.pipe.write(f"{word}\n")
        self.pipe.flush()
