"""Keep what a server writes to its log for `scripts.py` and for each type of the matrix: `make record FLAVOUR=mysql`.

The server is started for it, with an empty data directory. The file is named after flavour and version:
`recorded/mysql-9.7.json.gz`. One that is there is written anew.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from decode_support import SESSION, Capture, column_types, recording, select_charsets
from pymysql.cursors import Cursor
from reader_support import DATABASE, Log
from recording import Outcome, Recording
from scripts import SCRIPTS

from migrate.publish.decode.rows import Image
from sandbox.database import DatabaseServer
from tests.types.matrix import Case, printed_cases_of

TYPES = "decode_types"


def record(server: DatabaseServer) -> Recording:
    """server: a running one, whose log nothing else writes."""
    log = Log(server)
    with closing(log.connection):
        version = str(log.connection.one("SELECT VERSION()")[0])  # type: ignore[index]
        flavour = log.connection.flavour
        name = f"{flavour}-{'.'.join(version.split('.')[:2])}"
        made = Recording(name, version, flavour, select_charsets(server), log.tables[(DATABASE, "t")])
        for title, script in SCRIPTS.items():
            if flavour in script.flavours:
                server.execute("DELETE FROM t", "DELETE FROM other", database=DATABASE)
                start, events = log.events(*script.statements)
                made.scripts[title] = start.file, events
    work_through(server, printed_cases_of(flavour), made)
    return made


def work_through(server: DatabaseServer, cases: list[Case], made: Recording) -> None:
    server.execute(f"DROP DATABASE IF EXISTS {TYPES}", f"CREATE DATABASE {TYPES} CHARACTER SET utf8mb4")
    rows: list[tuple[list[Image], list[Image]]] = []
    capture: Capture
    with recording(server, TYPES) as capture:
        with closing(server.connect(TYPES, autocommit=False)) as connection, connection.cursor() as cursor:
            for statement in SESSION:
                cursor.execute(statement)
            for number, case in enumerate(cases):
                rows.append(change_every_row(cursor, f"t{number}", case))
                connection.commit()
    for number, case in enumerate(cases):
        made.column_types[f"t{number}"] = column_types(server, TYPES, f"t{number}")
        made.types[case.name] = Outcome(capture.of(f"t{number}"), *rows[number])


def change_every_row(cursor: Cursor, table: str, case: Case) -> tuple[list[Image], list[Image]]:
    """Fill a table of the case's type, update and empty it. Its rows after the inserts and the updates."""
    values = [*case.values, "NULL"]

    def rows() -> list[Image]:
        cursor.execute(f"SELECT id, {case.select.format('v')}, tail FROM {table} ORDER BY id")
        return [
            (str(key), None if value is None else case.read(str(value)), tail) for key, value, tail in cursor.fetchall()
        ]

    cursor.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, v {case.type}, tail VARCHAR(9) NOT NULL)")
    for number, value in enumerate(values):
        cursor.execute(f"INSERT INTO {table} VALUES ({number}, {value}, 'end')")
    inserted = rows()
    for number in range(len(values)):
        cursor.execute(f"UPDATE {table} SET v = {values[number - 1]}, tail = 'changed' WHERE id = {number}")
    updated = rows()
    cursor.execute(f"DELETE FROM {table} ORDER BY id")
    return inserted, updated


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flavour", choices=("mariadb", "mysql"), required=True)
    flavour = parser.parse_args().flavour
    with tempfile.TemporaryDirectory() as directory:
        server = DatabaseServer(flavour, Path(directory) / "server", options={"max_binlog_size": 1 << 30})
        server.start()
        try:
            sys.stdout.write(f"{record(server).save()}\n")
        finally:
            server.kill()


if __name__ == "__main__":
    main()
