"""Keys that the target's collation takes for one, and the source's for two: a server of another flavour has the nearest
collation alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from migrate.model.errors import StopError
from migrate.model.table import Table
from migrate.mysql.catalog import load_table
from migrate.mysql.connection import Connection, connect
from migrate.mysql.flavours import collation_on
from migrate.settings import Settings
from migrate.target.equal_keys import Alike
from migrate.target.rows import PlaceWriter
from sandbox.stack import Sandbox
from tests.helpers import address, make_settings, scratch, server_of

OWN = {"mysql": "utf8mb4_0900_ai_ci", "mariadb": "utf8mb4_uca1400_nopad_ai_ci"}
APART = {"mysql": ("\u10d0", "\u1c90"), "mariadb": ("\u326e", "\uac00")}
"""Two keys at a source of this flavour, one at the other: a Georgian letter and the capital that Unicode 11 gave it; a
Hangul syllable, and it in a circle."""


@pytest.fixture
def settings(crossed: Sandbox) -> Settings:
    return make_settings(sources=[{"name": "main", **address(crossed.source)}])


@pytest.fixture
def writer(crossed: Sandbox, settings: Settings) -> Iterator[tuple[PlaceWriter, Connection]]:
    source, target = crossed.source, crossed.targets[0]
    own = OWN[str(source.flavour)]
    create = "CREATE TABLE t (k VARCHAR(20) CHARACTER SET utf8mb4 COLLATE {}, n INT, v INT, PRIMARY KEY (n, k))"
    with scratch(source, "alike") as here, scratch(target, "alike") as there:
        source.execute(create.format(own), database=here)
        target.execute(create.format(collation_on(str(target.flavour), own)), database=there)
        with closing(connect(settings.sources[0], "source 'main'")) as at_source:
            table: Table = load_table(at_source, "main", here, "t")
        with closing(connect(server_of(target), "target", database=there)) as connection:
            yield PlaceWriter(table, "t", alike=Alike(lambda: settings)), connection


def test_a_row_is_not_taken_for_another_ones(crossed: Sandbox, writer: tuple[PlaceWriter, Connection]) -> None:
    """Lost: the row whose key the target alone takes for the new one's; no message named it, and a cutover passed."""
    (made, connection), (one, other) = writer, APART[str(crossed.source.flavour)]
    made.insert(connection, [{"n": "1", "k": one, "v": "1"}, {"n": "1", "k": "a", "v": "1"}])
    for key, there in ((("1", one), True), (("1", "A"), True), (("2", other), False)):
        assert (made.present(connection, [key]) == {key}) is there
    with pytest.raises(StopError, match="for one, and source 'main' for two: their collations") as caught:
        made.present(connection, [("1", other)])
    assert "`migrate parked skip`" in caught.value.hint
    made.delete(connection, [("1", one)])
    assert made.present(connection, [("1", other)]) == set()
