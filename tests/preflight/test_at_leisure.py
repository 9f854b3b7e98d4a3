"""What `migrate preflight` looks at beyond what init needs, at real servers: each thing planted, found, and mended."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from migrate.commands.init import initialise
from migrate.model.errors import ConfigError, PreflightError, ServerError
from migrate.preflight import run as preflight
from migrate.preflight.capacity import retention, space
from migrate.preflight.capacity.volume import Volume
from migrate.preflight.result import Result, Verdict
from migrate.preflight.schema import auto_increment, charsets, shards, unique_keys
from migrate.preflight.server import clocks, packet, sql_mode, time_zones, versions
from tests.helpers import globally, unique
from tests.preflight.support import BY_USER, Case, one, session


def test_every_check_runs_and_all_of_it_passes_or_is_advice(case: Case) -> None:
    report = case.report(services=True)
    assert not report.problems
    assert {
        *("binlog", "charset", "clock", "counters", "kafka", "packet", "retention", "sharding", "space", "sql_mode"),
        *("state", "table", "target", "time zone", "unique keys", "version"),
    } <= {result.check for result in report.results}
    assert {result.check for result in case.report().results}.isdisjoint(
        {"sharding", "space", "version"}
    )  # as for init


def test_a_server_that_refuses_and_a_table_that_is_not_there_hide_no_other_check(case: Case) -> None:
    case.raw["tables"].append({"name": f"{case.database}.missspelt", "sharding": {"nodes": "ds_0.missspelt"}})
    results = case.report(services=True).results
    assert [one.subject for one in results if one.verdict is Verdict.PROBLEM] == [f"{case.database}.missspelt"]
    assert {"sharding", "retention", "state", "topic", "grants"} <= {one.check for one in results}

    case.at_source("CREATE TABLE u LIKE t")
    elsewhere = {**BY_USER, "table": {**BY_USER["table"], "column": "no"}}
    case.raw["tables"][1] = {"name": f"{case.database}.u", "sharding": elsewhere}
    results = case.report(services=True).results
    assert [one.subject for one in results if one.verdict is Verdict.PROBLEM] == [f"{case.database}.u"]
    assert {"sharding", "counters", "retention", "unique keys", "space"} <= {one.check for one in results}
    with pytest.raises(ConfigError, match="has no column 'no'"):
        initialise(case.settings)
    del case.raw["tables"][1]

    for section, index in (("targets", 1), ("sources", 0)):
        case.raw[section][index]["password"] = "wrong-one"
        report = case.report(services=True)
        refused = [one for one in report.results if one.verdict is Verdict.UNKNOWN and one.check == section[:-1]]
        assert [one.subject for one in refused] == [case.raw[section][index]["name"]], "once"
        assert {"target", "state", "kafka", "topic", "space"} <= {one.check for one in report.results}
    with pytest.raises(ServerError, match="wrong user or password"):
        case.report()  # as for init


def test_versions_that_are_too_old_are_a_problem_and_untested_ones_are_told(case: Case) -> None:
    said = {
        "mysql": {"5.7.44-log": "problem", "8.0.36": "note", "9.7.4": "pass"},
        "mariadb": {"5.5.5-10.4.2-MariaDB": "problem", "10.6.2-MariaDB": "note", "11.8.6-MariaDB-log": "pass"},
    }
    with session(case.box.source) as connection:
        for reported, verdict in said[connection.flavour].items():
            assert one(versions.check(connection, reported)).verdict == verdict, reported
        if connection.flavour == "mysql":
            too_old = one(versions.check(connection, "5.7.44-log"))
            assert "mysql 8.0 or later is needed: as a source it would do" in too_old.mend
            for reported, verdict in {
                "5.5.62": "problem",
                "5.6.24-log": "pass",
                "5.7.44": "note",
                "8.4.2": "note",
            }.items():
                assert one(versions.check(connection, reported, source=True)).verdict == verdict, reported


def test_target_tables_that_init_would_refuse_are_named_all_of_them(case: Case) -> None:
    def told(*, reverse: bool = False) -> dict[str, str]:
        results = preflight.run(case.settings, services=True, reverse=reverse).results
        found = [one for one in results if one.check == "target table"]
        return {one.subject: one.message if one.verdict is Verdict.PROBLEM else str(one.verdict) for one in found}

    fine = {"t0": "pass", "t1": "pass"}
    case.raw["name"] = unique("first")
    assert told() == {}, "none is there"
    initialise(case.settings)
    assert told() == fine
    database, (first, second) = case.database, case.box.targets
    first.execute("INSERT INTO t_0 (id, user_id) VALUES (2, 2)", database=database)
    assert told() == fine, "they have rows since the copy"
    case.raw["name"] = unique("second")  # a migration for which they are somebody else's
    assert told() == {f"t0/{database}.t_0": f"t0/{database}.t_0 has rows already", "t1": "pass"}
    assert told(reverse=True) == fine, "the places of a reverse stream have rows"
    second.execute("ALTER TABLE t_0 MODIFY v VARCHAR(39)", "ALTER TABLE t_1 DROP v, ADD w INT", database=database)
    source, found = f"{database}.t", told()
    assert found == {
        f"t0/{database}.t_0": f"t0/{database}.t_0 has rows already",
        f"t1/{database}.t_0": f"t1/{database}.t_0 has other columns than {source}: v (varchar(39) for varchar(40))",
        f"t1/{database}.t_1": f"t1/{database}.t_1 has other columns than {source}: v (missing), w (not at the source)",
    }


def test_a_unique_key_on_another_part_or_expression_is_refused_where_it_would_refuse_rows(case: Case) -> None:
    """Lost: the catalog has no column's name for either, and any two of them were taken for one."""
    of_mysql = case.box.flavour == "mysql"
    key = "((CONCAT(v, '{0}')))" if of_mysql else "(v({0}), user_id)"
    case.at_source(f"ALTER TABLE t ADD UNIQUE KEY x (v(3)), ADD UNIQUE KEY y {key.format(7)}")
    case.raw["name"] = unique("parts")
    initialise(case.settings)
    (first, second), database = case.box.targets, case.database
    first.execute("ALTER TABLE t_0 DROP KEY x, ADD UNIQUE KEY x (v(5))", database=database)  # which refuses less
    first.execute("ALTER TABLE t_1 DROP KEY x, ADD UNIQUE KEY x (v(2))", database=database)
    other = "ADD UNIQUE KEY z ((CONCAT(v, '8')))" if of_mysql else "ADD UNIQUE KEY z (user_id, v(2))"
    second.execute(f"ALTER TABLE t_0 DROP KEY x, {other}", database=database)
    told = {one.subject: one.message for one in case.report(services=True).problems if one.check == "target table"}
    assert {*told} == {f"t0/{database}.t_1", f"t1/{database}.t_0"}
    assert "(`v`(2)); it would refuse rows" in told[f"t0/{database}.t_1"]
    with pytest.raises(PreflightError, match=r"has unique keys .*: \(`v`\(2\)\);"):
        initialise(case.settings)


def test_target_tables_with_other_keys_are_named_and_refused_where_they_would_refuse_rows(case: Case) -> None:
    case.at_source("ALTER TABLE t ADD UNIQUE KEY of_source (v)")
    case.raw["name"] = unique("keys")
    initialise(case.settings)
    (first, second), database = case.box.targets, case.database
    first.execute(
        "ALTER TABLE t_0 MODIFY id BIGINT UNSIGNED NOT NULL, DROP PRIMARY KEY, ADD PRIMARY KEY (user_id)",
        "ALTER TABLE t_1 ADD UNIQUE KEY wider (user_id, id), ADD UNIQUE KEY apart (user_id)",
        database=database,
    )
    second.execute(
        "ALTER TABLE t_0 DROP KEY of_source",
        "ALTER TABLE t_1 ADD UNIQUE KEY wider (user_id, v), ADD KEY plain (user_id)",
        database=database,
    )
    results = [one for one in case.report(services=True).results if one.check == "target table"]
    stricter = f"has unique keys that {database}.t does not have: (user_id); it would refuse rows that the source takes"
    looser = f"lacks the unique keys (v) of {database}.t: after the switch it accepts a value twice"
    assert {one.subject: (one.verdict, one.message.removeprefix(f"{one.subject} ")) for one in results} == {
        f"t0/{database}.t_0": (Verdict.PROBLEM, f"has no key (id), which {database}.t goes by"),
        f"t0/{database}.t_1": (Verdict.PROBLEM, stricter),
        f"t1/{database}.t_0": (Verdict.NOTE, looser),
    }
    assert {one.mend for one in results} == {"`migrate drain`, then alter it to match", "add them before the switch"}
    with pytest.raises(PreflightError, match=r"has no key \(id\)"):
        initialise(case.settings)
    first.execute("ALTER TABLE t_0 DROP PRIMARY KEY, MODIFY user_id BIGINT, ADD PRIMARY KEY (id)", database=database)
    with pytest.raises(PreflightError, match=r"has unique keys .*: \(user_id\);"):
        initialise(case.settings)
    first.execute("ALTER TABLE t_1 DROP KEY apart", database=database)
    initialise(case.settings)


@pytest.mark.parametrize(("seconds", "verdict"), [(0, Verdict.PASS), (20, Verdict.NOTE), (-7200, Verdict.PROBLEM)])
def test_a_clock_that_is_wrong_is_told_with_how_much(case: Case, seconds: int, verdict: Verdict) -> None:
    with session(case.box.source) as connection:
        connection.execute("SET timestamp = UNIX_TIMESTAMP(NOW(6)) + %s", [seconds] if seconds else [0])
        found = one(clocks.check(connection))
    assert found.verdict is verdict, found.message
    assert f"{abs(seconds)} s from" in found.message or not seconds


def test_a_target_with_a_smaller_packet_is_a_problem_that_the_statement_mends(case: Case) -> None:
    target = case.box.targets[1]
    before = int(target.query("SELECT @@GLOBAL.max_allowed_packet")[0][0])
    with globally(target, "max_allowed_packet", before // 2):
        with session(target) as connection:
            found = one(packet.check_target(connection, before))
        assert found.verdict is Verdict.PROBLEM
        target.execute(found.mend.partition(",")[0])
        with session(target) as connection:
            assert one(packet.check_target(connection, before)).verdict is Verdict.PASS


def test_modes_that_applications_would_miss_are_noted_with_the_statement(case: Case) -> None:
    target = case.box.targets[1]
    with session(case.box.source) as connection:
        wanted = sql_mode.of(connection)
    with globally(target, "sql_mode", "ANSI_QUOTES"):
        with session(target) as connection:
            found = one(sql_mode.check_target(connection, wanted))
        assert found.verdict is Verdict.NOTE
        assert "ANSI_QUOTES only at the target; " in found.message
        target.execute(found.mend.partition(", for good")[0])
        with session(target) as connection:
            assert one(sql_mode.check_target(connection, wanted)).verdict is Verdict.PASS


def test_modes_that_the_target_does_not_have_are_left_out_of_the_statement(case: Case) -> None:
    target = case.box.targets[1]
    with session(target) as connection:
        wanted = sql_mode.of(connection) | {"NO_SUCH_MODE", "ANSI_QUOTES"}  # as of the other flavour
        (before,) = connection.one("SELECT @@SESSION.sql_mode") or ("",)
        found = one(sql_mode.check_target(connection, wanted))
        assert connection.one("SELECT @@SESSION.sql_mode") == (before,)
    assert "ANSI_QUOTES, NO_SUCH_MODE only at the source" in found.message
    assert found.mend.endswith("; this server does not have NO_SUCH_MODE")
    with globally(target, "sql_mode", ""):
        target.execute(found.mend.partition(", for good")[0])
        with session(target) as connection:
            found = one(sql_mode.check_target(connection, wanted))
            assert "; NO_SUCH_MODE only at the source" in found.message.replace("switch: ", "; ")
            assert found.mend == "this server does not have NO_SUCH_MODE, and has the others"


def test_the_zone_of_a_machine_is_told_as_an_offset_where_it_has_no_summer_time() -> None:
    def mend(*reads: str) -> str:
        return time_zones.Zone("XST", reads, of_machine=True).mend

    assert mend("2025-01-15 09:00:00", "2025-07-15 09:00:00").startswith("SET GLOBAL time_zone = '-03:00', for good")
    assert mend("2025-01-15 17:30:00", "2025-07-15 17:30:00").startswith("SET GLOBAL time_zone = '+05:30', for good")
    assert "the full name (as Europe/Berlin)" in mend("2025-01-15 13:00:00", "2025-07-15 14:00:00")
    assert "SET" not in mend("2025-01-15 13:00:00", "2025-07-15 14:00:00")


def test_a_time_zone_that_applications_would_meet_is_noted_with_the_statement(case: Case) -> None:
    source, target = case.box.source, case.box.targets[1]
    with globally(source, "time_zone", "+02:00"):
        with session(source) as connection:
            wanted = time_zones.of(connection)
            assert connection.one("SELECT @@time_zone") == ("+00:00",)
        with session(target) as connection:
            found = one(time_zones.check_target(connection, frozenset({wanted})))
        assert (found.verdict, " and +02:00 at the source" in found.message) == (Verdict.NOTE, True), found.message
        with globally(target, "time_zone", "+01:00"):
            target.execute(found.mend.partition(", for good")[0])
            with session(target) as connection:
                assert one(time_zones.check_target(connection, frozenset({wanted}))).verdict is Verdict.PASS
    with session(source) as connection, session(target) as other:
        assert one(time_zones.check_target(other, frozenset({time_zones.of(connection)}))).verdict is Verdict.PASS


def test_a_collation_that_the_target_has_not_is_a_problem(case: Case) -> None:
    planned, flavours = case.table(), case.report().flavours
    with session(case.box.targets[0]) as connection:
        assert one(charsets.check_target(connection, [planned], flavours)).verdict is Verdict.PASS
        other = {"s": "mysql" if flavours["s"] == "mariadb" else "mariadb"}
        column = planned.table.by_name["v"]
        object.__setattr__(column, "collation", "utf8mb4_0900_of_tomorrow_ci")
        found = one(charsets.check_target(connection, [planned], flavours))
        assert (found.verdict, found.subject) == (Verdict.PROBLEM, "utf8mb4_0900_of_tomorrow_ci")
        assert one(charsets.check_target(connection, [planned], other)).verdict is Verdict.PASS  # by mixed_flavours


def test_unique_keys_that_target_tables_cannot_hold_to_are_named(case: Case) -> None:
    case.at_source(
        "ALTER TABLE t ADD UNIQUE KEY apart (v), ADD UNIQUE KEY together (v, user_id, id)",
    )
    told = [result.message for result in unique_keys.check(case.plan())]
    assert [line.partition(" lacks ")[0].partition(": ")[2] for line in told] == ["key (id)", "unique key (v)"]
    assert "lacks id, user_id, which the sharding rule goes by: 4 target tables" in told[1]
    case.raw["tables"][0]["sharding"] = {"nodes": "ds_0.t"}
    assert one(unique_keys.check(case.plan())).verdict is Verdict.PASS


def counted(case: Case) -> Result:
    plan = case.plan()
    with session(case.box.source) as connection:
        seen = {id_: auto_increment.look(connection, planned) for id_, planned in plan.tables.items()}
    return one(list(auto_increment.check(plan, seen, {})))


def test_ranges_of_ids_keep_target_tables_apart(case: Case) -> None:
    """The statements that are advised, run at the targets: four tables give ids that differ from all others."""
    by_id = counted(case)
    assert "have the application make values of id" in by_id.mend, "the table is chosen by it"
    case.raw["tables"][0]["sharding"] = {**BY_USER, "table": {**BY_USER["table"], "column": "user_id"}}
    found = counted(case)
    statements = found.mend.partition(": ")[2].split("; ")[:3]
    given: set[int] = set()
    for server in case.box.targets:
        server.execute(f"CREATE DATABASE {case.database}")
    try:
        for text in statements:
            target, _, statement = text.partition(": ")
            server, table = case.box.targets[int(target[1:])], "t_0" if "t_0" in statement else "t_1"
            server.execute(f"CREATE TABLE {case.database}.{table} (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY)")
            server.execute(statement, f"INSERT INTO {case.database}.{table} VALUES ()")
            given.add(int(server.query(f"SELECT MAX(id) FROM {case.database}.{table}")[0][0]))
    finally:
        for server in case.box.targets:
            server.execute(f"DROP DATABASE {case.database}")
    assert len(given) == 3
    assert min(given) > 900
    case.at_source("ALTER TABLE t MODIFY id SMALLINT UNSIGNED AUTO_INCREMENT")
    assert "SMALLINT" in counted(case).mend.upper()
    case.raw["tables"][0]["sharding"] = {"nodes": "ds_0.t"}
    assert counted(case).verdict is Verdict.PASS, "one table gives no id twice"


def test_a_binlog_that_is_kept_for_less_than_the_copy_takes_is_a_problem(case: Case) -> None:
    name = "binlog_expire_logs_seconds"
    copy = Volume(rows=20_000 * 86_400 * 3)  # three days
    for seconds, verdict in ((86_400, Verdict.PROBLEM), (4 * 86_400, Verdict.NOTE), (0, Verdict.PASS)):
        with globally(case.box.source, name, seconds), session(case.box.source) as connection:
            found = one(retention.check(connection, copy))
            assert found.verdict is verdict, found.message
            if found.mend:
                case.box.source.execute(found.mend.partition(",")[0])
                assert one(retention.check(connection, copy)).verdict is Verdict.PASS
    assert one(retention.check_kafka(24, copy)).mend == "kafka.retention_hours: 145"
    assert one(retention.check_kafka(145, copy)).verdict is Verdict.PASS


def test_what_the_targets_need_is_told_and_a_full_disk_of_this_machine_too(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with session(case.box.targets[0]) as connection:
        disks = {"t0": space.look(connection)}
    assert "target 't0': needs about 5.0 GiB" in one(list(space.check_targets(disks, {"t0": 5 * 1024**3}))).message
    free = shutil.disk_usage(tmp_path).free
    monkeypatch.setattr(space, "_LEAST", free * 2)
    assert one(space.check_here(tmp_path / "not" / "there")).verdict is Verdict.NOTE
    monkeypatch.setattr(space, "_LEAST", 1)
    assert one(space.check_here(tmp_path)).verdict is Verdict.PASS


def _looked(case: Case) -> Result:
    with session(case.box.source) as connection:
        return one(shards.check(connection, case.table(), {}))


PLANTED: list[tuple[str, Verdict, str]] = [
    ("SET user_id = user_id", Verdict.PASS, "900 rows looked at go to 4 of 4 tables, skew 1."),
    ("SET user_id = 7", Verdict.NOTE, "go to 2 of 4 tables, skew 2.00"),
    (
        "SET user_id = NULL WHERE id = 5",
        Verdict.PROBLEM,
        "takes 1 of 900 rows looked at to no table; none like id = 5, user_id",
    ),
    ("SET user_id = NULL WHERE id IN (5, 9, 700)", Verdict.PROBLEM, "takes 3 of 900 rows looked at to no table"),
]


@pytest.mark.parametrize(("change", "verdict", "told"), PLANTED)
def test_how_rows_spread_and_those_that_no_table_takes(case: Case, change: str, verdict: Verdict, told: str) -> None:
    case.at_source(f"UPDATE t {change}")
    if verdict is Verdict.NOTE:
        case.at_source("DELETE FROM t WHERE id % 2 = 0")
        told = "go to 1 of 4 tables, skew 4.00"
    found = _looked(case)
    assert (found.verdict, told in found.message) == (verdict, True), found.message
    if verdict is Verdict.PROBLEM:
        case.raw["tables"][0]["rows"] = [{"column": "user_id", "at_least": 0}]
        assert _looked(case).verdict is Verdict.PASS
        case.raw["tables"][0].pop("rows")
        case.at_source("UPDATE t SET user_id = 1 WHERE user_id IS NULL")
        assert _looked(case).verdict is Verdict.PASS
    if verdict is Verdict.PASS:
        for user, id_ in ((0, 0), (0, 1), (1, 0), (1, 1)):
            where = f"user_id % 2 = {user} AND id % 2 = {id_}"
            ((count,),) = case.box.source.query(f"SELECT COUNT(*) FROM t WHERE {where}", database=case.database)
            assert f"t{user}/{case.database}.t_{id_} {count}" in found.message


def test_of_many_target_tables_those_with_the_most_and_the_fewest_rows_are_told(case: Case) -> None:
    case.raw["tables"][0]["sharding"] = {
        "nodes": "ds_${0..1}.t_${0..15}",
        "database": BY_USER["database"],
        "table": {"column": "id", "algorithm": "MOD", "props": {"sharding-count": 16}},
    }
    case.at_source("UPDATE t SET user_id = id DIV 16", "UPDATE t SET user_id = user_id + 1 WHERE id % 32 = 5")
    message = _looked(case).message  # 900 rows are 28 or 29 a table; those of one went to another one
    assert message.count(f"{case.database}.t_") == 8, message
    assert f": t1/{case.database}.t_5 " in message, message
    assert message.endswith(f", t0/{case.database}.t_5 0"), message
