"""Waiting for a condition that somebody else brings about."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_LONGEST = 1.0


def polled(condition: Callable[[], T], seconds: float, pause: float) -> T:
    """What a condition gives as soon as that is true, or what it gave last when the time is over.

    Between two looks it waits as long as one takes, `pause` seconds at least and one second at most: what is waited for
    needs the processors, too.
    """
    ends = time.monotonic() + seconds
    while True:
        asked = time.monotonic()
        found = condition()
        answered = time.monotonic()
        if found or answered > ends:
            return found
        time.sleep(min(max(pause, answered - asked), _LONGEST))
