"""Each type of the matrix, as servers wrote it to their logs (`recorded/`): insert, update, delete, and compare with
what they printed. `tests/types/test_matrix.py` brings the same types through the whole service. Costs 3 s."""

from __future__ import annotations

import pytest
from decode_support import both_ways, changes
from recording import Recording, recordings

CASES = [pytest.param(one, name, id=f"{one.name}-{name}") for one in recordings() for name in one.types]


@pytest.mark.parametrize(("recording", "case"), CASES)
def test_a_value_of_each_type_is_decoded_as_the_server_prints_it(recording: Recording, case: str) -> None:
    outcome = recording.types[case]
    assert len(outcome.inserted) > 1
    assert changes(recording.decoders(), outcome.events) == [
        *((None, row) for row in outcome.inserted),
        *zip(outcome.inserted, outcome.updated, strict=True),
        *((row, None) for row in outcome.updated),
    ]


@pytest.mark.parametrize(("recording", "case"), CASES)
def test_the_fast_path_writes_the_same_text_for_a_value_of_each_type(recording: Recording, case: str) -> None:
    decoders = recording.decoders()
    for table_map, kind, body in recording.types[case].events:
        fast, slow = both_ways(decoders.get(table_map), kind, body, key=("id",))
        assert fast is not None
        assert fast == slow
