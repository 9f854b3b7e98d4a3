"""A chunk compared by one sum of each side: equal exactly when both sides have the same rows, each at its place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from migrate.chunks.sessions import Sessions, forget
from migrate.model.chunk import Chunk
from migrate.mysql.quoting import quote
from migrate.verify import checksum, digest
from migrate.verify.checksum import ChunkSum, Form
from migrate.verify.chunk_check import CheckJob, compare_chunk
from sandbox.stack import Sandbox
from tests.copy.setup import Laid, lay, one_place, spread
from tests.helpers import globally
from tests.verify.test_digest import PAIRS

EVERYTHING = Chunk(0, None, None)
CREATE = "CREATE TABLE {t} (id INT PRIMARY KEY, v VARCHAR(20))"
JSON = "CREATE TABLE {t} (id INT PRIMARY KEY, j JSON)"


class Sides:
    """Both sides of a laid table."""

    def __init__(self, laid: Laid) -> None:
        self.laid = laid
        self.sessions = Sessions(laid.settings)

    def form(self, *, json_types: bool = False) -> Form:
        return Form(self.sessions.flavours([self.laid.table]), json_types)

    def source(self, *, json_types: bool = False) -> ChunkSum:
        form = self.form(json_types=json_types)
        return checksum.source_total(self.sessions.source, [self.laid.table], EVERYTHING, form)[0]

    def target(self, *, json_types: bool = False) -> tuple[ChunkSum, bool | None]:
        form = self.form(json_types=json_types)
        return checksum.target_total(self.sessions.targets, self.laid.table, EVERYTHING, form)

    def equal(self, *, json_types: bool = False) -> bool:
        return self.source(json_types=json_types) == self.target(json_types=json_types)[0]

    def all_in_place(self) -> bool:
        return checksum.all_in_place(self.sessions.targets, self.laid.table, EVERYTHING)


@contextmanager
def sides(laid: Laid) -> Iterator[Sides]:
    found = Sides(laid)
    try:
        yield found
    finally:
        found.sessions.close()


def put(laid: Laid, rows: dict[int, str], *, elsewhere: int = 0) -> None:
    """Rows at the places that the rule says, or so many places beyond."""
    places = laid.table.places
    for key, value in rows.items():
        index = (laid.table.rule.route_many([[str(key)]])[0] + elsewhere) % len(places)
        connection = laid.connect(index)
        connection.execute(f"INSERT INTO {quote(places[index].table)} VALUES (%s, %s)", [key, value])
        connection.close()


ROWS = {1: "a", 2: "b", 9: "c", 70: "d"}
FILL = ["INSERT INTO {t} VALUES (1,'a'),(2,'b'),(9,'c'),(70,'d')"]


@pytest.mark.parametrize("rule", ["computed by the server", "computed here"])
def test_shards_add_up_and_a_row_at_another_place_is_seen(box: Sandbox, tmp_path: Path, rule: str) -> None:
    sharding = spread("id", "t")
    if rule == "computed by the server":
        sharding["table"]["props"]["algorithm-expression"] = "t_${id % 2}"
        sharding["database"]["props"]["sharding-count"] = 4
        sharding |= {"nodes": "ds_${0..3}.t_${0..1}"}
        sharding["table"]["algorithm"] = "HASH_MOD"
        sharding["table"]["props"] = {"sharding-count": 2}
    laid = lay(box, tmp_path, CREATE, sharding, fill=FILL)
    with sides(laid) as both:
        put(laid, {key: value for key, value in ROWS.items() if key != 9})
        assert not both.equal()
        put(laid, {9: "c"})
        assert both.source() == both.target()[0] == ChunkSum(4, both.source().digests)
        assert both.target()[1] is (True if rule == "computed by the server" else None)
        assert both.all_in_place()
        index = laid.table.rule.route_many([["9"]])[0]
        with_nine = laid.connect(index)
        with_nine.execute(f"DELETE FROM {quote(laid.table.places[index].table)} WHERE id = 9")
        with_nine.close()
        put(laid, {9: "c"}, elsewhere=1)
        assert both.equal()
        assert both.target()[1] is (False if rule == "computed by the server" else None)
        assert not both.all_in_place()
    found = compare_chunk(CheckJob(laid.settings, (laid.table,)), EVERYTHING)
    assert list(found.suspects.keys) == [("9",)]
    forget()


def test_rows_that_are_there_twice_do_not_cancel_out(box: Sandbox, tmp_path: Path) -> None:
    laid = lay(box, tmp_path, CREATE, spread("id", "t"), fill=FILL)
    with sides(laid) as both:
        put(laid, ROWS)
        assert both.equal()
        for elsewhere in (1, 2):
            put(laid, {9: "c"}, elsewhere=elsewhere)
            assert not both.equal()
            assert (both.source().digests == both.target()[0].digests) is (elsewhere == 2)  # three times is as once


@pytest.mark.parametrize("pair", PAIRS.values(), ids=list(PAIRS))
@pytest.mark.parametrize("certain", [False, True])
def test_rows_that_nearly_look_alike_differ(box: Sandbox, tmp_path: Path, pair: tuple[str, str], certain: bool) -> None:
    if certain and "NULL" in pair[0] + pair[1]:
        pytest.skip("there is no NULL")
    null = " NOT NULL" if certain else ""
    create = (
        f"CREATE TABLE {{t}} (id INT PRIMARY KEY, a VARCHAR(20){null}, b LONGTEXT{null}) COLLATE utf8mb4_general_ci"
    )
    laid = lay(box, tmp_path, create, one_place("t"), fill=[f"INSERT INTO {{t}} VALUES {pair[0]}"])
    laid.connect(0).execute(f"INSERT INTO t VALUES {pair[1]}")
    with sides(laid) as both:
        assert not both.equal()


BORDERS = ["a", "a\tb", "b\ta", "\t", "1", "\\N", ""]


def test_no_two_rows_of_texts_with_tabs_inside_are_alike(box: Sandbox, tmp_path: Path) -> None:
    create = "CREATE TABLE {t} (a VARBINARY(9) NOT NULL, b VARBINARY(9), c VARBINARY(9) NOT NULL, PRIMARY KEY (a, c))"
    laid = lay(box, tmp_path, create, one_place("t"))
    every = [(a, b, c) for a in BORDERS for b in (*BORDERS, None) for c in BORDERS]
    target, seen = laid.connect(0), set[int]()
    with sides(laid) as both:
        for row in every:
            target.execute("DELETE FROM t")
            target.execute("INSERT INTO t VALUES (%s, %s, %s)", row)
            seen.add(both.target()[0].digests)
    assert len(seen) == len(every)


def test_two_rows_that_swapped_a_value_differ(box: Sandbox, tmp_path: Path) -> None:
    laid = lay(box, tmp_path, CREATE, one_place("t"), fill=FILL)
    target = laid.connect(0)
    target.execute("INSERT INTO t VALUES (1,'a'),(2,'b'),(9,'c'),(70,'d')")
    with sides(laid) as both:
        assert both.equal()
        target.execute("UPDATE t SET v = IF(id = 1, 'b', 'a') WHERE id < 3")
        assert not both.equal()


def test_a_row_too_large_for_one_text_equals_nothing_and_is_compared_by_its_own_digest(
    box: Sandbox, tmp_path: Path
) -> None:
    create = "CREATE TABLE {t} (id INT PRIMARY KEY, a LONGTEXT, b LONGTEXT)"
    insert = "INSERT INTO {t} VALUES (1, REPEAT('a', 900000), REPEAT('b', 900000))"
    laid = lay(box, tmp_path, create, one_place("t"), fill=[insert])
    target, job = laid.connect(0), CheckJob(laid.settings, (laid.table,))
    target.execute(insert.replace("{t}", "t"))
    with globally(box.source, "max_allowed_packet", 1048576), sides(laid) as both:
        assert both.source().rows == 1
        assert both.source().digests != both.source().digests
        forget()  # sessions of before
        assert list(compare_chunk(job, EVERYTHING).suspects.keys) == []
        target.execute("UPDATE t SET b = CONCAT(LEFT(b, 899999), 'c')")
        assert list(compare_chunk(job, EVERYTHING).suspects.keys) == [("1",)]
    forget()


def test_a_row_that_only_a_target_has_differs_also_where_that_server_cannot_digest_it(
    box: Sandbox, tmp_path: Path
) -> None:
    """It was no suspect: what the server has no digest of was equal to what the source does not have."""
    create = "CREATE TABLE {t} (id INT PRIMARY KEY, a TEXT, b TEXT, c TEXT)"
    laid = lay(box, tmp_path, create, one_place("t"), fill=["INSERT INTO {t} VALUES (1, 'a', 'b', 'c')"])
    target, job = laid.connect(0), CheckJob(laid.settings, (laid.table,))
    target.execute("INSERT INTO t VALUES (1, 'a', 'b', 'c'), (2, REPEAT('a', 60000), REPEAT('b', 60000), 'c')")
    forget()  # sessions of before
    with globally(box.targets[0], "max_allowed_packet", 65536):
        assert list(compare_chunk(job, EVERYTHING).suspects.keys) == [("2",)]
    forget()


def test_a_json_documents_types_show_where_its_text_does_not(mysql_box: Sandbox, tmp_path: Path) -> None:
    """A DATE by the stored size; a number's type, which no comparison of the server shows, when it is asked for."""
    fill = ["INSERT INTO {t} VALUES (1, JSON_OBJECT('d', DATE'2020-02-02', 'n', CAST(7 AS UNSIGNED)))"]
    laid = lay(mysql_box, tmp_path, JSON, one_place("t"), fill=fill)
    target = laid.connect(0)
    target.execute("INSERT INTO t VALUES (1, JSON_OBJECT('d', DATE'2020-02-02', 'n', CAST(7 AS UNSIGNED)))")
    with sides(laid) as both:
        assert both.equal()
        assert both.equal(json_types=True)
        target.execute("DELETE FROM t")  # an UPDATE to an equal document writes nothing
        target.execute("INSERT INTO t VALUES (1, JSON_OBJECT('d', DATE'2020-02-02', 'n', 7))")
        assert both.equal()
        assert not both.equal(json_types=True)
        target.execute("UPDATE t SET j = JSON_OBJECT('d', '2020-02-02', 'n', CAST(7 AS UNSIGNED))")
        assert not both.equal()


UNTYPED = {
    "a date and a price": "JSON_OBJECT('d', DATE'2020-02-02', 'p', CAST(12345678.25 AS DECIMAL(10,2)))",
    "types in another order": """JSON_ARRAY(DATE'2020-02-02', '2020-02-02')""",
}


@pytest.mark.parametrize("document", UNTYPED.values(), ids=list(UNTYPED))
def test_types_that_make_up_for_each_other_in_size_are_told_apart_when_asked_for(
    mysql_box: Sandbox, tmp_path: Path, document: str
) -> None:
    laid = lay(mysql_box, tmp_path, JSON, one_place("t"), fill=[f"INSERT INTO {{t}} VALUES (1, {document})"])
    other = "JSON_ARRAY('2020-02-02', DATE'2020-02-02')" if "ARRAY" in document else f"CAST({document} AS CHAR)"
    laid.connect(0).execute(f"INSERT INTO t VALUES (1, {other})")
    with sides(laid) as both:
        assert both.equal()
        assert not both.equal(json_types=True)
    forget()
    settings = laid.settings.model_copy(update={"verify": laid.settings.verify.model_copy(update={"json_types": True})})
    found = compare_chunk(CheckJob(settings, (laid.table,)), EVERYTHING)
    assert list(found.suspects.keys) == [("1",)]
    forget()


def test_a_single_places_rule_counts_too(box: Sandbox, tmp_path: Path) -> None:
    """A row that the rule gives to nobody is none of the only place's."""
    inline = {"column": "id", "algorithm": "INLINE", "props": {"algorithm-expression": "t_${id % 2}"}}
    laid = lay(box, tmp_path, CREATE, {"nodes": "ds_0.t_0", "table": inline}, fill=["INSERT INTO {t} VALUES (2, 'a')"])
    target = laid.connect(0)
    target.execute("INSERT INTO t_0 VALUES (2, 'a')")
    with sides(laid) as both:
        assert both.target()[1] is True
        target.execute("UPDATE t_0 SET id = 1")
        assert both.target()[1] is False


def test_a_json_document_that_was_changed_in_place_is_as_a_new_one(mysql_box: Sandbox, tmp_path: Path) -> None:
    fill = [
        """INSERT INTO {t} VALUES (1, '{"a": "aaaaaaaaaaaaaaaa", "b": [1, 2.5, {"c": "cccc"}], "n": 12345678}')""",
        "UPDATE {t} SET j = JSON_REPLACE(j, '$.a', 'b', '$.b[2].c', 5, '$.n', NULL)",
    ]
    laid = lay(mysql_box, tmp_path, JSON, one_place("t"), fill=fill)
    ((free, text),) = laid.source_rows("JSON_STORAGE_FREE(j), j")
    assert free > 0
    laid.connect(0).execute("INSERT INTO t VALUES (1, %s)", [text])
    with sides(laid) as both:
        assert both.equal()


def test_a_document_stored_in_another_size_is_compared_by_its_types_without_a_look_at_rows(
    mysql_box: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    laid = lay(mysql_box, tmp_path, JSON, one_place("t"), fill=["INSERT INTO {t} VALUES (1, JSON_ARRAY(1.50))"])
    laid.connect(0).execute("INSERT INTO t VALUES (1, JSON_ARRAY(CAST(1.50 AS DECIMAL(20,2))))")
    with sides(laid) as both:
        assert not both.equal()
        assert both.equal(json_types=True)
    monkeypatch.setattr(digest, "suspects", None)
    assert list(compare_chunk(CheckJob(laid.settings, (laid.table,)), EVERYTHING).suspects.keys) == []
    forget()
