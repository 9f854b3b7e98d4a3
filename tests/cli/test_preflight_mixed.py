"""What a target of the other flavour cannot have is named before init, with the way out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from migrate.model.errors import PreflightError
from migrate.model.table import Column, Kind, Table
from migrate.mysql.catalog import load_table
from migrate.mysql.connection import connect
from migrate.preflight import run as preflight
from migrate.preflight.result import Verdict
from migrate.preflight.schema import existing
from migrate.settings import Settings, parse
from migrate.target.create import create_place, refuse_unlike
from migrate.target.routing import Place, Plan, TargetDatabase
from sandbox.stack import Sandbox
from tests.helpers import address, int_column, raw_settings, scratch, session


@pytest.fixture
def source(crossed: Sandbox) -> Iterator[str]:
    with scratch(crossed.source, "lacks") as name:
        yield name


@pytest.fixture
def target(crossed: Sandbox) -> Iterator[str]:
    with scratch(crossed.targets[0], "lacks_at") as name:
        yield name


def settings_of(crossed: Sandbox, source: str, target: str) -> Settings:
    raw: dict[str, Any] = raw_settings(
        sources=[{"name": "s", **address(crossed.source)}],
        targets=[{"name": "t0", **address(crossed.targets[0])}],
        databases={"ds_0": {"target": "t0", "database": target}},
        tables=[{"name": f"{source}.t", "sharding": {"nodes": "ds_0.t"}}],
    )
    return parse(raw, {})


def told(crossed: Sandbox, source: str, target: str, verdict: Verdict = Verdict.PROBLEM) -> dict[str, str]:
    """What preflight says of the flavours: message and way out."""
    report = preflight.run(settings_of(crossed, source, target))
    return {one.message: one.mend for one in report.results if one.check == "flavour" and one.verdict is verdict}


def told_of_existing(crossed: Sandbox, source: str, target: str) -> list[str]:
    """What it says of the target table that is there."""
    settings = settings_of(crossed, source, target)
    report = preflight.run(settings)
    with closing(connect(settings.target("t0"), "target 't0'")) as connection:
        plan = Plan(settings, report.tables)
        found = list(existing.check_target(connection, plan, "t0", [], report.flavours, {}))
    return [one.message for one in found if one.verdict is not Verdict.PASS]


LACKING = {
    "mariadb": {
        "u UUID": ("column u is uuid, which mysql does not have", "by hand, with u CHAR(36)"),
        "i INET6": ("column i is inet6, which mysql does not have", "by hand, with i VARCHAR(39)"),
        "c VARCHAR(9) COLLATE utf8mb4_general_nopad_ci": (
            "column c is in utf8mb4_general_nopad_ci, which mysql does not have",
            "c in another collation of utf8mb4",
        ),
    },
    "mysql": {
        "v VECTOR(3)": ("column v is vector(3), which mariadb does not have", "by hand, with v VARBINARY"),
        "c VARCHAR(9) COLLATE utf8mb4_ja_0900_as_cs": (
            "column c is in utf8mb4_ja_0900_as_cs, which mariadb does not have",
            "c in another collation of utf8mb4",
        ),
        "g VARCHAR(9) CHARACTER SET gb18030": (
            "column g is in gb18030_chinese_ci, which mariadb does not have",
            "give g utf8mb4 at the source",
        ),
    },
}
BY_HAND = {
    "mariadb": "u CHAR(36) CHARACTER SET ascii, i VARCHAR(39) CHARACTER SET ascii, c VARCHAR(9) COLLATE utf8mb4_bin",
    "mysql": "v VARBINARY(12), c VARCHAR(9) COLLATE utf8mb4_bin, g VARCHAR(9)",
}


def test_types_and_collations_that_the_target_has_not_are_named_unless_the_table_is_there(
    crossed: Sandbox, source: str, target: str
) -> None:
    flavour = crossed.source.flavour
    crossed.source.execute(f"CREATE TABLE {source}.t (id INT PRIMARY KEY, {', '.join(LACKING[flavour])})")
    found = told(crossed, source, target)
    wanted = LACKING[flavour].values()
    assert len(found) == len(wanted)
    for (message, mend), (said, way) in zip(found.items(), wanted, strict=True):
        assert said in message
        assert way in mend
    crossed.targets[0].execute(f"CREATE TABLE {target}.t (id INT PRIMARY KEY, {BY_HAND[flavour]})")
    left = told_of_existing(crossed, source, target)
    if flavour == "mysql":
        assert ["character set utf8mb4 for gb18030" in one for one in left] == [True]
    else:
        assert left == []


def test_a_collation_with_a_counterpart_is_a_note(crossed: Sandbox, source: str, target: str) -> None:
    mine = {"mysql": "utf8mb4_0900_ai_ci", "mariadb": "utf8mb4_uca1400_ai_ci"}[crossed.source.flavour]
    crossed.source.execute(f"CREATE TABLE {source}.t (id INT PRIMARY KEY, c VARCHAR(9) COLLATE {mine})")
    assert told(crossed, source, target) == {}
    (note,) = told(crossed, source, target, Verdict.NOTE)
    assert f"for {mine}" in note


def test_json_that_the_target_would_write_anew_asks_for_longtext(crossed: Sandbox, source: str, target: str) -> None:
    crossed.source.execute(f"CREATE TABLE {source}.t (id INT PRIMARY KEY, j JSON)")
    assert told(crossed, source, target) == {}
    crossed.targets[0].execute(f"CREATE TABLE {target}.t (id INT PRIMARY KEY, j JSON)")
    assert told(crossed, source, target) == {}, "told once, of the table that is there"
    found = told_of_existing(crossed, source, target)
    if crossed.source.flavour == "mysql":
        assert found == [], "it is LONGTEXT there"
        return
    assert [f"t0/{target}.t has other columns than" in one for one in found] == [True]
    assert "j (JSON of mysql, which writes documents anew; make it LONGTEXT CHARACTER SET utf8mb4)" in found[0]
    crossed.targets[0].execute(f"ALTER TABLE {target}.t MODIFY j LONGTEXT CHARACTER SET utf8mb4")
    assert told_of_existing(crossed, source, target) == []


def test_a_key_that_the_target_sorts_otherwise_is_refused(crossed: Sandbox, source: str, target: str) -> None:
    if crossed.source.flavour == "mariadb":
        crossed.source.execute(f"CREATE TABLE {source}.t (id UUID PRIMARY KEY)")
        assert any("column id (uuid) is part of the key, and" in one for one in told(crossed, source, target))
        return
    crossed.source.execute(f"CREATE TABLE {source}.t (id VARCHAR(9) COLLATE utf8mb4_0900_ai_ci PRIMARY KEY)")
    crossed.targets[0].execute(f"CREATE TABLE {target}.t (id VARCHAR(9) COLLATE utf8mb4_bin PRIMARY KEY)")
    (found,) = told_of_existing(crossed, source, target)
    assert "id (a column of a unique key, in utf8mb4_bin; make it COLLATE utf8mb4_uca1400_nopad_ai_ci)" in found


def test_a_period_of_application_time_is_named_for_mysql(mysql_box: Sandbox) -> None:
    """As preflight's trial and init meet it: both make their tables by this."""
    column = Column("s", "date", Kind.DATE, nullable=False)
    table = Table("s", "d", "t", (int_column("id"), column, replace(column, name="e")), ("id",))
    lines = "`id` int(11) NOT NULL,\n  `s` date NOT NULL,\n  `e` date NOT NULL,\n  PERIOD FOR `p` (`s`, `e`),"
    statement = f"CREATE TABLE `t` (\n  {lines}\n  PRIMARY KEY (`id`)\n) ENGINE=InnoDB"
    with scratch(mysql_box.targets[0], "periods") as name, session(mysql_box.targets[0], name) as connection:
        place = Place(TargetDatabase("ds_0", "t0", name), "t")
        with pytest.raises(
            PreflightError, match=r"no application-time periods \(PERIOD FOR `p` \(`s`, `e`\)\)"
        ) as found:
            create_place(connection, table, place, statement, "mariadb")
        assert "CHECK" in found.value.hint


def test_a_target_whose_key_excludes_what_overlaps_is_refused(mariadb_box: Sandbox) -> None:
    """Its catalog shows the key as one of the same columns."""
    create = "CREATE TABLE t (id INT NOT NULL, s DATE NOT NULL, e DATE NOT NULL, {})"
    with scratch(mariadb_box.source, "overlaps") as name, session(mariadb_box.source, name) as connection:
        mariadb_box.source.execute(create.format("PRIMARY KEY (id, e, s)"), database=name)
        table = load_table(connection, "s", name, "t")
        place = Place(TargetDatabase("ds_0", "t0", name), "t")
        refuse_unlike(connection, table, place, "mariadb", first=True)
        excluding = create.format("PERIOD FOR p (s, e), PRIMARY KEY (id, p WITHOUT OVERLAPS)")
        mariadb_box.source.execute("DROP TABLE t", excluding, database=name)
        assert load_table(connection, "s", name, "t") == table
        with pytest.raises(PreflightError, match=r"`p` WITHOUT OVERLAPS\) excludes rows whose periods overlap"):
            refuse_unlike(connection, table, place, "mariadb", first=True)
