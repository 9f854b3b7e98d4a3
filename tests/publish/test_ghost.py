"""Online schema changes at the source, statement by statement as gh-ost and pt-online-schema-change run them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from decode_support import server_variables
from schema_support import Followed

from migrate.ddl.between import between
from migrate.ddl.definition import read
from migrate.model.errors import StopError
from migrate.publish.schema.definitions import Selected
from migrate.publish.schema.ghost import is_ghost
from migrate.publish.schema.policy import ToBeApplied
from sandbox.stack import Sandbox
from tests.helpers import unique

# gh-ost 1.1 (go/logic/applier.go): ghost and log tables, rows copied and applied from the binlog, atomic cut-over
GH_OST = [
    "DROP /* gh-ost */ TABLE IF EXISTS `{db}`.`_t_gho`",
    "DROP /* gh-ost */ TABLE IF EXISTS `{db}`.`_t_del`",
    "DROP /* gh-ost */ TABLE IF EXISTS `{db}`.`_t_ghc`",
    "CREATE /* gh-ost */ TABLE `{db}`.`_t_ghc` (id bigint unsigned auto_increment, last_update timestamp not null"
    " DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, hint varchar(64) charset ascii not null,"
    " value varchar(4096) charset ascii not null, primary key(id), unique key hint_uidx(hint)) auto_increment=256",
    "CREATE /* gh-ost */ TABLE `{db}`.`_t_gho` LIKE `{db}`.`t`",
    "ALTER /* gh-ost */ TABLE `{db}`.`_t_gho` {alter}",
    "INSERT /* gh-ost */ INTO `{db}`.`_t_ghc` (id, hint, value) VALUES (NULLIF(2, 0), 'state', 'GhostTableMigrated')",
    "INSERT /* gh-ost `{db}`.`t` */ IGNORE INTO `{db}`.`_t_gho` (`id`, `s`) (SELECT `id`, `s` FROM `{db}`.`t`)",
    "REPLACE /* gh-ost `{db}`.`_t_gho` */ INTO `{db}`.`_t_gho` (`id`, `s`) VALUES (77, 'applied')",
    "CREATE /* gh-ost */ TABLE `{db}`.`_t_del` (id int auto_increment primary key) engine=InnoDB"
    " comment='ghost-cut-over-sentry'",
    "DROP /* gh-ost */ TABLE IF EXISTS `{db}`.`_t_del`",
    "RENAME /* gh-ost */ TABLE `{db}`.`t` TO `{db}`.`_t_del`, `{db}`.`_t_gho` TO `{db}`.`t`",
    "DROP /* gh-ost */ TABLE IF EXISTS `{db}`.`_t_ghc`",
    "DROP /* gh-ost */ TABLE IF EXISTS `{db}`.`_t_del`",
]
# pt-online-schema-change 3.2 (create_new_table, create_triggers, swap_tables, drop_old_table)
PT_OSC = [
    "CREATE TABLE `{db}`.`_t_new` (\n  `id` bigint(20) unsigned NOT NULL,\n  `a` int(11) DEFAULT NULL,\n"
    "  `s` varchar(20) CHARACTER SET latin1 DEFAULT NULL,\n  PRIMARY KEY (`id`)\n)"
    " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4",
    "ALTER TABLE `{db}`.`_t_new` {alter}",
    "CREATE TRIGGER `pt_osc_t_del` AFTER DELETE ON `{db}`.`t` FOR EACH ROW"
    " DELETE IGNORE FROM `{db}`.`_t_new` WHERE `{db}`.`_t_new`.`id` <=> OLD.`id`",
    "CREATE TRIGGER `pt_osc_t_ins` AFTER INSERT ON `{db}`.`t` FOR EACH ROW"
    " REPLACE INTO `{db}`.`_t_new` (`id`, `s`) VALUES (NEW.`id`, NEW.`s`)",
    "INSERT LOW_PRIORITY IGNORE INTO `{db}`.`_t_new` (`id`, `s`) SELECT `id`, `s` FROM `{db}`.`t`",
    "INSERT INTO t (id, s) VALUES (50, 'by trigger')",
    "ANALYZE TABLE `{db}`.`_t_new` /* pt-online-schema-change */",
    "RENAME TABLE `{db}`.`t` TO `{db}`.`_t_old`, `{db}`.`_t_new` TO `{db}`.`t`",
    "DROP TABLE IF EXISTS `{db}`.`_t_old`",
    "DROP TRIGGER IF EXISTS `{db}`.`pt_osc_t_del`",
    "DROP TRIGGER IF EXISTS `{db}`.`pt_osc_t_ins`",
]
TOOLS = {"gh-ost": GH_OST, "pt-osc": PT_OSC}


@pytest.fixture(params=TOOLS)
def tool(request: pytest.FixtureRequest) -> list[str]:
    return TOOLS[request.param]


@pytest.fixture(params=["MINIMAL"])
def minimal(box: Sandbox) -> Iterator[None]:
    with server_variables(box.source, binlog_row_metadata="MINIMAL"):
        yield


def made(box: Sandbox, *, follow: bool) -> Followed:
    database = unique("ghost")
    box.source.execute(f"CREATE DATABASE {database} CHARACTER SET utf8mb4")
    box.source.execute(
        "CREATE TABLE t (id BIGINT UNSIGNED PRIMARY KEY, a INT, s VARCHAR(20) CHARACTER SET latin1)", database=database
    )
    return Followed(box.source, box.targets[0], database, "t", follow=follow)


def statements(followed: Followed, tool: list[str], alter: str) -> list[str]:
    return [line.format(db=followed.database, alter=alter) for line in tool]


ALTER = (
    "DROP COLUMN a, ADD COLUMN `n` INT UNSIGNED NOT NULL DEFAULT 5 FIRST, MODIFY s VARCHAR(300) CHARACTER SET utf8mb4"
)


@pytest.mark.usefixtures("minimal")
def test_the_last_rename_is_the_schema_change_and_ghost_rows_stay_out(box: Sandbox, tool: list[str]) -> None:
    followed = made(box, follow=True)
    start = followed.here
    places = [start]
    followed.sql("INSERT INTO t VALUES (1, 2, 'ö')")
    for statement in statements(followed, tool, ALTER):
        followed.sql(statement)
        places.append(followed.here)
    followed.sql("INSERT INTO t VALUES (6, 9, 'after')")

    rows = followed.read(start).rows_

    assert {table for table, _ in rows} == {"t"}
    assert rows[0][1] == {"id": "1", "a": "2", "s": "ö"}
    assert rows[-1][1] == {"n": "6", "id": "9", "s": "after"}
    assert [row["id"] for _, row in rows] == (["1", "9"] if tool is GH_OST else ["1", "50", "9"])
    assert followed.known("t") == followed.catalog("t")
    for place in places:  # a restart anywhere in it, with the history of the first run
        assert followed.read(place).rows_[-1] == rows[-1]
    followed.close()


def test_under_stop_the_rename_stops_and_is_named(box: Sandbox, tool: list[str]) -> None:
    followed = made(box, follow=False)
    start = followed.here
    followed.sql(*statements(followed, tool, ALTER), "INSERT INTO t VALUES (6, 9, 'after')")
    error = followed.stopped(start)
    assert f"a statement may change {followed.database}.t: RENAME" in error.message
    assert "set tables[].ddl: ignore" in error.hint
    followed.close()


def test_under_apply_the_rename_has_the_definitions_from_before_and_after(box: Sandbox, tool: list[str]) -> None:
    followed = made(box, follow=False)
    followed.selected[(followed.database, "t")] = Selected(False, ("id",), applies=True)
    start = followed.here
    followed.sql(*statements(followed, tool, ALTER), "INSERT INTO t VALUES (6, 9, 'after')")
    error = followed.stopped(start)
    assert isinstance(error, ToBeApplied)
    assert error.creates is not None
    found = between(*error.creates, "`t`").replace(" CHARACTER SET utf8mb4", "").replace(" COLLATE utf8mb4", "")
    assert found.startswith("ALTER TABLE `t` DROP COLUMN `a`, ADD COLUMN `n` int"), found
    assert "CHANGE COLUMN `s` `s` varchar(300)" in found
    followed.applied = frozenset({error.since})
    assert followed.read(start).rows_[-1][1] == {"n": "6", "id": "9", "s": "after"}
    followed.close()


BETWEEN = {
    "convert": "CONVERT TO CHARACTER SET utf8mb4",
    "default-charset": "DEFAULT CHARACTER SET utf8mb4, ADD COLUMN n TEXT, ADD COLUMN m CHAR(3) CHARACTER SET ascii",
    "check": "ADD COLUMN n INT, ADD CHECK (n > 0), ADD CONSTRAINT named CHECK (n > 1)",
    "quotes": "ADD COLUMN `n``n` VARCHAR(9) DEFAULT 'it''s \\\\' COMMENT 'a '' ; -- \\\\ /* `t` */ % %s (',"
    " COMMENT = 'it''s \\\\ %'",
    "moved": "MODIFY s VARCHAR(20) FIRST, ADD COLUMN g INT AS (a + 1) VIRTUAL",
}


@pytest.mark.parametrize("alter", BETWEEN.values(), ids=BETWEEN)
def test_what_the_targets_get_for_a_schema_change_makes_the_same_columns_of_the_old_table(
    box: Sandbox, alter: str
) -> None:
    """Lost: values that a column at the targets, of the character set from before, does not hold."""
    database = unique("ghost")
    box.source.execute(f"CREATE DATABASE {database} CHARACTER SET latin1")
    box.source.execute(
        "CREATE TABLE parent (id BIGINT UNSIGNED PRIMARY KEY)",
        "CREATE TABLE t (id BIGINT UNSIGNED PRIMARY KEY, a INT, s VARCHAR(20), e ENUM('it''s', 'b,)'), x BLOB,"
        " CONSTRAINT positive CHECK (a > 0), CONSTRAINT p FOREIGN KEY (id) REFERENCES parent (id)) COMMENT 'c'",
        "CREATE TABLE was LIKE t",
        database=database,
    )
    followed = Followed(box.source, box.targets[0], database, "t", follow=False)
    followed.selected[(database, "t")] = Selected(False, ("id",), applies=True)
    start = followed.here
    followed.sql("CREATE TABLE _t_gho LIKE t", f"ALTER TABLE _t_gho {alter}", "RENAME TABLE t TO _t_del, _t_gho TO t")
    error = followed.stopped(start)
    assert isinstance(error, ToBeApplied), error
    assert error.creates is not None
    found = between(*error.creates, "`was`")
    assert not [word for word in ("CHECK", "FOREIGN KEY", "CONSTRAINT") if word in found], found
    followed.sql(found)
    now, wanted = (read(followed.connection, database, table) for table in ("was", "t"))
    assert (now.columns, now.keys, now.options) == (wanted.columns, wanted.keys, wanted.options), found
    assert list(now.columns) == list(wanted.columns)
    followed.close()


def test_a_check_that_goes_is_dropped_at_the_targets_by_hand() -> None:
    create = "CREATE TABLE `{}` (\n  `id` int NOT NULL,\n  PRIMARY KEY (`id`){}\n) ENGINE=InnoDB"
    checked = create.format("t", ",\n  CONSTRAINT `t_chk_1` CHECK ((`id` > 0))")
    assert between(checked, create.format("_t_gho", ",\n  CONSTRAINT `x` CHECK ((`id` > 0))"), "`t`") == ""
    with pytest.raises(StopError, match=r"the CHECK \(\(`id` > 0\)\) goes") as error:
        between(checked, create.format("_t_gho", ""), "`t`")
    assert error.value.hint == "drop it there by hand"


def test_a_rename_that_changes_several_tables_is_applied_to_none(box: Sandbox) -> None:
    """Lost: the second table's change, as the statement counted as applied once the first one had it."""
    database = unique("ghost")
    box.source.execute(f"CREATE DATABASE {database}")
    box.source.execute(*(f"CREATE TABLE {one} (id BIGINT UNSIGNED PRIMARY KEY)" for one in "tu"), database=database)
    followed = Followed(box.source, box.targets[0], database, "t", "u", follow=False)
    followed.selected = {name: Selected(False, ("id",), applies=True) for name in followed.selected}
    start = followed.here
    for one in "tu":
        followed.sql(f"CREATE TABLE _{one}_gho LIKE {one}", f"ALTER TABLE _{one}_gho ADD COLUMN n INT")
    followed.sql("RENAME TABLE t TO _t_del, _t_gho TO t, u TO _u_del, _u_gho TO u")
    error = followed.stopped(start)
    assert not isinstance(error, ToBeApplied)
    assert "it changes several tables of the migration" in error.message
    assert "set tables[].ddl: ignore" in error.hint
    followed.close()


def test_a_change_without_other_columns_passes_under_stop(box: Sandbox, tool: list[str]) -> None:
    followed = made(box, follow=False)
    start = followed.here
    followed.sql(*statements(followed, tool, "ADD INDEX (s), ENGINE=InnoDB"), "INSERT INTO t VALUES (6, 9, 'after')")
    assert followed.read(start).rows_[-1][1] == {"id": "6", "a": "9", "s": "after"}
    followed.close()


def test_a_ghost_made_before_anyone_looked_is_known_by_the_columns_in_the_log(box: Sandbox, tool: list[str]) -> None:
    followed = made(box, follow=True)
    lines = statements(followed, tool, ALTER)
    rename = next(number for number, line in enumerate(lines) if line.startswith("RENAME"))
    followed.sql(*lines[:rename])
    start = followed.here
    followed.sql(*lines[rename:], "INSERT INTO t VALUES (6, 9, 'after')")
    assert followed.read(start).rows_[-1][1] == {"n": "6", "id": "9", "s": "after"}
    followed.close()


@pytest.mark.parametrize(
    ("name", "table", "expected"),
    [
        ("_t_gho", "t", True),
        ("_t_new", "t", True),
        ("____t_new", "t", True),
        ("_t_ghc", "t", False),
        ("_t_del", "t", False),
        ("t_new", "t", False),
        ("_tt_gho", "t", False),
        ("_" + "x" * 59 + "_gho", "x" * 64, True),
        ("_" + "x" * 60 + "_gho", "x" * 60, False),  # 65 characters, so it is shortened
    ],
)
def test_the_names_of_ghost_tables(name: str, table: str, expected: bool) -> None:
    assert is_ghost(("d", name), ("d", table)) is expected
    assert not is_ghost(("other", name), ("d", table))
