"""What is concluded from times and GTIDs about a server that takes over, as tables of cases."""

from __future__ import annotations

import pytest

from migrate.publish.failover import doubt, lacking_mariadb


@pytest.mark.parametrize(
    ("last", "reached", "told"),
    [
        (1000, 1061, ""),  # it has what came a minute after our last
        (1000, 1060, "60 s newer"),
        (1000, 1000, "0 s newer"),
        (1000, 970, "30 s older"),
        (1000, 0, "is not known"),
    ],
)
def test_without_gtid_a_server_is_in_doubt_unless_it_is_seen_to_be_ahead_by_the_interval(
    last: int, reached: int, told: str
) -> None:
    found = doubt(last, reached, 60)
    assert bool(found) == bool(told)
    assert told in found


@pytest.mark.parametrize(
    ("ours", "state", "lacks"),
    [
        ("0-11-4", "0-11-4", []),
        ("0-11-4", "0-11-7,0-12-8", []),
        ("0-11-4", "0-11-3", ["0-11-4"]),
        ("0-11-4", "0-12-9", ["0-11-4"]),  # a higher number of another history
        ("0-11-4", "0-11-3,0-12-9", ["0-11-4"]),
        ("0-11-4,1-11-2", "0-11-4", ["1-11-2"]),
        ("0-11-4,0-11-6", "0-11-5", ["0-11-6"]),  # stored, and in the topic beyond
        ("10-11-4", "0-11-4", ["10-11-4"]),
        ("0-11-4", "", ["0-11-4"]),
    ],
)
def test_what_a_mariadb_server_lacks_is_judged_by_domain_and_server(ours: str, state: str, lacks: list[str]) -> None:
    assert lacking_mariadb(ours, state) == lacks
