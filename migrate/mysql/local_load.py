"""`LOAD DATA LOCAL` of bytes that this process has, and of nothing else.

The server answers the statement by asking for a file, and may ask for any (MySQL manual, "Security Considerations for
LOAD DATA LOCAL"). No file is opened here: the one name that the statement has is answered with our own bytes, any
other one with nothing, and by an error. Outside of `load` the driver refuses every such question itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pymysql
from pymysql.constants import COMMAND, SERVER_STATUS
from pymysql.protocol import LoadLocalPacketWrapper, OKPacketWrapper

from migrate.model.errors import ServerError
from migrate.mysql.connection import Connection, file_asked

FILE = "migrate"
"""The name that the statement has in the place of a file's."""


@dataclass(frozen=True, slots=True)
class LoadCounts:
    rows: int  # that were inserted
    warnings: int  # at most 65,535


def load(connection: Connection, statement: str, blocks: Iterable[bytes]) -> LoadCounts:
    """Run a `LOAD DATA LOCAL INFILE 'migrate' …` statement with these bytes as the file's.

    Args: blocks: each below 16 MiB. The session must be opened with `loads`.
    Raises: the driver's error; StopError when the server asks for another file; ServerError when it asks for none.
    """
    connection.enter()
    raw: Any = connection.raw
    if raw._result is not None and raw._result.unbuffered_active:
        raise RuntimeError("a result is still being read")
    raw._execute_command(COMMAND.COM_QUERY, statement % ())  # %% is % everywhere, see `Connection`
    asked = raw._read_packet()  # raises what the server says instead
    if not asked.is_load_local_packet():
        connection.close()
        raise ServerError(f"{connection.name}: the server did not ask for the rows of LOAD DATA LOCAL")
    name = LoadLocalPacketWrapper(asked).filename
    if name != FILE.encode():
        connection.close()
        raise file_asked(connection.name, f"the file {name!r}")
    try:
        for block in blocks:
            if block:
                raw.write_packet(block)
        raw.write_packet(b"")
        done = OKPacketWrapper(raw._read_packet())
    except pymysql.MySQLError:
        raise  # the server's answer; or the driver has closed the session
    except BaseException:
        connection.close()  # what were sent next would be taken for rows
        raise
    raw.server_status = done.server_status
    if done.server_status & SERVER_STATUS.SERVER_MORE_RESULTS_EXISTS:
        raise RuntimeError("one statement gave several results")
    return LoadCounts(done.affected_rows, done.warning_count)
