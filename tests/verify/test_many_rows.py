"""One byte in many rows, and two rows that swapped a value, are found by the sums of chunks; masses of rows that the
source does not have are summed up in parts. Without Spark. `ROWS=10000000` plants among so many (docs/reliability.md).
"""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from migrate.chunks.sessions import Sessions, forget
from migrate.chunks.sessions import kept as kept_sessions
from migrate.model.chunk import Chunk
from migrate.mysql.connection import log_statements
from migrate.mysql.quoting import quote
from migrate.target.pool import TargetPool
from migrate.verify import target_split
from migrate.verify.chunk_check import MAX_BYTES, MAX_SUSPECTS, CheckJob, check_chunk
from migrate.verify.table_check import TableCheck
from migrate.verify.verified import TableVerified
from sandbox.stack import Sandbox
from tests.copy.setup import Laid, lay, spread

ROWS = int(os.environ.get("ROWS", "120000"))  # tens of thousands, or tens of millions
CHUNK = max(5000, ROWS // 400)
CREATE = "CREATE TABLE {t} (id BIGINT PRIMARY KEY, user_id INT, amount DECIMAL(12,2), note VARCHAR(70))"
FILL = (
    "INSERT INTO {t} SELECT n, n % 977, n / 100, CONCAT('note ', SHA2(n, 224)) FROM"
    " (SELECT 1 + a.n + 100 * b.n + 10000 * c.n + 1000000 * d.n AS n FROM seq AS a, seq AS b, seq AS c, seq AS d"
    f" WHERE c.n < {min(100, ROWS // 10_000)} AND d.n < {max(1, ROWS // 1_000_000)}) AS numbers"
)
SEQ = (
    "CREATE TABLE seq (n INT PRIMARY KEY)",
    "INSERT INTO seq WITH RECURSIVE r (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM r WHERE n < 99) SELECT n FROM r",
)


@pytest.fixture
def laid(box: Sandbox, tmp_path: Path) -> Laid:
    extra = {"verify": {"chunk_rows": CHUNK, "rechecks": 1, "recheck_seconds": 0.1}}
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
            check.settle([check_chunk(job, chunk) for chunk in wave])
        found = check.finish()
    forget()
    return found


@pytest.mark.timeout(120 + ROWS / 5000)
def test_one_byte_and_two_rows_that_swapped_a_value_are_found_among_many(laid: Laid) -> None:
    clean = verified(laid)
    assert (clean.rows, clean.target_rows, clean.differences, clean.chunks > 20) == (ROWS, ROWS, 0, True)
    key, step = ROWS // 120_000 * 77_777, len(laid.table.places)
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


@pytest.mark.skipif(ROWS != 120_000, reason="with the usual number of rows")
@pytest.mark.parametrize(("kept", "left"), [("id <= 1000 OR id > 119000", 2000), ("id < 0", 0)], ids=["gap", "empty"])
def test_masses_of_rows_that_the_source_does_not_have_are_summed_up_in_parts_and_not_all_read(
    laid: Laid, kept: str, left: int
) -> None:
    laid.box.source.execute(f"DELETE FROM t WHERE NOT ({kept})", database=laid.source)
    log_statements(True)
    with capture_logs() as told:
        found = verified(laid)
    log_statements(False)
    assert (found.rows, found.target_rows, found.differences) == (left, ROWS, ROWS - left)
    assert len(found.named) == laid.settings.verify.max_named
    assert {one.kind.value for one in found.named} == {"extra"}
    assert all(1000 < int(one.key[0]) <= 119_000 or not left for one in found.named)
    sums = [line["server"] for line in told if str(line.get("statement")).startswith("SELECT COUNT(*), HEX(")]
    looks, pages = 2, (ROWS - left) // len(laid.table.places) // CHUNK
    assert sums.count("target 't0'") >= looks * pages * 2

    gap = Chunk(0, ("1000",), ("119000",))
    with closing(TargetPool(laid.settings)) as pool:
        ranges = target_split.parts(pool, laid.table, gap, 0, CHUNK, MAX_BYTES)
    assert (ranges[0].low, ranges[-1].high) == (gap.low, gap.high)
    assert [one.low for one in ranges[1:]] == [one.high for one in ranges[:-1]]
    between = (f"id > {int((one.low or '0')[0])} AND id <= {int((one.high or '0')[0])}" for one in ranges)
    most = [max(rows[0][0] for rows in laid.target_rows("COUNT(*)", where).values()) for where in between]
    assert max(most) == CHUNK

    checked = check_chunk(CheckJob(laid.settings, (laid.table,)), gap)
    assert (len(checked.suspects.keys), checked.suspects.more) == (MAX_SUSPECTS, 118_000 - checked.rows - MAX_SUSPECTS)
    targets = kept_sessions(laid.settings).targets
    servers = dict.fromkeys(one.target for one in laid.table.databases)
    sent = [targets.server(one).query("SHOW SESSION STATUS LIKE 'Bytes_sent'")[0][1] for one in servers]
    assert sum(map(int, sent)) < 118_000 * 40 / 2, "every key was read"
    forget()
