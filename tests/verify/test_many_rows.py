"""One byte in many rows, and two rows that swapped a value, are found by the sums of chunks; without Spark."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from migrate.mysql.quoting import quote
from migrate.scroll.check import CheckJob, check_chunk
from migrate.scroll.sessions import Sessions, forget
from migrate.verify.table_check import TableCheck, TableVerified
from sandbox.stack import Sandbox
from tests.scroll.setup import Laid, lay, spread

ROWS = 120_000
CREATE = "CREATE TABLE {t} (id BIGINT PRIMARY KEY, user_id INT, amount DECIMAL(12,2), note VARCHAR(70))"
FILL = (
    "INSERT INTO {t} SELECT n, n % 977, n / 100, CONCAT('note ', SHA2(n, 224)) FROM"
    " (SELECT 1 + a.n + 100 * b.n + 10000 * c.n AS n FROM seq AS a, seq AS b, seq AS c WHERE c.n < 12) AS numbers"
)
SEQ = (
    "CREATE TABLE seq (n INT PRIMARY KEY)",
    "INSERT INTO seq WITH RECURSIVE r (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM r WHERE n < 99) SELECT n FROM r",
)


@pytest.fixture
def laid(box: Sandbox, tmp_path: Path) -> Laid:
    extra = {"verify": {"chunk_rows": 5000, "rechecks": 1, "recheck_seconds": 0.1}}
    laid = lay(box, tmp_path, CREATE, spread("id", "t"), fill=[*SEQ, FILL], extra=extra)
    assert laid.source_rows("COUNT(*)") == [(ROWS,)]
    step = len(laid.table.places)
    for index, place in enumerate(laid.table.places):
        (key,) = [key for key in range(1, 1 + step) if laid.table.rule.route_many([[str(key)]]) == [index]]
        with closing(laid.connect(index)) as connection:
            if "seq" not in {row[0] for row in connection.query("SHOW TABLES")}:
                for statement in SEQ:
                    connection.execute(statement)
            mine = f"{FILL} WHERE n % {step} = {key % step}".replace("{t}", quote(place.table))
            connection.execute(mine.replace("%", "%%"))
    return laid


def verified(laid: Laid) -> TableVerified:
    job = CheckJob(laid.settings, (laid.table,))
    with closing(Sessions(laid.settings)) as sessions:
        check = TableCheck(laid.settings, (laid.table,), sessions)
        while wave := check.wave(8):
            check.settle([check_chunk(job, key_range) for key_range in wave])
        found = check.finish()
    forget()
    return found


def test_one_byte_and_two_rows_that_swapped_a_value_are_found_among_many(laid: Laid) -> None:
    clean = verified(laid)
    assert (clean.rows, clean.target_rows, clean.differences, clean.chunks > 20) == (ROWS, ROWS, 0, True)
    key, step = 77_777, len(laid.table.places)
    home = laid.table.rule.route_many([[str(key)]])[0]
    name = quote(laid.table.places[home].table)
    with closing(laid.connect(home)) as connection:
        (before,) = connection.query(f"SELECT note FROM {name} WHERE id = {key}")
        changed = before[0][:40] + chr(ord(before[0][40]) ^ 1) + before[0][41:]
        assert connection.execute(f"UPDATE {name} SET note = %s WHERE id = {key}", [changed]) == 1
    found = verified(laid)
    assert [(one.key, one.kind.value, one.detail.rpartition(": ")[2]) for one in found.named] == [
        ((str(key),), "different", "note")
    ]
    assert (found.differences, found.rows, found.target_rows) == (1, ROWS, ROWS)
    with closing(laid.connect(home)) as connection:
        connection.execute(f"UPDATE {name} SET note = %s WHERE id = {key}", [before[0]])
        other, ids = key + step, f"id IN ({key}, {key + step})"
        (mine,), (theirs,) = connection.query(f"SELECT note FROM {name} WHERE {ids} ORDER BY id")
        assert len(mine) == len(theirs)
        connection.execute(f"UPDATE {name} SET note = IF(id = {key}, %s, %s) WHERE {ids}", [theirs, mine])
    found = verified(laid)
    assert sorted(one.key for one in found.named) == [(str(key),), (str(other),)]
    assert {one.kind.value for one in found.named} == {"different"}
