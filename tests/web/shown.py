"""`python -m tests.web.shown KIND CONFIG`: `migrate web` of a look that is made up.

everything: one of each thing that a page can show; finished: of a migration that is over; unread: no look at all.

Its state database, its routes and its streams are the real ones. Every look differs from the one before.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

from migrate.processes import logs
from migrate.settings import load
from migrate.status.blocker import VERIFY, Blocker, Kind
from migrate.status.look import Look
from migrate.status.measures import Measures
from migrate.status.snapshot import PartitionStatus, Snapshot
from migrate.status.stage import Stage
from migrate.web import server
from migrate.web.page import details as read_details
from migrate.web.page.details import Details
from migrate.web.status_reader import Seen
from tests.web.test_page import FACTS, THEN, details, snapshot

LONG = "a_table_with_the_longest_name_that_a_server_takes_sixty_four_byt"
HELD = [Blocker(kind, "orders", FACTS, VERIFY) for kind in Kind]
OVER: dict[str, Any] = {
    **{"stage": Stage.FINISHED, "holds_back": [], "next": "", "finished": THEN, "last_cutover": None},
    "summary": {
        "side": "target",
        "changes": 1_234_567,
        "copied": [{"table": LONG, "rows_inserted": 99, "began": THEN, "ended": THEN}],
    },
    "last_verification": {"finished": THEN, "rows": 99, "differences": 0},
}


class MadeUp:
    """In the place of the reader of the status."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._numbers = count(1)

    def read(self) -> Seen:
        look = {"everything": self._everything, "finished": _finished, "unread": _unread}[self._kind]()
        return Seen(look, "" if look else "the state database does not answer", datetime.now(UTC))

    def details(self) -> Details:
        found = details(LONG)
        return replace(found, ended=OVER) if self._kind == "finished" else found

    def _everything(self) -> Look:
        number = next(self._numbers)
        now, back = snapshot(LONG), replace(snapshot(LONG), migration="shop_reverse")
        now.partitions.append(PartitionStatus("orders", 2, 5, 5, number, 1000 + number, "host:7"))
        return Look(now, Stage.COPYING, HELD, Measures({"done": 2}, certificate_age=90.0), next=VERIFY, reverse=back)


def _finished() -> Look:
    return Look(Snapshot("shop", []), Stage.FINISHED, [], Measures())


def _unread() -> Look | None:
    return None


def main(kind: str, config: str) -> None:
    settings, made_up = load(Path(config), {}), MadeUp(kind)
    logs.configure(settings.logging, "web")
    with (
        patch.object(server, "StatusReader", lambda *_: made_up),
        patch.object(read_details, "read", lambda *_: made_up.details()),
    ):
        server.serve(settings, Path(sys.argv[2]))


if __name__ == "__main__":
    main(*sys.argv[1:])
