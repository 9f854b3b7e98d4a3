"""Server errors sorted by what to do about them.

Numbers: MySQL server and client error references; MariaDB error codes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pymysql
from pymysql.constants import CR

from migrate.model.errors import MigrateError, ServerError, defect
from migrate.mysql.server_words import shown


class ChannelError(pymysql.OperationalError):
    """The server is not trusted with the password, or did not accept our certificate. hint: the way out."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(CR.CR_SSL_CONNECTION_ERROR, message)
        self.hint = hint


class Refused(ServerError):  # noqa: N818 - what it says is what happened
    """A server answered, and does not do what it was asked for."""

    usual = (
        "change at the server, in the table or in the config what the server names, and try again; the manuals of MySQL"
        " and MariaDB explain its error numbers"
    )


DUPLICATE_KEY = 1062
LOAD_FORBIDDEN = frozenset({1148, 3948, 4166})
"""`local_infile` is off at the server: MariaDB, MySQL, MariaDB since 10.5."""
ACCESS_DENIED = frozenset({1044, 1045, 1142, 1143, 1227, 1370, 1698})
UNKNOWN_DATABASE = 1049
_OF_LOGIN = frozenset({1045, 1698})
LOCK_WAIT = 1205
NO_SUCH_COLUMN = 1054
NO_SUCH_TABLE = 1146
READ_ONLY = 1290
REFERRED_TO = 1701
"""A TRUNCATE of a table that a foreign key refers to."""

# Worth the same statement again on a new or the same connection: the server is away, busy, read-only
# for a while, or chose this transaction as the victim.
PASSING = frozenset(
    {1040, 1053, 1077, 1079, 1080, 1158, 1159, 1160, 1161, 1203, 1205, 1213, 1290, 1317, 1792, 1836, 1927, 1969, 3024}
    | {1180, 1021, 1114, 1041, 1037, 1038, 1135, 1152, 1184, 1189, 1190, 1218, 4031}
    | set(range(2000, 2100))
)
OF_A_ROW = frozenset(
    {182, 1048, 1263, 1264, 1265, 1292, 1365, 1366, 1406, 1411, 1416, 1441, 1525, 1526, 1643, 1644, 1690, 1748}
    | {1918, 3140, 3156, 3643, 3751, 3752, 3819, 3903, 3904, 3907, 4025}
)
"""What a server says of a row's values: NULL, too long, out of range, not of the type, in no partition, a check
constraint (MySQL, MariaDB), a trigger's SIGNAL, a document's number (`full_text`); and the same of its generated
columns and keys on expressions. Not of the table: a column that is missing, or that has no default."""
_NO_TLS = (
    "switch TLS on at the server; where the network may be trusted with all that it sends, `tls.mode: off` says so"
)
_SHUTTING_DOWN = frozenset({1053, 1077, 1079})
_NO_CONNECTION = frozenset({2002, 2003, 2005, 2006, 2012, 2013, 2055})


def number(error: BaseException) -> int:
    """The server's or client's error number; 0 when there is none."""
    if isinstance(error, pymysql.MySQLError) and error.args and isinstance(error.args[0], int):
        return error.args[0]
    return 0


def text(error: BaseException) -> str:
    """What may be shown of an error: never a row's values."""
    if isinstance(error, pymysql.MySQLError) and len(error.args) > 1:
        return shown(number(error), str(error.args[1]))
    return str(error) if isinstance(error, MigrateError | pymysql.MySQLError | OSError) else defect(error)


def passes(error: BaseException) -> bool:
    """Whether the error can go away by itself, so that trying again later makes sense."""
    if isinstance(error, pymysql.err.InterfaceError | ConnectionError | TimeoutError):
        return True
    return isinstance(error, pymysql.MySQLError) and number(error) in PASSING


def is_refusal(error: BaseException) -> bool:
    """Whether a server answered, and says the same of the same statement again; not of a login, whose password may be
    under change."""
    return isinstance(error, Refused) or (
        isinstance(error, ServerError)
        and error.__cause__ is not None
        and number(error.__cause__) in ACCESS_DENIED - _OF_LOGIN
    )


def unreachable(error: BaseException | None) -> bool:
    """Whether the server itself is away or going down, rather than refusing us."""
    return isinstance(error, OSError) or (error is not None and number(error) in _NO_CONNECTION | _SHUTTING_DOWN)


def explain(error: BaseException, what: str) -> ServerError:
    """One line for a person about a refused connection or statement.

    Args: the driver's error; what was being done, e.g. "source 'main' at 127.0.0.1:3306".
    """
    code = number(error)
    if isinstance(error, ChannelError):
        return ServerError(f"{what}: {text(error)}", hint=error.hint)
    if code == CR.CR_SSL_CONNECTION_ERROR:
        return ServerError(f"{what}: {text(error)}; nothing was sent", hint=_NO_TLS)
    if code in _OF_LOGIN:
        return ServerError(
            f"{what}: wrong user or password ({text(error)})", hint="check user and password in the config"
        )
    if code in ACCESS_DENIED:
        return ServerError(
            f"{what}: a grant is missing: {text(error)}", hint="docs/grants.md lists what each server needs"
        )
    if code == UNKNOWN_DATABASE:
        return ServerError(f"{what}: {text(error)}", hint="create the database, or fix its name in the config")
    if code in _NO_CONNECTION or isinstance(error, ConnectionError | TimeoutError):
        return ServerError(
            f"{what}: the server does not answer: {text(error)}",
            hint="check that it is running, and that host and port are right",
        )
    kind = Refused if code and not passes(error) else ServerError
    return kind(f"{what}: {text(error)}")


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Turn any driver error inside into `explain()`'s line."""
    try:
        yield
    except (pymysql.MySQLError, ConnectionError, TimeoutError) as error:
        raise explain(error, what) from error
