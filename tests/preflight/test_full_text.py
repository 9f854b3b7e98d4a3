"""Full-text keys: whose documents the rows number, so that InnoDB takes them in one order only, and whose words the
server's settings choose."""

from __future__ import annotations

from dataclasses import replace

import pymysql
import pytest

from migrate.copy.refused_rows import is_of_a_row
from migrate.model.table import Table
from migrate.mysql.errors import text
from migrate.preflight.result import Verdict
from migrate.preflight.schema import full_text
from migrate.settings import parse
from tests.helpers import globally, int_column, plan_of, raw_settings
from tests.preflight.support import Case, session

TABLE = "CREATE TABLE f (id INT PRIMARY KEY, FTS_DOC_ID BIGINT UNSIGNED NOT NULL, v TEXT, {}UNIQUE KEY (FTS_DOC_ID))"


def test_a_target_table_without_the_full_text_key_takes_rows_in_any_order_and_is_taken(case: Case) -> None:
    case.at_source(TABLE.format("FULLTEXT KEY words (v), "))
    case.raw["tables"] = [{"name": f"{case.database}.f", "sharding": {"nodes": "ds_0.f"}}]
    (refused,) = case.report(services=True).problems
    assert "FTS_DOC_ID" in refused.message
    target = case.box.targets[0]
    target.execute(f"CREATE DATABASE {case.database}")
    target.execute(TABLE.format("FULLTEXT KEY words (v), "), database=case.database)
    (found,) = case.report(services=True).problems
    assert (found.subject, found.verdict) == (f"t0/{case.database}.f", Verdict.PROBLEM)
    assert found.mend.startswith("drop `words` there")
    with session(target) as connection:
        connection.execute(f"INSERT INTO {case.database}.f VALUES (1, 9, 'nine')")
        with pytest.raises(pymysql.MySQLError) as error:
            connection.execute(f"INSERT INTO {case.database}.f VALUES (2, 5, 'five')")
    assert (text(error.value), is_of_a_row(error.value)) == ("Invalid InnoDB FTS Doc ID (error 182)", True)
    target.execute(f"DROP TABLE {case.database}.f")
    target.execute(TABLE.format(""), database=case.database)
    assert case.report(services=True).problems == []


def test_settings_by_which_a_search_finds_other_rows_are_a_note(case: Case) -> None:
    case.at_source("CREATE TABLE f (id INT PRIMARY KEY, v TEXT, FULLTEXT KEY (v))")
    case.raw["tables"].append({"name": f"{case.database}.f", "sharding": {"nodes": "ds_0.f"}})
    with globally(case.box.targets[0], "innodb_ft_enable_stopword", 0):
        ((verdict, message, mend),) = [
            (one.verdict, one.message, one.mend)
            for one in case.report(services=True).results
            if one.check == "full text"
        ]
    assert verdict is Verdict.NOTE
    assert message.startswith("target 't0': stop words are none, and the built-in list at source 's'")
    assert message.endswith(f"by the full-text keys of {case.database}.f")
    assert mend


def test_tables_of_stop_words_are_compared_word_for_word(case: Case) -> None:
    case.at_source("CREATE TABLE f (id INT PRIMARY KEY, v TEXT, FULLTEXT KEY (v))")
    source, target, name = case.box.source, case.box.targets[0], case.database
    plain, words = Table("s", name, "f", (int_column("id"),), ("id",)), f"{name}/words"
    settings = parse(case.raw | {"tables": [{"name": f"{name}.f", "sharding": {"nodes": "ds_0.f"}}]}, {})

    def told() -> str:
        with session(source) as there, session(target) as here:
            assert full_text.look(there, [replace(plain, name="t")]) is None
            indexed = full_text.look(there, [plain])
            assert indexed is not None
            (found,) = full_text.check_target(here, plan_of(plain, settings=settings), "t0", {"s": indexed})
            return "" if found.verdict is Verdict.PASS else found.message

    assert told() == ""
    target.execute(f"CREATE DATABASE {name}")
    for server, values in ((source, "('der'), ('die')"), (target, "('der'), ('das'), ('dem')")):
        server.execute("CREATE TABLE words (value VARCHAR(30)) ENGINE = InnoDB", database=name)
        server.execute(f"INSERT INTO words VALUES {values}", database=name)
    with globally(source, "innodb_ft_server_stopword_table", words):
        assert f"stop words are the built-in list, and table {words} at source 's'" in told()
        with globally(target, "innodb_ft_server_stopword_table", words):
            assert f"table {words} of stop words lacks 1 of those at source 's', and has 2 others" in told()
            target.execute("DELETE FROM words", "INSERT INTO words VALUES ('die'), ('DER')", database=name)
            assert told() == ""
            target.execute("DROP TABLE words", database=name)
            assert f"table {words} of stop words cannot be read, here or at source 's', and may differ" in told()


def test_sizes_of_words_are_noted_where_a_key_goes_by_them() -> None:
    def how(least: str, pieces: str) -> full_text.FullText:
        sizes = {"innodb_ft_min_token_size": least, "ngram_token_size": pieces}
        return full_text.FullText(sizes, "the built-in list", None)

    plain, cut = (Table("s", "d", name, (int_column("id"),), ("id",)) for name in ("plain", "cut"))
    raw = raw_settings(
        tables=[{"name": f"d.{one.name}", "sharding": {"nodes": f"ds_0.{one.name}"}} for one in (plain, cut)]
    )
    plan = plan_of(plain, cut, settings=parse(raw, {}))
    indexed = full_text.Indexed(how("3", "2"), frozenset({plain.id, cut.id}), frozenset({cut.id}))
    found = [*full_text.compared("target 't0'", plan, "t0", {"s": indexed}, lambda: how("2", "3"))]
    told = {one.message.split(": ")[1]: one.message.rpartition(" of ")[2] for one in found}
    assert told == {
        "innodb_ft_min_token_size is 2, and 3 at source 's'": "d.cut, d.plain",
        "ngram_token_size is 3, and 2 at source 's'": "d.cut",
    }
    assert [*full_text.compared("target 't1'", plan, "t1", {"s": indexed}, lambda: how("2", "3"))] == []
