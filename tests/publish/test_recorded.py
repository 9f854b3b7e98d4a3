"""What servers wrote to their logs (`recorded/`, by `record.py`), read without them. Costs 3 s."""

from __future__ import annotations

import pytest
from reader_support import Collected, reader
from recording import Recording, recordings
from scripts import SCRIPTS

from migrate.model.errors import StopError
from tests.types.matrix import printed_cases_of

RECORDINGS = recordings()


@pytest.mark.parametrize(
    ("recording", "title"),
    [pytest.param(one, title, id=f"{one.name}-{title}") for one in RECORDINGS for title in one.scripts],
)
def test_a_log_is_read_as_each_server_wrote_it(recording: Recording, title: str) -> None:
    script, (file, events) = SCRIPTS[title], recording.scripts[title]
    seen = Collected()
    table = recording.table
    follows = reader({(table.database, table.name): table}, recording.charsets, file, seen, mariadb=recording.mariadb)
    if script.stops:
        with pytest.raises(StopError, match=script.stops):
            follows.follow(events)
    else:
        follows.follow(events)
        assert tuple(seen.keys) == script.keys
        assert seen.boundaries[-1][1] == events[-1].end


def test_every_script_and_every_type_is_recorded_on_both_servers() -> None:
    for flavour in ("mariadb", "mysql"):
        mine = [one for one in RECORDINGS if one.flavour == flavour]
        wanted = {title for title, script in SCRIPTS.items() if flavour in script.flavours}
        assert wanted == {title for one in mine for title in one.scripts}
        assert {case.name for case in printed_cases_of(flavour)} == {name for one in mine for name in one.types}
