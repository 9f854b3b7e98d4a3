"""Keys and unique values that the target's collation takes for one, and the source's for two: a server of another
flavour has the nearest collation alone, and a table may have been altered on one side alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from migrate.model.errors import StopError
from migrate.model.table import Table
from migrate.mysql.catalog import load_table
from migrate.mysql.connection import Connection, connect
from migrate.mysql.flavours import collation_on
from migrate.target.equal_keys import EqualKeys
from migrate.target.rows import PlaceWriter
from sandbox.database import DatabaseServer
from sandbox.stack import Sandbox
from tests.helpers import address, make_settings, scratch, server_of

OWN = {"mysql": "utf8mb4_0900_ai_ci", "mariadb": "utf8mb4_uca1400_nopad_ai_ci"}
APART = {"mysql": ("\u10d0", "\u1c90"), "mariadb": ("\u326e", "\uac00")}
"""Two keys at a source of this flavour, one at the other: a Georgian letter and the capital that Unicode 11 gave it; a
Hangul syllable, and it in a circle."""


@pytest.fixture
def writer(crossed: Sandbox) -> Iterator[tuple[PlaceWriter, Connection]]:
    source, target = crossed.source, crossed.targets[0]
    own = OWN[str(source.flavour)]
    create = "CREATE TABLE t (k VARCHAR(20) CHARACTER SET utf8mb4 COLLATE {}, n INT, v INT, PRIMARY KEY (n, k))"
    with made(source, target, create.format(own), create.format(collation_on(str(target.flavour), own))) as found:
        yield found


@contextmanager
def made(
    source: DatabaseServer, target: DatabaseServer, here: str, there: str
) -> Iterator[tuple[PlaceWriter, Connection]]:
    """What writes rows of table `t` of a source to that of a target, each made by its statement, and the session."""
    settings = make_settings(sources=[{"name": "main", **address(source)}])
    with scratch(source, "alike") as at_source, scratch(target, "alike") as at_target:
        source.execute(here, database=at_source)
        target.execute(there, database=at_target)
        with closing(connect(settings.sources[0], "source 'main'")) as connection:
            table: Table = load_table(connection, "main", at_source, "t")
        with closing(connect(server_of(target), "target", database=at_target)) as connection:
            yield PlaceWriter(table, "t", alike=EqualKeys(lambda: settings)), connection


def test_a_row_is_not_taken_for_another_ones(crossed: Sandbox, writer: tuple[PlaceWriter, Connection]) -> None:
    """Lost: the row whose key the target alone takes for the new one's; no message named it, and a cutover passed."""
    (places, connection), (one, other) = writer, APART[str(crossed.source.flavour)]
    places.insert(connection, [{"n": "1", "k": one, "v": "1"}, {"n": "1", "k": "a", "v": "1"}])
    for key, there in ((("1", one), True), (("1", "A"), True), (("2", other), False)):
        assert (places.present(connection, [key]) == {key}) is there
    with pytest.raises(
        StopError, match="as equal, but source 'main' treats them as different: their collations"
    ) as caught:
        places.present(connection, [("1", other)])
    assert "`migrate parked skip`" in caught.value.hint
    places.delete(connection, [("1", one)])
    assert places.present(connection, [("1", other)]) == set()


PADDED = "CREATE TABLE t (k VARCHAR(20) CHARACTER SET {0} COLLATE {0}_{1} PRIMARY KEY, v INT)"


def test_a_key_of_a_target_that_was_altered_alone_is_not_taken_for_another_ones(box: Sandbox) -> None:
    """Lost: `a`, where the source's key went to a collation that tells it from `A` and one shard's was forgotten: only
    servers of two flavours were asked about."""
    stricter, looser = PADDED.format("utf8mb4", "bin"), PADDED.format("utf8mb4", "general_ci")
    with made(box.source, box.targets[0], stricter, looser) as (places, connection):
        places.insert(connection, [{"k": "a", "v": "1"}])
        with pytest.raises(
            StopError, match="as equal, but source 'main' treats them as different: their collations"
        ) as caught:
            places.present(connection, [("A",)])
        assert "where the target table has another collation than the source's, alter it to match" in caught.value.hint
    with made(box.source, box.targets[0], looser, looser) as (places, connection):
        places.insert(connection, [{"k": "a", "v": "1"}])
        assert places.present(connection, [("A",)]) == {("A",)}


@pytest.mark.parametrize("charset", ["utf8mb4", "latin1"])
def test_a_key_that_the_source_too_takes_for_the_one_that_is_there_is_that_one(box: Sandbox, charset: str) -> None:
    create = PADDED.format(charset, "bin")
    with made(box.source, box.targets[0], create, create) as (places, connection):
        places.insert(connection, [{"k": "\xe9", "v": "1"}])
        assert places.present(connection, [("\xe9 ",)]) == {("\xe9 ",)}
        assert places.present(connection, [("\xc9",)]) == set()


UNIQUE = (
    "CREATE TABLE t (id INT PRIMARY KEY, u VARCHAR(20) CHARACTER SET utf8mb4 COLLATE {0},"
    " p VARCHAR(20) CHARACTER SET utf8mb4 COLLATE {0}, UNIQUE (u), UNIQUE (p (2)))"
)


def evicted_by(found: tuple[PlaceWriter, Connection], u: str, p: str) -> list[str | None]:
    """The ids of what makes way for a second row."""
    places, connection = found
    with connection.transaction():
        places.insert(connection, [{"id": "1", "u": "a", "p": "\xe9t\xe9"}])
        return [row["id"] for row in places.insert_taking(connection, [{"id": "2", "u": u, "p": p}])]


@pytest.mark.parametrize(("u", "p", "names"), [("A", "zz", "u"), ("z", "\xc9tx", "p")])
def test_a_row_that_the_source_has_beside_another_one_does_not_make_way_for_it(
    box: Sandbox, u: str, p: str, names: str
) -> None:
    """Lost: both rows by turns, and the consumer's time: each evicted the other, was refreshed, and was evicted."""
    stricter, looser = UNIQUE.format("utf8mb4_bin"), UNIQUE.format("utf8mb4_general_ci")
    with made(box.source, box.targets[0], stricter, looser) as found:
        told = rf'the values of key \["2"\] and key \["1"\] in its unique key \({names}\) as equal, but source .main. '
        with pytest.raises(StopError, match=told) as caught:
            evicted_by(found, u, p)
        assert "`migrate parked skip`" in caught.value.hint
        assert found[1].query("SELECT id FROM t") == [], "all of it is taken back"
    with made(box.source, box.targets[0], looser, looser) as found:
        assert evicted_by(found, u, p) == ["1"], "the source cannot have both"
    with made(box.source, box.targets[0], stricter, stricter) as found:
        assert evicted_by(found, u, p) == []


COMPUTED = {
    "a generated column": "g VARCHAR(20) CHARACTER SET utf8mb4 COLLATE {0} AS (u) STORED, UNIQUE (g)",
    "a generated column beside a written one": (
        "g VARCHAR(20) CHARACTER SET utf8mb4 COLLATE {0} AS (CONCAT(u, 'x')) VIRTUAL, UNIQUE (n, g)"
    ),
    "an expression": "UNIQUE ((CONVERT(u USING utf8mb4) COLLATE {0}))",
}


@pytest.mark.parametrize("what", COMPUTED)
def test_a_row_that_the_source_has_beside_another_one_does_not_make_way_for_a_value_that_is_computed(
    box: Sandbox, what: str
) -> None:
    """Lost: both rows by turns, and the consumer's time: each evicted the other and was evicted in turn, where a
    generated column was altered on one side alone: only columns that are written were asked about."""
    if what == "an expression" and box.flavour != "mysql":
        pytest.skip("MySQL only")
    plain = "CREATE TABLE t (id INT PRIMARY KEY, n INT, u VARCHAR(20) COLLATE utf8mb4_bin, {})"
    stricter, looser = (plain.format(COMPUTED[what].format(name)) for name in ("utf8mb4_bin", "utf8mb4_general_ci"))

    def taking(found: tuple[PlaceWriter, Connection], *at_source: str) -> list[str | None]:
        places, connection = found
        for values in at_source:
            box.source.execute(f"INSERT INTO t (id, n, u) VALUES ({values})", database=places.table.database)
        with connection.transaction():
            places.insert(connection, [{"id": "1", "n": "5", "u": "a"}, {"id": "3", "n": "5", "u": "b"}])
            return [row["id"] for row in places.insert_taking(connection, [{"id": "2", "n": "5", "u": "A"}])]

    with made(box.source, box.targets[0], stricter, looser) as found:
        told = r'key \["2"\] and key \["1"\] have in a unique key that it computes for one, and source .main. has both'
        with pytest.raises(StopError, match=told) as caught:
            taking(found, "1, 5, 'a'", "2, 5, 'A'")
        assert "`migrate parked skip`" in caught.value.hint
        assert found[1].query("SELECT id FROM t") == [], "all of it is taken back"
    for held in ((), ("2, 5, 'A'",), ("1, 5, 'other'", "2, 5, 'A'"), ("1, 5, 'a'", "2, 5, 'moved on'")):
        with made(box.source, box.targets[0], stricter, looser) as found:
            assert taking(found, *held) == ["1"], "the source has not both of them: one is to come in the stream"
    with made(box.source, box.targets[0], looser, looser) as found:
        assert taking(found, "2, 5, 'A'") == ["1"]


def test_a_unique_value_that_only_another_flavour_takes_for_one_stops_its_row(crossed: Sandbox) -> None:
    """Lost: as between two collations of one server: the nearest collation of the other flavour is looser."""
    own, (one, other) = OWN[str(crossed.source.flavour)], APART[str(crossed.source.flavour)]
    create = "CREATE TABLE t (id INT PRIMARY KEY, u VARCHAR(20) CHARACTER SET utf8mb4 COLLATE {}, UNIQUE (u))"
    theirs = collation_on(str(crossed.targets[0].flavour), own)
    with made(crossed.source, crossed.targets[0], create.format(own), create.format(theirs)) as (places, connection):
        with connection.transaction():
            places.insert(connection, [{"id": "1", "u": one}, {"id": "2", "u": "a"}])
            assert [row["id"] for row in places.insert_taking(connection, [{"id": "3", "u": "A"}])] == ["2"]
            with pytest.raises(StopError, match="each row would evict the other for ever"):
                places.insert_taking(connection, [{"id": "4", "u": other}])
