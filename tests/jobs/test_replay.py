"""While a source is being replayed, no chunk of its tables is begun and nothing is certified."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from jobs import full_copy, verify
from jobs.full_copy import CopyProgress
from migrate.model.errors import PreflightError
from migrate.state import chunks, position, rewind
from migrate.state.chunks import ChunkState
from sandbox.stack import Sandbox
from tests.copy.setup import Laid, lay, spread
from tests.jobs.test_full_copy import CREATE, numbers, raw_rows
from tests.waiting import until as wait


def go_back(laid: Laid) -> None:
    """What `migrate publish --from` leaves in the state."""
    state = laid.state()
    with state.begin() as connection:
        at = position.load(connection, laid.settings.name, "main")
        assert at is not None
        before = replace(at, pos=at.pos + 1000)
        after = replace(at, incarnation=at.incarnation + 1)
        position.save(connection, laid.settings.name, after)
        rewind.note(connection, laid.settings.name, before, after, "asked")
    state.dispose()


def come_forward(laid: Laid) -> None:
    state = laid.state()
    with state.begin() as connection:
        at = position.load(connection, laid.settings.name, "main")
        assert at is not None
        position.save(connection, laid.settings.name, replace(at, pos=at.pos + 1000))
    state.dispose()


def states(laid: Laid) -> list[ChunkState]:
    state = laid.state()
    with state.connect() as connection:
        found = [one.state for one in chunks.load(connection, laid.settings.name, laid.table.table)]
    state.dispose()
    return found


@pytest.mark.usefixtures("spark")
def test_a_copy_begins_no_chunk_during_a_replay_and_goes_on_after_it(box: Sandbox, tmp_path: Path) -> None:
    """Lost: a row of a chunk that was copied while rows went back for a replay."""
    few = {"copy": {"chunk_rows": 20, "chunks_at_once": 1, "master": "local[2]"}}
    laid = lay(box, tmp_path, CREATE, spread("id", "t"), fill=numbers(200), extra=few)
    begun: list[int] = []

    with capture_logs() as logs:

        def said() -> list[str]:
            return [entry["event"] for entry in logs if "replay" in entry["event"]]

        def look_while_it_waits() -> None:
            wait(said, "the copy to wait")
            time.sleep(2)  # two polls: it must begin nothing meanwhile
            begun.append(len(states(laid)))
            come_forward(laid)

        def go_back_once(_step: CopyProgress) -> None:
            if not begun:
                go_back(laid)
                begun.append(len(states(laid)))
                threading.Thread(target=look_while_it_waits, daemon=True).start()

        result = full_copy.run(laid.settings, progress=go_back_once)
    assert begun[0] == begun[1] < 10, "a chunk was begun during the replay"
    assert result.rows_read == 200
    assert set(states(laid)) == {ChunkState.DONE}
    here, there = raw_rows(laid)
    assert here == there
    assert said() == ["the copy waits for a replay", "the replay is over, the copy goes on"]
    assert verify.run(laid.settings).clean
    go_back(laid)
    with pytest.raises(PreflightError, match="nothing is certified: source 'main' is being replayed up to"):
        verify.run(laid.settings)
