"""Tables that number the documents of their full-text keys themselves: InnoDB takes their rows in one order only."""

from __future__ import annotations

import pymysql
import pytest

from migrate.copy.refused_rows import is_of_a_row
from migrate.mysql.errors import text
from migrate.preflight.result import Verdict
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
