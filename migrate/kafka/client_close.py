"""Ending Kafka clients beside the thread that used them.

A client waits for its own threads when it ends, and one that has lost its broker may wait for good (librdkafka issues
4131 and 4674): whoever dropped its last reference would hang with it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog

from migrate.settings import Kafka

log = structlog.get_logger("migrate.kafka")
_CLOSE = 10.0
_HELD = 10.0  # seconds until whoever gives a client up has dropped it


def close(client_close: Callable[[], object], settings: Kafka) -> None:
    """Waits some seconds at most."""
    closing = threading.Thread(target=client_close, name="kafka-close", daemon=True)
    closing.start()
    closing.join(_CLOSE)
    if closing.is_alive():
        log.warning("the Kafka client does not close", kafka=settings.bootstrap, seconds=_CLOSE)


def drop(client: object) -> None:
    """Hold it until the caller has dropped it, so that it ends in a thread of its own. Does not wait."""
    held = [client]
    timer = threading.Timer(_HELD, held.clear)
    timer.daemon = True
    timer.start()
