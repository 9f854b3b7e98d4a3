"""Generated columns that a target computes otherwise than the source has them are named before anything is copied."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from migrate.preflight.result import Result, Verdict
from sandbox.broker import KafkaBroker
from sandbox.database import DatabaseServer
from sandbox.stack import Sandbox
from tests.helpers import scratch, unique
from tests.preflight.support import Case


@contextmanager
def zone(server: DatabaseServer) -> Iterator[str]:
    """One that this server alone knows, nine hours ahead of UTC."""
    number = int(unique("").replace("_", ""))
    name = f"Zone/{number}"
    server.execute(
        f"INSERT INTO mysql.time_zone (Time_zone_id, Use_leap_seconds) VALUES ({number}, 'N')",
        f"INSERT INTO mysql.time_zone_name VALUES ('{name}', {number})",
        f"INSERT INTO mysql.time_zone_transition_type VALUES ({number}, 0, 32400, 0, 'here')",
    )
    try:
        yield name
    finally:
        server.execute(
            *(
                f"DELETE FROM mysql.{table} WHERE Time_zone_id = {number}"
                for table in ("time_zone_transition_type", "time_zone_name", "time_zone")
            )
        )


def told(case: Case) -> list[Result]:
    found = case.report(services=True).results
    return [one for one in found if one.check == "trial" and one.verdict is not Verdict.PASS]


@pytest.mark.parametrize(("kept", "verdict"), [("STORED", Verdict.PROBLEM), ("VIRTUAL", Verdict.NOTE)])
def test_a_value_that_only_the_source_can_compute_is_named(case: Case, kept: str, verdict: Verdict) -> None:
    with zone(case.box.source) as name:
        case.at_source(
            f"CREATE TABLE g (id INT PRIMARY KEY, dt DATETIME, w INT AS (id + 1) STORED,"
            f" u DATETIME AS (CONVERT_TZ(dt, '{name}', '+00:00')) {kept})",
            "INSERT INTO g (id, dt) VALUES (1, NULL), (2, '2026-03-01 12:00:00')",
        )
        assert case.box.source.query(f"SELECT HOUR(u) FROM {case.database}.g WHERE id = 2") == ((3,),)
        case.raw["tables"] = [{"name": f"{case.database}.g", "sharding": {"nodes": "ds_0.g"}}]
        (found,) = told(case)
        assert (found.verdict, found.subject) == (verdict, f"t0/{case.database}.g")
        assert f"generated column u of {case.database}.g" in found.message
        assert 'key ["2"]' in found.message
        assert "u" in found.mend
        case.at_source("UPDATE g SET dt = NULL")
        assert told(case) == [], "no row says so"


def test_an_expression_that_the_other_kind_of_server_computes_otherwise_is_named(
    crossed: Sandbox, kafka: KafkaBroker
) -> None:
    """MySQL sorts the names in a document; every other column of the row is equal."""
    with scratch(crossed.source, "computed") as database:
        case = Case(crossed, database, kafka.bootstrap)
        case.at_source(
            "CREATE TABLE g (id INT PRIMARY KEY, j VARCHAR(40), d DECIMAL(9,3), x DOUBLE, f FLOAT, t DATETIME(3),"
            " o VARCHAR(40) AS (JSON_EXTRACT(j, '$.o')) STORED, dd DECIMAL(9,3) AS (d * 2) STORED, xx DOUBLE AS (x / 3)"
            " STORED, ff FLOAT AS (f / 3) STORED, tt DATE AS (DATE(t)) STORED, l INT AS (LENGTH(j)) VIRTUAL,"
            " u VARBINARY(80) AS (UNHEX(HEX(j))) STORED)",
            """INSERT INTO g (id, j, d, x, f, t) VALUES (1, '{"o": 1}', 1.5, 1e-9, 0.1, '2026-03-01 12:00:00.5'),"""
            """ (2, '{"o": {"b": 1, "a": 2}}', -1.125, -0.1, 1e30, NULL)""",
        )
        case.raw["tables"] = [{"name": f"{database}.g", "sharding": {"nodes": "ds_0.g"}}]
        (found,) = [one for one in told(case) if one.verdict is Verdict.PROBLEM]
        assert f"generated column o of {database}.g" in found.message
        assert 'key ["2"]' in found.message
