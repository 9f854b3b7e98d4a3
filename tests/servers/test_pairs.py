"""Pairs of servers that are not the usual ones: PAIR=mariadb-10.5:mysql names them; minutes each, so none otherwise."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.broker import KafkaBroker
from tests.servers import steps
from tests.servers.pair import Pair, takes_back
from tests.turned import unjudged

WANTED = os.environ.get("PAIR", "")


def pairs() -> list[tuple[str, str]]:
    return [(one.split(":")[0], one.split(":")[1]) for one in WANTED.split(",") if one]


@pytest.fixture(scope="module", params=pairs(), ids="-to-".join)
def pair(request: pytest.FixtureRequest, run_root: Path) -> Iterator[Pair]:
    source, target = request.param
    with Pair(source, target, run_root / f"{source}-{target}") as made:
        yield made


def test_every_variable_of_a_session_is_judged(pair: Pair) -> None:
    assert [(server.name, unjudged(server)) for server in (pair.source, pair.targets[0]) if unjudged(server)] == []


@pytest.mark.timeout(300)
def test_every_type_that_both_have_comes_through(pair: Pair, kafka: KafkaBroker, tmp_path: Path) -> None:
    assert "values" in steps.types(pair, kafka, tmp_path)


@pytest.mark.timeout(300)
def test_a_migration_goes_there_and_back(pair: Pair, kafka: KafkaBroker, tmp_path: Path) -> None:
    assert "rows" in steps.flow(pair, kafka, tmp_path, back=takes_back(pair))


@pytest.mark.timeout(300)
def test_the_source_fails_over_to_its_replica(pair: Pair, kafka: KafkaBroker, tmp_path: Path, run_root: Path) -> None:
    assert steps.failover(pair, kafka, tmp_path, run_root) == "by GTID"
