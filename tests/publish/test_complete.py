"""Metadata that the log leaves out (MINIMAL, NO_LOG): the same texts as with FULL, and no contradiction goes unseen."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import replace

import pytest
from decode_support import SESSION, RawEvent, changes, decoder_cache, recording, run, server_variables

from migrate.model.errors import StopError
from migrate.model.table import Kind, Table
from migrate.mysql.catalog import collation_charsets, collation_names, load_table
from migrate.publish.decode.rows import DecoderCache
from migrate.publish.decode.tablemap import TableMap, parse_table_map
from migrate.publish.schema.complete import complete
from sandbox.database import DatabaseServer
from sandbox.settings import Flavour
from sandbox.stack import Sandbox
from tests.helpers import session
from tests.types.matrix import Case, cases_of

DATABASE = "complete_metadata"
MODES = {Flavour.MARIADB: ("MINIMAL", "NO_LOG"), Flavour.MYSQL: ("MINIMAL",)}
FLAVOURS = [Flavour(name) for name in os.environ.get("FLAVOURS", "mariadb,mysql").split(",")]


def every_type(server: DatabaseServer, cases: list[Case]) -> dict[str, list[RawEvent]]:
    """The events of one table a type, filled, updated and emptied, by table."""
    with recording(server, DATABASE) as capture:
        with closing(server.connect(DATABASE)) as connection, connection.cursor() as cursor:
            for statement in SESSION:
                cursor.execute(statement)
            for number, case in enumerate(cases):
                values = ", ".join(f"({key}, {value}, 'end')" for key, value in enumerate([*case.values, "NULL"]))
                cursor.execute(f"INSERT INTO t{number} VALUES {values}")
                cursor.execute(f"UPDATE t{number} SET tail = 'changed'")
                cursor.execute(f"DELETE FROM t{number}")
    return {f"t{number}": capture.of(f"t{number}") for number in range(len(cases))}


def completing(server: DatabaseServer, *tables: str) -> DecoderCache:
    """Decoders that take what the log leaves out from the catalog."""
    with session(server) as connection:
        known = {name: load_table(connection, "s", DATABASE, name) for name in tables}
        charsets, names = collation_charsets(connection), collation_names(connection)
    return DecoderCache(
        charsets,
        mariadb=server.flavour is Flavour.MARIADB,
        column_types=lambda _database, name: {column.name: column.type for column in known[name].columns},
        complete=lambda logged: complete(logged, known[logged.table], charsets, names),
    )


@pytest.mark.parametrize(
    ("flavour", "mode"), [(flavour, mode) for flavour in FLAVOURS for mode in MODES[flavour]], ids=str
)
def test_every_type_reads_as_with_full_metadata(request: pytest.FixtureRequest, flavour: Flavour, mode: str) -> None:
    server: DatabaseServer = request.getfixturevalue(f"{flavour}_box").source
    cases = cases_of(flavour)
    creates = [
        f"CREATE TABLE t{number} (id INT PRIMARY KEY, v {case.type}, tail VARCHAR(9) NOT NULL)"
        for number, case in enumerate(cases)
    ]
    run(server, DATABASE, *creates)
    full = every_type(server, cases)
    with server_variables(server, binlog_row_metadata=mode):
        less = every_type(server, cases)

    plain, completed = decoder_cache(server), completing(server, *full)

    for number, case in enumerate(cases):
        table = f"t{number}"
        assert parse_table_map(less[table][0][0], mariadb=flavour is Flavour.MARIADB).columns[0].name is None
        wanted = changes(plain, full[table])
        assert wanted, case.name
        assert changes(completed, full[table]) == wanted, case.name  # and the log's own names do not contradict
        assert changes(completed, less[table]) == wanted, case.name


@pytest.fixture(scope="module")
def logged(box: Sandbox) -> tuple[TableMap, Table, dict[int, str]]:
    """A table map without names, the definition it belongs to, and the server's character sets."""
    with server_variables(box.source, binlog_row_metadata="MINIMAL"):
        events = run(
            box.source,
            DATABASE,
            "CREATE TABLE c (id INT UNSIGNED PRIMARY KEY, n DECIMAL(10,2), v VARCHAR(20) CHARACTER SET latin1,"
            " e ENUM('a','b'), s SET('x','y'), at DATETIME(3), note TEXT NOT NULL, b BIT(9))",
            "INSERT INTO c VALUES (1, 1, 'v', 'a', 'x', NOW(), '', 1)",
        )
    with session(box.source) as connection:
        table = load_table(connection, "s", DATABASE, "c")
        return parse_table_map(events[0][0]), table, collation_charsets(connection)


def altered(table: Table, name: str, **changes: object) -> Table:
    columns = tuple(
        replace(column, **changes) if column.name == name else column  # type: ignore[arg-type]
        for column in table.columns
    )
    return replace(table, columns=columns)


@pytest.mark.parametrize(
    ("column", "change", "told"),
    [
        ("id", {"type": "int(11)"}, "in the log unsigned"),
        ("id", {"type": "bigint(20) unsigned"}, "in the log type 3"),
        ("n", {"type": "decimal(10,3)"}, r"decimal\(10,3\) in its definition"),
        ("n", {"type": "decimal(10,2) unsigned"}, "in the log signed"),
        ("v", {"type": "varchar(21)"}, r"varchar\(21\) in its definition"),
        ("v", {"charset": "utf8mb4", "kind": Kind.TEXT}, "in its definition"),
        ("v", {"charset": "cp1251"}, "is in cp1251 in its definition, in the log in latin1"),
        ("v", {"type": "varbinary(20)", "kind": Kind.BINARY, "charset": None}, "is in binary in its definition"),
        ("e", {"type": "enum(" + ",".join(f"'{n}'" for n in range(256)) + ")"}, "in its definition"),
        ("s", {"type": "set('1','2','3','4','5','6','7','8','9')"}, "in its definition"),
        ("at", {"type": "datetime(6)"}, r"datetime\(6\) in its definition"),
        ("note", {"type": "mediumtext"}, "mediumtext in its definition"),
        ("note", {"nullable": True}, "cannot be NULL in the log"),
        ("b", {"type": "bit(10)"}, r"bit\(10\) in its definition"),
    ],
)
def test_a_definition_that_is_not_the_logged_one_stops_and_names_the_column(
    logged: tuple[TableMap, Table, dict[int, str]], column: str, change: dict[str, object], told: str
) -> None:
    table_map, table, charsets = logged
    assert [one.name for one in complete(table_map, table, charsets).columns] == list(table.by_name)
    with pytest.raises(StopError, match=rf"{DATABASE}\.c: column '{column}' .*{told}"):
        complete(table_map, altered(table, column, **change), charsets)


def test_a_definition_with_another_collation_stops_and_names_both(
    logged: tuple[TableMap, Table, dict[int, str]], box: Sandbox
) -> None:
    """Only the character set was compared, by which 'a' and 'A' may be one key or two."""
    table_map, table, charsets = logged
    with session(box.source) as connection:
        names = collation_names(connection)
    assert complete(table_map, table, charsets, names) == complete(table_map, table, charsets)
    older = altered(table, "note", collation=str(table.by_name["note"].collation).replace("utf8mb3_", "utf8_"))
    assert complete(table_map, older, charsets, names)
    other = altered(table, "v", collation="latin1_bin")
    with pytest.raises(
        StopError, match="column 'v' has the collation latin1_bin in its definition, in the log latin1_"
    ):
        complete(table_map, other, charsets, names)


def test_a_definition_of_other_width_stops_and_names_both(logged: tuple[TableMap, Table, dict[int, str]]) -> None:
    table_map, table, charsets = logged
    with pytest.raises(
        StopError, match=r"other columns in the log \(8, without names\) than in its definition \(id, n"
    ):
        complete(table_map, replace(table, columns=table.columns[:-1]), charsets)
