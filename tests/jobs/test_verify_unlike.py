"""A verification holds the target tables' own definitions against those of their source tables."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from jobs import full_copy, verify
from migrate.model.coordinate import Coordinate
from migrate.model.table import Table
from migrate.mysql import catalog
from migrate.mysql.connection import connect
from migrate.settings import parse
from migrate.state import schema_history
from migrate.state.schema_history import Version
from migrate.target.pool import TargetPool
from migrate.target.stored_plan import stored_plan
from migrate.target.unlike_places import unlike_places
from migrate.verify import quick_modes
from migrate.verify.certificate import page
from migrate.verify.quick_modes import Mode
from sandbox.stack import Sandbox
from tests.copy.setup import Laid, lay, spread

CREATE = (
    "CREATE TABLE {t} (id INT NOT NULL, name VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL,"
    " e ENUM('a','b') NOT NULL, g INT AS (id + 1) STORED, PRIMARY KEY (id, name))"
)
FILL = "INSERT INTO {t} (id, name, e) VALUES (1, 'a', 'a'), (2, 'b', 'b'), (3, 'c', 'a'), (4, 'd', 'b')"
SLIPS = {
    "labels": (
        "MODIFY e ENUM('a','b','x','y') NOT NULL",
        "MODIFY e ENUM('a','b','y','x') NOT NULL",
        "e (enum('a','b','y','x') for enum('a','b','x','y'))",
    ),
    "key": (
        "MODIFY name VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL",
        "COMMENT 'forgotten'",
        "name (a column of a unique key, in utf8mb4_general_ci; make it COLLATE utf8mb4_bin)",
    ),
    "generated": ("COMMENT 'nothing'", "DROP COLUMN g", "g (missing)"),
    "unique": ("COMMENT 'nothing'", "ADD UNIQUE (e, name)", "has unique keys that"),
}
"""What the source gets, and all target tables but one; what that one gets; what is told of it."""


def altered(laid: Laid, slip: str = "", *, place: int = 5) -> None:
    """As with `ddl: ignore`: the source and its target tables are altered, one of them otherwise, and the publisher
    notes what it read."""
    statement, other, _ = SLIPS[slip]
    laid.box.source.execute(f"ALTER TABLE t {statement}", database=laid.source)
    for number in range(len(laid.table.places)):
        at_place(laid, number, other if number == place else statement)
    with closing(connect(laid.settings.sources[0], "source")) as connection:
        noted(laid, catalog.load_table(connection, "main", laid.source, "t"))


def at_place(laid: Laid, number: int, statement: str) -> None:
    with closing(laid.connect(number)) as connection:
        connection.execute(f"ALTER TABLE {laid.table.places[number].table} {statement}")


def noted(laid: Laid, table: Table) -> None:
    version = Version(table, since=Coordinate(1, 2, 3, 0))
    with laid.state().begin() as connection:
        schema_history.put(connection, laid.settings.name, "main", (laid.source, "t"), version, "server")


@pytest.fixture
def laid(box: Sandbox, tmp_path: Path) -> Laid:
    check = {"master": "local[2]", "rechecks": 1, "recheck_seconds": 0.1}
    return lay(box, tmp_path, CREATE, spread("id", "t"), fill=[FILL], extra={"verify": check})


def verified(laid: Laid) -> verify.VerifyResult:
    return verify.run(parse(laid.raw, {}))


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("slip", SLIPS)
def test_rows_that_agree_at_a_place_with_another_definition_are_not_certified(laid: Laid, slip: str) -> None:
    """Lost: what the numbers of an ENUM stand for, rows whose keys one shard takes for one, a generated column that no
    place was compared in any more. All rows agree, the certificate was clean, and a cutover went by it."""
    full_copy.run(laid.settings)
    altered(laid, slip)
    statement, _, told = SLIPS[slip]

    result = verified(laid)
    (found,) = result.tables[0].unaccounted
    assert str(laid.table.places[5]) in found
    assert told in found
    assert "alter it to match (docs/operations.md#altering-a-table)" in found
    assert (result.clean, result.total, result.certificate["clean"]) == (False, 1, False)
    assert f"not accounted for: {found}" in page(result.certificate)
    with laid.state().begin() as connection:
        connection.exec_driver_sql("UPDATE phase SET phase = 'copied'")
    quick = quick_modes.run(
        laid.settings, stored_plan(laid.settings, laid.state()), laid.state(), Mode.SAMPLE, chunks=1
    )
    assert (quick.clean, quick.tables[0].unaccounted, quick.tables[0].differences) == (False, [found], 0)

    mend = {"generated": "ADD COLUMN g INT AS (id + 1) STORED", "unique": "DROP INDEX e"}
    at_place(laid, 5, mend.get(slip, statement))
    assert verified(laid).clean


def unlike(laid: Laid, *without: str) -> list[str]:
    with closing(TargetPool(laid.settings)) as pool:
        tables = list(stored_plan(laid.settings, laid.state()).tables.values())
        found = unlike_places(laid.settings, pool, tables, without)
    return [told for some in found.values() for told in some]


def test_what_the_states_server_calls_a_type_is_no_difference(laid: Laid) -> None:
    """Lost: the certificate of a table that was altered, where the state's server has other words for its types than
    the source: nothing could be done about it."""
    table = laid.table.table
    assert unlike(laid) == []
    words = tuple(replace(one, type="int unlike any") if one.name == "id" else one for one in table.columns)
    noted(laid, replace(table, columns=words))
    assert unlike(laid) == []
    at_place(laid, 0, "MODIFY e ENUM('b','a') NOT NULL")
    (told,) = unlike(laid)
    assert f"{laid.table.places[0]} has other columns than {table.full_name}: e (" in told
    assert "id" not in told.split(" for ")[0]


def test_a_source_that_is_gone_is_not_asked(laid: Laid) -> None:
    """Lost: every place that is unlike, at a cutover that leaves a source which is gone: nobody looked."""
    laid.settings.sources[0].__dict__["port"] = 1
    assert unlike(laid, "main") == []
    at_place(laid, 3, "DROP COLUMN g")
    (told,) = unlike(laid, "main")
    assert f"{laid.table.places[3]} has other columns than {laid.table.table.full_name}: g (missing)" in told
