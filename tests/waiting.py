"""How long tests wait, in one place. A wait ends with its condition, so its limit costs nothing: it is that of a
machine with far more to do than this run. That something comes at once is told from what would take longer than any
machine, or from a limit of the product; never from seconds that seem enough."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sandbox.polling import polled

T = TypeVar("T")
SLOW = 240.0
"""Seconds that a condition may take; below pytest's limit for a test, which does not say what was waited for."""

TRANSACTIONS_SHOWN = 0.2
"""Seconds between two looks at INNODB_TRX. InnoDB reads its transactions again only where nobody has looked for 0.1 s
(MySQL's manual, "Persistence and Consistency of InnoDB Transaction and Locking Information")."""


def until(condition: Callable[[], T], what: str = "it", seconds: float = SLOW, between: float = 0.02) -> T:
    """What the condition gives as soon as that is true. between: seconds between two looks, at least.

    Raises AssertionError when it is not in time.
    """
    found = polled(condition, seconds, between)
    assert found, f"waited {seconds:.0f} s for {what} in vain"
    return found
